package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"flow/state"
	"flow/state/disk"
)

func (a *app) stateExportCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Write a run as a tar archive, for another machine",
		Long: "export writes all that flow keeps of a run as a tar archive, which `flow state import` reads: prompts, what\n" +
			"the agents said, results and sessions. Think of whom you give it to. Isolated workspaces stay behind.",
		Example: "  flow state export last -o run.tar\n  flow state export last | ssh host flow state import -",
		Args:    arguments(1, 1, "one run"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.stateExport(args[0], output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "-", "the archive, which must not be there yet; - is standard output")
	return cmd
}

func (a *app) stateExport(name, output string) error {
	v, err := a.view(name)
	if err != nil {
		return err
	}
	change, err := a.exportMasked(v)
	if err != nil {
		return err
	}
	if output == "-" {
		if isTerminal(a.stdout) {
			return usageError{errors.New("an archive is nothing for a terminal\nhint: -o FILE.tar writes it into a file")}
		}
		return v.ExportThrough(a.exact(), change)
	}
	return writeArchive(v, output, change)
}

// writeArchive writes the archive into a new file, which appears when it is whole.
func writeArchive(v *state.View, file string, change exportChange) (err error) {
	temp, err := disk.CreateTemp(filepath.Dir(file), ".flow-export-*") // with mode 0600
	if err != nil {
		return usageError{err}
	}
	defer func() { err = errors.Join(err, disk.Remove(temp.Name())) }()
	out := bufio.NewWriter(temp)
	err = errors.Join(v.ExportThrough(out, change), out.Flush())
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	if err := disk.Link(temp.Name(), file); err != nil { // unlike Rename, it replaces nothing
		return usageError{fmt.Errorf("%w\nhint: choose another file", err)}
	}
	return nil
}

func (a *app) stateImport(file string) error {
	s, err := a.store()
	if err != nil {
		return err
	}
	src := a.stdin
	if file != "-" {
		f, err := disk.Open(file)
		if err != nil {
			return usageError{err}
		}
		defer f.Close()
		src = f
	}
	id, err := s.Import(src, state.DefaultImportLimits())
	if err != nil {
		return err
	}
	_, err = io.WriteString(a.stdout, id+"\n")
	return err
}

func (a *app) stateImportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Take in a run that `flow state export` wrote; - is standard input",
		Long: "import takes in a run that `flow state export` wrote, perhaps on another machine, and prints its id. An archive\n" +
			"that holds anything else, or that is damaged, is refused as a whole. To resume the run is to run its\n" +
			"pipeline: import what you would also run.",
		Args: arguments(1, 1, "one archive"),
		RunE: func(_ *cobra.Command, args []string) error { return a.stateImport(args[0]) },
	}
}
