package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"flow/state"
	"flow/state/disk"
	"flow/steps"
)

func (a *app) artifactsCommand() *cobra.Command {
	var (
		output, to string
		force      bool
	)
	cmd := &cobra.Command{
		Use:   "artifacts RUN [STEP]",
		Short: "List the files that steps left, or bring them back",
		Long: "artifacts lists the files that the steps of a run left by their `artifacts:`, or those of one step.\n" +
			"With --to they are written into a directory, those of each step into one of their own unless STEP is\n" +
			"given. Nothing is written outside of that directory, and nothing is overwritten without --force.\n" +
			"RUN is a run's id, the beginning of one, or `last`.",
		Args: arguments(1, 2, "a run and perhaps a step"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := oneOf("--output", output, "text", "json"); err != nil {
				return err
			}
			v, err := a.view(args[0])
			if err != nil {
				return err
			}
			step := ""
			if len(args) == 2 {
				step = args[1]
			}
			all, err := artifactsOf(v, step)
			switch {
			case err != nil:
				return err
			case to != "":
				return a.extract(v, all, to, step == "", force)
			case output == "json":
				return jsonLines(a.out("json"), all)
			}
			return artifactTable(a.stdout, all)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json: one object a line")
	cmd.Flags().StringVar(&to, "to", "", "write the files into this directory")
	cmd.Flags().BoolVar(&force, "force", false, "overwrite files that are there")
	return cmd
}

// A stepArtifact is a file with the step that left it.
type stepArtifact struct {
	Step string `json:"step"`
	steps.Artifact
}

// artifactsOf lists the artifacts of a run, or of one of its steps.
func artifactsOf(v *state.View, step string) ([]stepArtifact, error) {
	m, err := machine(v)
	if err != nil {
		return nil, err
	}
	var all []stepArtifact
	known := step == ""
	for _, s := range m.Steps() {
		if step != "" && s.Path != step {
			continue
		}
		known = true
		r, err := steps.DecodeResult(s.Result)
		if err != nil {
			return nil, err
		}
		list, err := r.ArtifactList(v)
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", s.Path, err)
		}
		for _, artifact := range list {
			all = append(all, stepArtifact{s.Path, artifact})
		}
	}
	if !known {
		return nil, usageError{fmt.Errorf("run %s has no step %s\nhint: flow show %s lists them", v.Header().ID, step, v.Header().ID)}
	}
	return all, nil
}

func artifactTable(w io.Writer, all []stepArtifact) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "STEP\tBYTES\tNAME")
	for _, a := range all {
		fmt.Fprintf(t, "%s\t%d\t%s\n", a.Step, a.Size, oneLine(a.Name, 1000))
	}
	return t.Flush()
}

// extract writes artifacts into a directory, which is made if it is not there.
func (a *app) extract(v *state.View, all []stepArtifact, dir string, apart, force bool) error {
	if err := disk.MkdirAll(dir, 0o755); err != nil {
		return usageError{err}
	}
	root, err := disk.OpenRoot(dir)
	if err != nil {
		return usageError{err}
	}
	defer root.Close()
	names := make([]string, len(all))
	var there []string
	for i, artifact := range all {
		names[i] = artifact.Name
		if apart {
			names[i] = path.Join(artifact.Step, artifact.Name)
		}
		if _, err := root.Lstat(names[i]); err == nil && !force {
			there = append(there, names[i])
		}
	}
	if len(there) > 0 {
		return usageError{fmt.Errorf("%s there already in %s: %s\nhint: choose another directory, or overwrite them with --force", plural(len(there), "file"), dir, strings.Join(there[:min(5, len(there))], ", "))}
	}
	for i, artifact := range all {
		if err := writeArtifact(v, root, names[i], artifact.Artifact); err != nil {
			return fmt.Errorf("artifact %s: %w", printable(names[i]), err)
		}
		fmt.Fprintln(a.stdout, oneLine(filepath.Join(dir, names[i]), 1000))
	}
	return nil
}

// writeArtifact writes one file in root. It appears when it is whole, and replaces a link
// of its name rather than following it.
func writeArtifact(v *state.View, root *disk.Root, name string, artifact steps.Artifact) error {
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	const temp = ".flow-artifact.part"
	if err := root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, artifact.Mode.Perm())
	if err != nil {
		return err
	}
	if err = errors.Join(v.CopyBlob(f, artifact.Blob), f.Close()); err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	return nil
}
