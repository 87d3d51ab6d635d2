package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
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
		r, err := newStepReport(s, v)
		switch {
		case err != nil:
			return err
		case len(r.Output) > 0:
			_, err = fmt.Fprintf(a.stdout, "%s\n", r.Output)
		case r.Text != nil:
			_, err = fmt.Fprintln(a.stdout, strings.TrimRight(*r.Text, "\n"))
		default:
			return fmt.Errorf("step %s has no output: it is %s", step, r.Status)
		}
		return err
	}
	return fmt.Errorf("step %s has no output yet", step)
}
