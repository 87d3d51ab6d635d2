package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

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
			err = a.printText(string(r.Output))
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

// printText prints text as it is, or without control characters to a terminal: an
// agent must not be able to steer it.
func (a *app) printText(text string) error {
	if isTerminal(a.stdout) {
		text = printable(text)
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}
