package main

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"flow/cmd/flow/internal/lsp"
	"flow/pipeline"
	"flow/steps"
)

func (a *app) lspCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "lsp",
		Short: "Serve an editor: the language server of pipelines",
		Long: "lsp speaks the Language Server Protocol on standard input and output. Editors start it; it gives them all\n" +
			"mistakes and warnings while a pipeline is written, completion, explanations, definitions and an outline.",
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			return lsp.Serve(a.stdin, a.exact(), lsp.Options{
				Check: a.checkText, Agents: slices.Sorted(maps.Keys(adapters())), Delay: 200 * time.Millisecond,
				Config: func(path string) bool { return a.ownerOf(path) != "" },
			})
		},
	}
}

// checkText is validateFile for a text that an editor holds.
func (a *app) checkText(path string, text []byte) (pipeline.Errors, []pipeline.Warning) {
	warnings, err := a.validateText(path, text)
	if errs, ok := errors.AsType[pipeline.Errors](err); ok || err == nil {
		return errs, warnings
	}
	return pipeline.Errors{{File: path, Msg: err.Error()}}, nil
}

func (a *app) validateText(path string, text []byte) ([]pipeline.Warning, error) {
	if owner := a.ownerOf(path); owner != "" {
		o, err := a.below(owner)
		if err != nil {
			return nil, err
		}
		_, warnings, err := pipeline.ParseConfig(path, text, owner, o)
		return warnings, err
	}
	o, _, err := a.options(path)
	if err != nil {
		return nil, err
	}
	plan, warnings, err := pipeline.LoadText(path, text, o)
	if errs := pipeline.Errors(nil); err == nil {
		if errs = steps.Check(plan, adapters()); len(errs) > 0 {
			err = errs
		}
	}
	return warnings, err
}
