package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"flow/cmd/flow/internal/draw"
)

type graphFlags struct{ format, output string }

func (a *app) graphCommand() *cobra.Command {
	var f graphFlags
	cmd := &cobra.Command{
		Use:   "graph FILE|RUN",
		Short: "Draw a pipeline, or how a run of it stands",
		Long: "graph draws the steps of a pipeline and what each needs, or with a run how far they are.\n" +
			"text is a tree; the number before a step is its stage: all steps of a stage may run at once. mermaid and\n" +
			"dot are source for those tools, svg is a picture. Lines of steps that handle failures are dashed.\n" +
			"What exists as a file, or has a / or ends in .yaml or .yml, is a pipeline; anything else is a run.",
		Example: "  flow graph review.yaml\n  flow graph last --format svg -o run.svg",
		Args:    arguments(1, 1, "a pipeline file or a run"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.graph(args[0], f) },
	}
	cmd.Flags().StringVar(&f.format, "format", "text", "text, mermaid, dot or svg")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "write to this `file` instead of standard output")
	return cmd
}

func (a *app) graph(name string, f graphFlags) error {
	if err := oneOf("--format", f.format, "text", "mermaid", "dot", "svg"); err != nil {
		return err
	}
	g, err := a.graphOf(name)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	switch f.format {
	case "mermaid":
		err = g.Mermaid(&b)
	case "dot":
		err = g.DOT(&b)
	case "svg":
		err = g.SVG(&b)
	default:
		err = g.Text(&b)
	}
	if err != nil {
		return err
	}
	if f.output != "" {
		return usage(os.WriteFile(f.output, b.Bytes(), 0o644))
	}
	_, err = a.stdout.Write(b.Bytes())
	return err
}

// usage makes an error of a file that the command line names a mistake there.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

func (a *app) graphOf(name string) (*draw.Graph, error) {
	if isFile(name) {
		plan, _, err := a.load(name)
		if err != nil {
			return nil, err
		}
		return draw.New(plan), nil
	}
	v, err := a.view(name)
	if err != nil {
		return nil, err
	}
	m, err := machine(v)
	if err != nil {
		return nil, err
	}
	plan, _, err := frozen(v)
	if err != nil {
		return nil, err
	}
	run := v.Summary().Status
	var states []draw.State
	for _, s := range m.Steps() {
		states = append(states, draw.State{Path: s.Path, Status: standing(s.Status, run)})
	}
	g := draw.New(plan)
	g.Stand(run, states)
	return g, nil
}

// isFile says whether an argument is a pipeline's path and not the name of a run.
func isFile(name string) bool {
	if strings.Contains(name, "/") || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") {
		return true
	}
	_, err := os.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
