package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"flow/cmd/flow/internal/console"
	"flow/pipeline/dag"
	"flow/steps"
)

func (a *app) outputCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "output RUN STEP",
		Short: "Print a step's text, or its JSON output",
		Args:  arguments(2, 2, "a run and a step"),
		RunE:  func(_ *cobra.Command, args []string) error { return a.stepOutput(args[0], args[1]) },
	}
}

func (a *app) stepOutput(name, step string) error {
	v, err := a.view(name)
	if err != nil {
		return err
	}
	masker := a.maskKnown(v)
	if err := knownStep(v, step); err != nil {
		return err
	}
	m, err := machine(v)
	if err != nil {
		return err
	}
	for _, s := range m.Steps() {
		if s.Path != step {
			continue
		}
		r, err := newStepReport(s)
		if err == nil {
			r, err = r.loaded(v)
		}
		switch {
		case err != nil:
			return err
		case len(r.Output) > 0:
			_, err = fmt.Fprintln(a.out("json"), string(masker.JSON(r.Output)))
		case r.Text != nil:
			err = a.printText(strings.TrimRight(*r.Text, "\n"))
		case s.Form != dag.Single:
			return noOutput(m, v.Header().ID, step)
		default:
			return fmt.Errorf("step %s has no output: it is %s", step, standing(s.Status, v.Summary().Status))
		}
		if r.cut {
			fmt.Fprintf(a.stderr, "warning: this is the first part; all of it is in the run's directory, in attempts/\n")
		}
		return err
	}
	return noOutput(m, v.Header().ID, step)
}

// noOutput says of a step that is many, or has steps in it, which of them can be asked for.
func noOutput(m *dag.Machine, run, step string) error {
	for _, s := range m.Steps() {
		inside := strings.HasPrefix(s.Path, step+".") || steps.StaticPath(s.Path) == step
		if inside && s.Form == dag.Single && s.Attempts > 0 {
			return usageError{fmt.Errorf("%s is a group or is done several times, and has no output of its own\nhint: name a step inside it, such as %s", step, s.Path)}
		}
	}
	return fmt.Errorf("step %s has no output yet\nhint: flow show %s lists the steps as they stand", step, run)
}

// printText prints data: as it is where a program takes it, clean where a person sees it. In
// the log of a build system it must not give commands, so that there only a file gets the
// text as it is.
func (a *app) printText(text string) error {
	out := a.exact()
	if isTerminal(a.stdout) || a.logged() && !isRegular(a.stdout) {
		out = a.stdout
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// logged reports whether a build system reads what flow prints: GitHub Actions and those that
// do as it does, Azure Pipelines, TeamCity.
func (a *app) logged() bool {
	return a.getenv("GITHUB_ACTIONS") != "" || a.getenv("TF_BUILD") != "" || a.getenv("TEAMCITY_VERSION") != ""
}

func isRegular(f any) bool {
	file := console.File(f)
	if file == nil {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}
