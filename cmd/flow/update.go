package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"flow/pipeline"
	"flow/state"
	"flow/steps"
)

// update lets the run go on with its pipeline's file as it is today: what changed is
// printed, and the steps concerned begin again. flags are inputs to be changed.
func (e *engine) update(values map[string]json.RawMessage, flags []string) error {
	header := e.run.Header()
	plan, source, err := e.load(fileOf(header))
	if err != nil {
		return err
	}
	inputs, err := e.rebind(plan, values, flags)
	if err != nil {
		return err
	}
	secrets, err := e.app.secrets(plan)
	if err != nil {
		return err
	}
	if err := e.withoutSecrets(secrets, inputs); err != nil {
		return err
	}
	before, err := e.plan.BindInputs(nil, values)
	if err != nil {
		return err
	}
	changes := pipeline.Compare(e.plan, plan, before, inputs)
	if err := printChanges(e.stderr, header.ID, changes); err != nil {
		return err
	}
	e.plan, e.inputs = plan, inputs
	return e.recordUpdate(source, changes)
}

// rebind binds the values that a run has, as far as plan still declares them, and those
// that flags change.
func (a *app) rebind(plan *pipeline.Plan, values map[string]json.RawMessage, flags []string) (map[string]any, error) {
	changed, err := inputFlags(flags)
	if err != nil {
		return nil, err
	}
	kept := map[string]json.RawMessage{}
	for _, in := range plan.Inputs {
		if _, given := changed[in.Name]; values[in.Name] != nil && !given {
			kept[in.Name] = values[in.Name]
		}
	}
	bound, err := plan.BindInputs(changed, kept)
	if err != nil {
		return nil, usageError{err}
	}
	return bound, nil
}

// printChanges prints what differs, one step a line.
func printChanges(w io.Writer, run string, changes []pipeline.Change) error {
	if len(changes) == 0 {
		_, err := fmt.Fprintf(w, "run %s: its pipeline has no other steps than before\n", run)
		return err
	}
	fmt.Fprintf(w, "run %s goes on with another plan:\n", run)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, c := range changes {
		switch c.Kind {
		case pipeline.Added:
			fmt.Fprintf(t, "  + %s\tis new\n", c.Path)
		case pipeline.Removed:
			fmt.Fprintf(t, "  - %s\tis gone\n", c.Path)
		case pipeline.Changed:
			fmt.Fprintf(t, "  ~ %s\tchanged: %s\n", c.Path, strings.Join(c.What, ", "))
		case pipeline.Follows:
			fmt.Fprintf(t, "  > %s\tneeds %s\n", c.Path, c.Of)
		}
	}
	return t.Flush()
}

// recordUpdate stores the plan that the run goes by from now on, and takes back what the
// steps that changed have done.
func (e *engine) recordUpdate(source []byte, changes []pipeline.Change) error {
	var dropped []string
	for _, c := range changes {
		dropped = append(dropped, c.Path)
	}
	u, err := steps.NewUpdate(e.run.Records(), dropped)
	if err != nil {
		return err
	}
	plan, err := json.Marshal(e.plan)
	if err != nil {
		return err
	}
	inputs, err := json.Marshal(e.inputs)
	if err != nil {
		return err
	}
	for ref, data := range map[*string][]byte{&u.Pipeline: source, &u.Plan: plan, &u.Inputs: inputs} {
		if *ref, err = e.run.PutBlob(data); err != nil {
			return err
		}
	}
	typ, data := u.Record()
	if err := e.run.Append(context.Background(), typ, data, true); err != nil {
		return err
	}
	text, err := json.Marshal(data)
	e.records = append(e.records, state.Record{Type: typ, Data: text})
	return err
}
