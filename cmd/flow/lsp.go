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
			return lsp.Serve(a.stdin, a.stdout, lsp.Options{
				Check: checkText, Agents: slices.Sorted(maps.Keys(adapters())), Delay: 200 * time.Millisecond,
			})
		},
	}
}

// checkText is check for a text that an editor holds.
func checkText(path string, text []byte) (pipeline.Errors, []pipeline.Warning) {
	plan, warnings, err := pipeline.LoadText(path, text, languageOptions())
	if err == nil {
		return steps.Check(plan, adapters()), warnings
	}
	if errs, ok := errors.AsType[pipeline.Errors](err); ok {
		return errs, nil
	}
	return pipeline.Errors{{File: path, Msg: err.Error()}}, nil
}
