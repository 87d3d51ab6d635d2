package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check pipelines without running anything",
		Long:  "validate finds every mistake in the pipelines at once, each with its place and what would be right.",
		Args:  arguments(1, 1000, "pipeline files"),
		RunE:  func(_ *cobra.Command, args []string) error { return a.validate(args) },
	}
}

func (a *app) validate(files []string) error {
	code := 0
	for _, file := range files {
		plan, _, err := a.load(file)
		if err != nil {
			code = max(code, a.report(err))
			continue
		}
		fmt.Fprintf(a.stdout, "%s: valid, %s\n", file, plural(stepCount(plan), "step"))
	}
	if code != 0 {
		return exitError{code}
	}
	return nil
}
