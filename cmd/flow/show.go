package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"flow/pipeline/dag"
	"flow/state"
	"flow/steps"
)

func (a *app) showCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show RUN",
		Short: "Show the state of a run and its steps",
		Long:  "show prints the state of a run and of each of its steps, also while it runs.\nRUN is a run's id, the beginning of one, or `last`.",
		Args:  arguments(1, 1, "one run"),
		RunE:  func(_ *cobra.Command, args []string) error { return a.show(args[0], output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

func (a *app) show(name, output string) error {
	if err := oneOf("--output", output, "text", "json"); err != nil {
		return err
	}
	v, err := a.view(name)
	if err != nil {
		return err
	}
	a.maskKnown(v)
	r, err := readReport(v)
	if err != nil {
		return err
	}
	if output == "json" {
		return r.print(a.out(output), output)
	}
	return r.table(a.stdout, v.Header())
}

// readReport is the report of a recorded run, the same that ended it.
func readReport(v *state.View) (*report, error) {
	m, err := machine(v)
	if err != nil {
		return nil, err
	}
	r := newReport(v.Header(), m, v.Summary().Status, v)
	open, err := openQuestions(v, m)
	for _, q := range open {
		if q.Permission != nil && !steps.Answered(v, q.Key()) {
			r.Asks = append(r.Asks, q)
		}
	}
	return r, errors.Join(err, r.conclusion(v.Records()))
}

// conclusion takes in what the run as a whole has come to, unless it went on after that.
func (r *report) conclusion(records []state.Record) error {
	for i, rec := range slices.Backward(records) {
		var to any
		switch {
		case rec.Type == recordOutputs && r.Status == string(dag.OK):
			to = &r.Outputs
		case rec.Type == recordProblem && r.Status == string(dag.Failure):
			to = &r.Error
		default:
			continue
		}
		for _, err := range steps.Facts(records[i+1:]) {
			return err
		}
		if err := json.Unmarshal(rec.Data, to); err != nil {
			return fmt.Errorf("record %d of run %s: %w", rec.Seq, r.Run, err)
		}
		return nil
	}
	return nil
}

func (r *report) table(w io.Writer, h state.Header) error {
	fmt.Fprintf(w, "run       %s\npipeline  %s (%s)\nstatus    %s\nstarted   %s\nworkspace %s\n\n", r.Run, r.Name, h.File, r.Status, h.Created.Local().Format(time.DateTime), h.Workspace)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "STEP\tSTATUS\tAGENT\tATTEMPTS\tTIME\tTOKENS\tCOST\tNOTE")
	for _, s := range r.Steps.withoutCrowds() {
		tokens, cost := "", ""
		if s.Usage != nil {
			tokens = fmt.Sprint(s.Usage.TotalTokens)
		}
		if s.CostUSD != nil {
			cost = fmt.Sprintf("$%.4f", *s.CostUSD)
		}
		attempts, took := s.effort()
		note := deref(s.Error)
		if s.Question != nil {
			note = s.Question.Text
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.path, s.Status, deref(s.Agent), attempts, took, tokens, cost, oneLine(note, 80))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, q := range r.Asks {
		fmt.Fprintf(w, "\nstep %s asks: %s\nhint: %s [--deny]\n", q.Path, q.Text, approveLine(r.Run, q))
	}
	if r.Error != "" {
		fmt.Fprintf(w, "\n%s\n", r.Error)
	}
	if len(r.Outputs) > 0 {
		fmt.Fprintln(w, "\noutputs:")
		return r.print(w, "text")
	}
	return nil
}

// effort is the number of attempts and the time they took, both empty where the step
// has none of its own, and the time also while it is not known.
func (s stepReport) effort() (attempts, took string) {
	if s.Attempts == 0 {
		return "", ""
	}
	if s.Status != string(dag.Running) && s.Status != state.StatusInterrupted {
		took = (time.Duration(s.DurationMS) * time.Millisecond).Round(100 * time.Millisecond).String()
	}
	return strconv.Itoa(s.Attempts), took
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
