package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) runsCommand() *cobra.Command {
	var (
		output string
		limit  int
	)
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List the runs, newest first",
		Args:  noArguments,
		RunE:  func(*cobra.Command, []string) error { return a.runs(output, limit) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json: one object a line")
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "how many; 0 is all")
	return cmd
}

func (a *app) runs(output string, limit int) error {
	if err := oneOf("--output", output, "text", "json"); err != nil {
		return err
	}
	s, err := a.store()
	if err != nil {
		return err
	}
	runs, err := s.Runs(limit)
	if err != nil {
		return err
	}
	if output == "json" {
		return jsonLines(a.out("json"), runs)
	}
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tPIPELINE\tSTATUS\tSTARTED\tTIME")
	for _, r := range runs {
		took := ""
		if !r.Ended.IsZero() {
			took = max(0, r.Ended.Sub(r.Created)).Round(100 * time.Millisecond).String() // the clock may have been set
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", r.ID, r.Name, r.Status, r.Created.Local().Format(time.DateTime), took)
	}
	return t.Flush()
}

func jsonLines[T any](w io.Writer, items []T) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, item := range items {
		if err := enc.Encode(item); err != nil {
			return err
		}
	}
	return nil
}
