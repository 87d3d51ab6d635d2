package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"flow/steps"
)

func (a *app) planCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show what a run would do, without running anything",
		Long: "plan shows the steps in their order, each with the command line of its agent, its prompt as far as it is\n" +
			"known, its limits, and how many turns the agents may take. ‹.steps.x.text› stands for what only the run will know.\n" +
			"Steps of one stage may run at once. Nothing is started or written, no agent need be installed, and no secret\n" +
			"is read: of the environment there are only names.",
		Example: "  flow plan review.yaml -i branch=main\n  flow plan review.yaml -o json | jq '.steps[].agents[].command'",
		Args:    arguments(1, 1, "one pipeline file"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.plan(args[0], f) },
	}
	fl := cmd.Flags()
	f.bindInputs(fl)
	fl.StringVarP(&f.output, "output", "o", "text", "text or json")
	return cmd
}

func (a *app) plan(file string, f runFlags) error {
	if err := oneOf("--output", f.output, "text", "json"); err != nil {
		return err
	}
	plan, _, err := a.load(file)
	if err != nil {
		return err
	}
	inputs, err := a.inputs(plan, f)
	if err != nil {
		return err
	}
	workspace, err := os.Getwd()
	if err != nil {
		return err
	}
	p, err := steps.NewPreview(steps.PreviewConfig{Plan: plan, Adapters: adapters(), Inputs: inputs, Workspace: workspace})
	if err != nil {
		return err
	}
	if f.output == "json" {
		return printJSON(a.out("json"), p)
	}
	var b bytes.Buffer
	printPreview(&b, p)
	_, err = a.stdout.Write(b.Bytes())
	return err
}

// preview prints a steps.Preview for people.
type preview struct {
	b      *bytes.Buffer
	indent string
}

func printPreview(b *bytes.Buffer, p *steps.Preview) {
	w := preview{b: b}
	w.line("%s", p.Name)
	w.field("workspace", p.Workspace)
	w.field("inputs", assignments(p.Inputs))
	w.field("secrets", strings.Join(p.Secrets, " "))
	w.field("budget", budgetText(p.Budget))
	if l := p.OnLimit; l != nil && l.Wait > 0 {
		w.field("on limit", "wait up to "+l.Wait.String()+map[bool]string{true: ", then fallback"}[l.Fallback])
	} else if l != nil && l.Fallback {
		w.field("on limit", "fallback")
	}
	if p.Limit > 0 {
		w.field("at once", plural(p.Limit, "step"))
	}
	w.field("settings", originText(p.Origin))
	w.field("agent turns", p.Turns.String()+", without retries and failing checks")
	w.steps(p.Steps)
}

func (w preview) line(format string, args ...any) {
	w.b.WriteString(strings.TrimRight(w.indent+fmt.Sprintf(format, args...), " ") + "\n")
}

// field is a name with its value, or nothing for an empty value.
func (w preview) field(name, value string) {
	if value != "" {
		w.line("  %-11s %s", name, value)
	}
}

const previewLines = 12 // of a prompt or script

// block shows the first lines of a text.
func (w preview) block(name, text string) {
	if text == "" {
		return
	}
	text = strings.TrimRight(text, "\n")
	lines := strings.Split(text, "\n")
	if len(lines) == 1 && len(text) <= 100 {
		w.field(name, text)
		return
	}
	w.line("  %s", name)
	rest := len(lines) - previewLines
	for _, line := range lines[:min(len(lines), previewLines)] {
		w.line("    │ %s", line)
	}
	if rest > 0 {
		w.line("    … %s more: -o json", plural(rest, "line"))
	}
}

func (w preview) steps(all []*steps.PreviewStep) {
	stage := 0
	for _, s := range all {
		if s.Stage != stage {
			stage = s.Stage
			w.line("")
			w.line("stage %d", stage)
		}
		w.step(s)
	}
}

func (w preview) step(s *steps.PreviewStep) {
	head := fmt.Sprintf("  %s  %s", s.Path, s.Kind)
	if len(s.Needs) > 0 {
		head += "  after " + strings.Join(s.Needs, ", ")
	}
	w.line("%s", head)
	w.indent += "  "
	w.many(s)
	w.work(s)
	w.limits(s)
	for _, problem := range s.Problems {
		w.field("problem", problem)
	}
	if len(s.Steps) > 0 {
		w.indent += "  "
		w.steps(s.Steps)
	}
}

// many says whether and how often a step is done.
func (w preview) many(s *steps.PreviewStep) {
	if c := s.If; c != nil {
		known := ""
		if c.Value != nil {
			known = map[bool]string{true: ": true", false: ": false, it is skipped"}[*c.Value]
		}
		w.field("if", c.Expression+known)
	}
	if f := s.Foreach; f != nil {
		text := oneLine(f.List, 100)
		if f.Count != nil {
			text += ": " + plural(*f.Count, "item")
		}
		if f.MaxParallel > 0 {
			text += fmt.Sprintf(", at most %d at once", f.MaxParallel)
		}
		w.field("for each of", text)
	}
	if r := s.Repeat; r != nil {
		text := fmt.Sprintf("%s, at most %s, then it %s", r.Until, plural(r.Max, "round"), map[bool]string{true: "goes on", false: "fails"}[r.GoOn])
		w.field("until", text)
	}
	w.field("isolation", s.Isolation)
}

// work says what a step does.
func (w preview) work(s *steps.PreviewStep) {
	w.field("choice", s.Choice)
	for _, a := range s.Agents {
		w.agent(a)
	}
	w.field("session", s.Session)
	w.block("prompt", s.Prompt)
	w.block("ask", s.Question)
	w.field("merge", strings.Join(s.Merge, ", "))
	w.field("file", s.Pipeline)
	w.field("shell", s.Shell)
	w.field("sandbox", s.Sandbox)
	w.block("run", s.Script)
	w.field("values", assignments(s.Values))
	for _, v := range s.With {
		w.block("with "+v.Name, v.Value)
	}
	for _, v := range s.Set {
		w.block("set "+v.Name, v.Value)
	}
	w.block("check", s.Check)
}

func (w preview) agent(a steps.PreviewAgent) {
	name := a.Profile
	if a.Use != a.Profile {
		name += " (" + a.Use + ")"
	}
	parts := []string{name, "sandbox " + a.SandboxText()}
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	if len(a.Rules) > 0 { // which the protocol keeps, or not
		add("transport", a.Transport)
	}
	add("model", a.Model)
	add("approval", a.Approval)
	add("fallback", strings.Join(a.Fallback, " "))
	if a.MaxTurns > 0 {
		add("at most", plural(a.MaxTurns, "turn")+" of the model")
	}
	if a.MaxCost > 0 {
		add("at most", dollars(a.MaxCost))
	}
	w.field(map[bool]string{true: "judge", false: "agent"}[a.Judge], strings.Join(parts, ", "))
	w.field("command", commandLine(a.Command))
	w.field("settings", originText(a.Origin))
	w.field("problem", a.Problem)
	for _, r := range a.Rules {
		text := r.Rule + ": " + string(r.Kept)
		if r.Why != "" {
			text += " (" + r.Why + ")"
		}
		w.field("rule", text)
	}
}

// originText says which settings are not the pipeline's, by the file that has them.
func originText(origin map[string]string) string {
	keys := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(origin)) {
		file := strings.TrimRight(origin[key], "0123456789:") // without line and column
		if key = strings.Replace(key, "permissions.least", "permissions.default", 1); !slices.Contains(keys[file], key) {
			keys[file] = append(keys[file], key)
		}
	}
	var parts []string
	for _, file := range slices.Sorted(maps.Keys(keys)) {
		parts = append(parts, strings.Join(keys[file], ", ")+" from "+file)
	}
	return strings.Join(parts, "; ")
}

// limits says what bounds a step, and what its processes are given.
func (w preview) limits(s *steps.PreviewStep) {
	var bounds []string
	add := func(format string, args ...any) { bounds = append(bounds, fmt.Sprintf(format, args...)) }
	if s.Timeout > 0 {
		add("timeout %s", s.Timeout)
	}
	if s.IdleTimeout > 0 {
		add("idle-timeout %s", s.IdleTimeout)
	}
	if s.Retry.Max > 0 {
		add("retried %d times", s.Retry.Max)
	}
	if s.CheckMax > 0 {
		add("the check may fail %d times", s.CheckMax)
	}
	if s.Tolerated {
		add("a failure is tolerated")
	}
	if s.Cache {
		add("cached")
	}
	w.field("limits", strings.Join(bounds, ", "))
	w.field("budget", budgetText(s.Budget))
	if s.Cwd != "." {
		w.field("cwd", s.Cwd)
	}
	w.field("env", strings.Join(s.Env, " "))
	w.field("artifacts", strings.Join(s.Artifacts, " "))
	if len(s.Steps) > 0 || s.Foreach != nil || s.Repeat != nil {
		w.field("agent turns", s.Turns.String())
	}
}
