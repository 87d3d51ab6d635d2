package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"flow/pipeline"
	"flow/state"
)

type configFlags struct {
	origin bool
	env    bool
	output string
}

func (a *app) configCommand() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use:   "config [PIPELINE] [KEY...]",
		Short: "Show what configurations, variables and defaults say",
		Long: "config prints every value that holds, of flags, variables, the project's .flow.yaml and the user's\n" +
			"configuration, with PIPELINE (a path or a .yaml file) those of that pipeline too. A KEY such as `agents.claude`\n" +
			"limits it to what begins with that; one value alone is printed without its key. With --show-origin each has\n" +
			"the place that says so. What variables of agents hold is not shown.",
		Example: "  flow config --show-origin\n  flow config review.yaml agents.reviewer.model",
		Args:    arguments(0, 1000, "a pipeline and keys"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.showConfig(args, f) },
	}
	cmd.Flags().BoolVar(&f.origin, "show-origin", false, "show where each value comes from: file:line:col, a variable, a flag or default")
	cmd.Flags().BoolVar(&f.env, "show-env", false, "show the values of agents' variables")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	return cmd
}

func (a *app) showConfig(args []string, f configFlags) error {
	if err := oneOf("--output", f.output, "text", "json"); err != nil {
		return err
	}
	file := ""
	if len(args) > 0 && isPipelinePath(args[0]) {
		file, args = args[0], args[1:]
	}
	all, err := a.settings(file)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Private && !f.env {
			all[i].Value = "(hidden)"
		}
	}
	chosen := slices.DeleteFunc(all, func(s pipeline.Setting) bool { return !belongs(s.Key, args) })
	if f.output == "json" {
		return printJSON(a.out("json"), append([]pipeline.Setting{}, chosen...))
	}
	if len(chosen) == 0 {
		fmt.Fprintf(a.stderr, "flow: nothing sets %s\nhint: flow config lists what is set\n", strings.Join(args, ", "))
		return exitError{exitFailed}
	}
	return printSettings(a, chosen, args, f.origin)
}

// isPipelinePath tells a pipeline's path from a key.
func isPipelinePath(arg string) bool {
	return strings.Contains(arg, "/") || filepath.Ext(arg) == ".yaml" || filepath.Ext(arg) == ".yml"
}

// belongs says whether a key is one of those asked for, or below one.
func belongs(key string, asked []string) bool {
	return len(asked) == 0 || slices.ContainsFunc(asked, func(a string) bool { return key == a || strings.HasPrefix(key, a+".") })
}

// printSettings prints a table, or the value alone of one key.
func printSettings(a *app, all []pipeline.Setting, asked []string, origin bool) error {
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	alone := len(all) == 1 && len(asked) == 1 && all[0].Key == asked[0]
	for _, s := range all {
		var cells []string
		if !alone {
			cells = append(cells, s.Key)
		}
		cells = append(cells, settingText(s.Value))
		if origin {
			cells = append(cells, s.Origin)
		}
		fmt.Fprintln(t, printable(strings.Join(cells, "\t")))
	}
	return t.Flush()
}

// settingText is a value on one line: text as it is, others as JSON.
func settingText(v any) string {
	if s, ok := v.(string); ok {
		return oneLine(s, 1000)
	}
	data, _ := json.Marshal(v) // it came from a plan
	return strings.Trim(string(data), `"`)
}

// settings are all that hold, for the pipeline in file or, with "", for any of the directory.
func (a *app) settings(file string) ([]pipeline.Setting, error) {
	o, warnings, err := a.options(file)
	a.warn(warnings)
	if err != nil {
		return nil, err
	}
	plan, source := pipeline.Configured(o), []byte(nil)
	if file != "" {
		if plan, _, err = check(file, o); err != nil {
			return nil, err
		}
		if source, err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	all := a.budgets(pipeline.Settings(plan, source, o))
	if !slices.ContainsFunc(all, func(s pipeline.Setting) bool { return s.Key == "concurrency.steps" }) {
		all = append(all, pipeline.Setting{Key: "concurrency.steps", Value: 4})
	}
	program, err := a.programSettings()
	all = append(all, program...)
	for i := range all {
		if all[i].Origin == "" {
			all[i].Origin = "default"
		}
	}
	return all, err
}

// budgets puts the variables that bound a run before what files say.
func (a *app) budgets(all []pipeline.Setting) []pipeline.Setting {
	for _, name := range []string{"budget-usd", "budget-tokens"} {
		text := a.getenv(variableOf(name))
		if text == "" {
			continue
		}
		s := pipeline.Setting{Key: strings.Replace(name, "-", ".", 1), Value: text, Origin: variableOf(name)}
		if json.Valid([]byte(text)) {
			s.Value = json.RawMessage(text)
		}
		if i := slices.IndexFunc(all, func(other pipeline.Setting) bool { return other.Key == s.Key }); i >= 0 {
			all[i] = s
		} else {
			all = append(all, s)
		}
	}
	return all
}

// programSettings are the values about flow itself.
func (a *app) programSettings() ([]pipeline.Setting, error) {
	dir, err := state.DefaultDir(a.getenv)
	if err != nil {
		dir = ""
	}
	var all []pipeline.Setting
	for _, s := range []struct{ key, given string }{
		{"state-dir", cmp.Or(a.stateDir, dir)},
		{"log-level", a.logLevel},
		{"quiet", "false"},
		{"no-input", "false"},
	} {
		value, origin, err := a.program(s.key, s.given)
		if err != nil {
			return nil, err
		}
		all = append(all, pipeline.Setting{Key: s.key, Value: value, Origin: origin})
	}
	return all, nil
}
