package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"flow/state"
	"flow/state/disk"
	"flow/steps"
)

func (a *app) stateRepairCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "repair RUN --to DIR",
		Short: "Make a new state directory with all that is whole of a damaged run",
		Long: "repair makes a state directory, which must not be there yet, and in it a run of the same id with every whole\n" +
			"record up to the damage, the events and files of these, and every whole blob. It says what is lost, and\n" +
			"keeps aside, in the directory `lost` of the new run, what the new run does not go by. The damaged run is\n" +
			"left as it is. The new one goes on like any other: flow resume RUN --state-dir DIR.",
		Example: "  flow state repair last --to ~/repaired\n  flow resume last --state-dir ~/repaired",
		Args:    arguments(1, 1, "one run"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.stateRepair(args[0], to) },
	}
	cmd.Flags().StringVar(&to, "to", "", "the new state `directory`")
	return cmd
}

func (a *app) stateRepair(name, to string) error {
	if to == "" {
		return usageError{errors.New("where is the repaired run to go?\nhint: --to DIR, a directory that is not there yet")}
	}
	s, id, err := a.find(name)
	if err != nil {
		return err
	}
	from, err := state.ReadSalvage(s.RunDir(id))
	if err != nil {
		return err
	}
	keep, why := selection(from)
	dest, err := newStore(to)
	if err != nil {
		return err
	}
	lost, err := dest.Restore(from, keep)
	if err != nil {
		return err
	}
	return a.reportRepair(dest, from.Header().ID, why, lost)
}

// newStore makes a state directory where there is nothing.
func newStore(dir string) (*state.Store, error) {
	if entries, err := disk.ReadDir(dir); len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, usageError{fmt.Errorf("%s is there already\nhint: --to takes a directory that is not there yet", dir)}
	}
	return state.Open(dir)
}

// selection is what a repaired run goes by: the records before the first that cannot be
// followed, and what belongs to them. why says what is wrong with that one, or is nil.
func selection(from *state.Salvage) (keep state.Selection, why error) {
	records := from.Records()
	keep.Records = len(records)
	for i, r := range records {
		if why = followable(from, r); why != nil {
			keep.Records = max(i, 1)
			break
		}
	}
	begun, err := steps.NewBegun(records[:keep.Records])
	keep.Attempt = begun.File
	last := int64(0)
	keep.Event = func(line []byte) bool {
		var e struct {
			Seq int64 `json:"seq"`
		}
		if json.Unmarshal(line, &e) != nil || e.Seq <= last || !begun.Event(line) {
			return false
		}
		last = e.Seq
		return true
	}
	return keep, errors.Join(why, err)
}

// followable fails if a record needs a blob that is missing or damaged.
func followable(from *state.Salvage, r state.Record) error {
	for _, ref := range steps.BlobRefs(r, from) {
		if err := from.CopyBlob(io.Discard, ref); err != nil {
			return fmt.Errorf("record %d needs a blob that is not whole: %w", r.Seq, err)
		}
	}
	return nil
}

// reportRepair says what the new run has and what it lacks.
func (a *app) reportRepair(dest *state.Store, id string, why error, lost []state.Finding) error {
	for _, f := range lost {
		fmt.Fprintf(a.stdout, "lost: %s: %s\n", f.Path, f.What)
	}
	if why != nil {
		fmt.Fprintf(a.stdout, "lost: %s\n", why.Error())
	}
	v, err := dest.Read(id)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "kept: %s in %s\n", plural(len(v.Records()), "record"), v.Dir())
	if _, err := machine(v); err != nil {
		return fmt.Errorf("the repaired run cannot go on: %w\nhint: put plan.json and inputs.json of a copy of the run into %s", err, v.Dir())
	}
	if _, err := disk.Stat(v.Header().Workspace); err != nil {
		fmt.Fprintf(a.stderr, "warning: the directory that the run works in is not there: %s\n", v.Header().Workspace)
	}
	fmt.Fprintf(a.stderr, "hint: flow resume %s --state-dir %s\n", id, dest.Dir())
	return nil
}
