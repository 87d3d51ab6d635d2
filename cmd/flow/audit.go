package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"flow/state"
	"flow/steps"
)

func (a *app) auditCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "audit RUN",
		Short: "Show who decided what the agents of a run might do",
		Long: "audit lists every decision about a call that an agent wanted to make: which rule or which person\n" +
			"decided, and how. A call that no rule and no default is about leaves no line, unless the agent asked.",
		Example: "  flow audit last\n  flow audit last -o json | jq 'select(.decision == \"deny\")'",
		Args:    arguments(1, 1, "one run"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.audit(args[0], output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json: one object a line")
	return cmd
}

func (a *app) audit(name, output string) error {
	if err := oneOf("--output", output, "text", "json"); err != nil {
		return err
	}
	v, err := a.view(name)
	if err != nil {
		return err
	}
	a.maskKnown(v)
	if output == "json" {
		return v.Audit(func(line []byte) error {
			_, err := fmt.Fprintf(a.out(output), "%s\n", line)
			return err
		})
	}
	return a.auditTable(v)
}

func (a *app) auditTable(v *state.View) error {
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "TIME\tSTEP\tAGENT\tDECISION\tBY\tRISK\tTOOL\tTARGET\tRULE")
	err := v.Audit(func(line []byte) error {
		var e steps.AuditEntry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("the audit log of run %s: %w", v.Header().ID, err)
		}
		by := e.By
		if e.Person != "" {
			by += " " + e.Person
		}
		rule := e.Rule
		if e.Where != "" {
			rule += " (" + e.Where + ")"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Time.Local().Format(time.TimeOnly), e.Step, e.Agent, e.Decision,
			oneLine(by, 40), e.Risk, e.Tool, oneLine(e.Target, 60), oneLine(rule, 80))
		return nil
	})
	if err != nil {
		return err
	}
	return t.Flush()
}
