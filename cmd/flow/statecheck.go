package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"flow/agents"
	"flow/state"
	"flow/state/disk"
	"flow/steps"
	"flow/steps/workspace"
)

func (a *app) stateCheckCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "check [RUN...]",
		Short: "Find what is damaged in the state directory, or in some runs",
		Long: "check reads all that flow keeps of the runs, or of those named, and changes nothing: journals with their\n" +
			"checksums, blobs with theirs, events and audit logs line by line, whether what records and events refer to\n" +
			"is there, owners and modes, and the list of runs. The exit status is 12 when something is wrong. What a\n" +
			"kill or a power failure leaves is only noted: the next resume sets it right.",
		RunE: func(_ *cobra.Command, args []string) error { return a.stateCheck(args, output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json: one finding a line")
	return cmd
}

func (a *app) stateCheck(names []string, output string) error {
	if err := oneOf("--output", output, "text", "json"); err != nil {
		return err
	}
	s, err := a.store()
	if err != nil {
		return err
	}
	list, err := ids(s, names)
	if err != nil {
		return err
	}
	var found []state.Finding
	if len(names) == 0 {
		if found, err = s.Check(); err != nil {
			return err
		}
	}
	for _, id := range list {
		found = append(found, checkRun(s, id)...)
	}
	if err := a.printFindings(found, output); err != nil {
		return err
	}
	bad := slices.DeleteFunc(slices.Clone(found), func(f state.Finding) bool { return f.Harmless })
	if len(bad) > 0 {
		return exitError{exitState}
	}
	if output == "text" {
		fmt.Fprintf(a.stderr, "%s checked, nothing is wrong\n", plural(len(list), "run"))
	}
	return nil
}

func (a *app) printFindings(found []state.Finding, output string) error {
	if output == "json" {
		return jsonLines(a.out("json"), found)
	}
	for _, f := range found {
		text := f.String()
		if f.Harmless {
			text = f.Path + ": note: " + f.What + "; " + f.Hint
		}
		if _, err := fmt.Fprintln(a.stdout, text); err != nil {
			return err
		}
	}
	return nil
}

// checkRun is what is wrong with a run, in its files or in what they mean.
func checkRun(s *state.Store, id string) []state.Finding {
	v, found := s.CheckRun(id)
	if v == nil {
		return found
	}
	c := runCheck{View: v, repair: "flow state repair " + id + " --to DIR keeps all that is whole before it"}
	c.contents()
	c.blobs()
	c.workspaces()
	c.answers()
	c.events()
	return append(found, c.found...)
}

// A runCheck looks at what the records and events of a run mean.
type runCheck struct {
	*state.View
	repair string
	found  []state.Finding
}

func (c *runCheck) add(name, what string) {
	c.found = append(c.found, state.Finding{Path: filepath.Join(c.Dir(), name), What: what, Hint: c.repair})
}

// contents replays the journal on the plan.
func (c *runCheck) contents() {
	if _, err := machine(c.View); err != nil {
		c.found = append(c.found, state.Finding{Path: c.Dir(), What: err.Error(), Hint: "restore plan.json and inputs.json from a copy of the run"})
	}
	if _, err := frozenSource(c.View); err != nil {
		c.add("pipeline.yaml", err.Error())
	}
}

// blobs looks for those that records need. Whether they are whole has been checked.
func (c *runCheck) blobs() {
	seen := map[string]bool{}
	for _, r := range c.Records() {
		for _, ref := range steps.BlobRefs(r, c.View) {
			if seen[ref] {
				continue
			}
			seen[ref] = true
			if _, err := c.Blob(ref); errors.Is(err, fs.ErrNotExist) {
				c.add("blobs", fmt.Sprintf("record %d of the journal needs the blob %s, which is missing", r.Seq, ref))
			}
		}
	}
}

func (c *runCheck) workspaces() {
	if _, err := workspace.List(c.Dir()); err != nil {
		c.add("workspaces", err.Error())
	}
}

// answers are JSON documents.
func (c *runCheck) answers() {
	entries, err := disk.ReadDir(filepath.Join(c.Dir(), "answers"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.add("answers", err.Error())
	}
	for _, e := range entries {
		name := "answers/" + e.Name()
		data, err := c.File(name)
		if filepath.Ext(name) == ".json" && err == nil && !json.Valid(data) {
			c.found = append(c.found, state.Finding{Path: filepath.Join(c.Dir(), name), What: "it is not JSON", Hint: "remove it and answer again: flow approve"})
		}
	}
}

// events compares the numbers of the events, and the native lines that they stand for, with
// what is there.
func (c *runCheck) events() {
	natives := map[string]int64{} // how long the files must be
	last, gaps := int64(0), c.repaired() || c.reuses()
	_ = c.Events(func(line []byte) error {
		var e struct {
			Seq    int64          `json:"seq"`
			Native *agents.Native `json:"native"`
		}
		if json.Unmarshal(line, &e) != nil || e.Seq < 1 {
			if json.Valid(line) {
				c.add("events.jsonl", fmt.Sprintf("what follows event %d is no event", last))
			}
			gaps = true // the line itself has been found
			return nil
		}
		if e.Seq <= last || e.Seq > last+1 && !gaps {
			c.add("events.jsonl", fmt.Sprintf("event %d follows event %d", e.Seq, last))
		}
		last = max(last, e.Seq)
		if n := e.Native; n != nil && n.File != "" {
			natives[n.File] = max(natives[n.File], n.Offset+n.Length)
		}
		return nil
	})
	for _, file := range slices.Sorted(maps.Keys(natives)) {
		c.native(file, natives[file])
	}
}

// repaired reports whether the run was made of what was whole of another.
func (c *runCheck) repaired() bool {
	_, err := disk.Lstat(filepath.Join(c.Dir(), "lost"))
	return err == nil
}

// reuses reports whether the run took events over from another one, perhaps not all.
func (c *runCheck) reuses() bool {
	return slices.ContainsFunc(c.Records(), func(r state.Record) bool { return r.Type == recordReused })
}

// native looks for the lines that events were made of. In a repaired run their loss is known.
func (c *runCheck) native(file string, size int64) {
	f := state.Finding{Path: filepath.Join(c.Dir(), filepath.FromSlash(file)), Hint: "restore it from a copy of the run; nothing but the events has these lines"}
	fi, err := disk.Lstat(f.Path)
	switch {
	case err != nil || !fi.Mode().IsRegular():
		f.What = "events stand for lines of this file, which is missing"
	case fi.Size() < size:
		f.What = fmt.Sprintf("events stand for lines up to byte %d, but it ends at %d", size, fi.Size())
	default:
		return
	}
	if begun, err := steps.NewBegun(c.Records()); err == nil && !begun.Ended(filepath.Base(f.Path)) {
		f.Harmless, f.Hint = true, "nothing goes by it: flow, or the machine, died before the attempt had a result"
	}
	f.Harmless = f.Harmless || c.repaired()
	c.found = append(c.found, f)
}
