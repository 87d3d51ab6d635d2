package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"flow/pipeline"
)

type validateFlags struct {
	strict bool
	output string
}

func (a *app) validateCommand() *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate FILE...",
		Short: "Check pipelines and configurations without running anything",
		Long: "validate finds every mistake in pipelines and configurations (.flow.yaml, config.yaml of flow) at once, each with its place and what would be right.\n" +
			"Warnings are of what is allowed and most likely not meant. With -o json standard output gets one list of\n" +
			"{file, line, col, severity, message, hint}, empty when all is well.",
		Args: arguments(1, 1000, "pipeline files"),
		RunE: func(_ *cobra.Command, args []string) error { return a.validate(args, f) },
	}
	cmd.Flags().BoolVar(&f.strict, "strict", false, "warnings are mistakes: exit status 2")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	return cmd
}

func (a *app) validate(files []string, f validateFlags) error {
	if err := oneOf("--output", f.output, "text", "json"); err != nil {
		return err
	}
	if f.output == "json" {
		return a.validateJSON(files, f.strict)
	}
	code := 0
	for _, file := range files {
		valid, warnings, err := a.validateFile(file)
		a.warn(warnings)
		switch {
		case err != nil:
			code = max(code, a.report(err))
		case f.strict && len(warnings) > 0:
			code = max(code, exitUsage)
		default:
			fmt.Fprintf(a.stdout, "%s: %s\n", file, valid)
		}
	}
	return exited(code)
}

// validateFile checks a pipeline, with the configurations that hold for it, or a
// configuration. valid says what it is if it has no mistakes.
func (a *app) validateFile(file string) (valid string, warnings []pipeline.Warning, err error) {
	if owner := a.ownerOf(file); owner != "" {
		return a.validateConfig(file, owner)
	}
	o, warnings, err := a.options(file)
	if err != nil {
		return "", warnings, err
	}
	plan, own, err := check(file, o)
	warnings = append(warnings, own...)
	if err != nil {
		return "", warnings, err
	}
	return "valid, " + plural(stepCount(plan), "step"), warnings, nil
}

// validateConfig checks a configuration, with those that hold beneath it.
func (a *app) validateConfig(file string, owner pipeline.Owner) (string, []pipeline.Warning, error) {
	o, err := a.below(owner)
	if err != nil {
		return "", nil, err
	}
	_, warnings, err := pipeline.LoadConfig(file, owner, o)
	if _, invalid := errors.AsType[pipeline.Errors](err); err != nil && !invalid {
		err = fileError(file, err)
	}
	return "valid, the configuration of a " + string(owner), warnings, err
}

// exited is an exit status that was explained already, or nil for 0.
func exited(code int) error {
	if code == 0 {
		return nil
	}
	return exitError{code}
}

func (a *app) validateJSON(files []string, strict bool) error {
	all := []problem{}
	code := 0
	for _, file := range files {
		_, warnings, err := a.validateFile(file)
		for _, w := range warnings {
			all = append(all, newProblem(pipeline.Error(w), "warning"))
		}
		if err != nil || strict && len(warnings) > 0 {
			code = exitUsage
		}
		var invalid pipeline.Errors
		if !errors.As(err, &invalid) && err != nil {
			msg, hint, _ := strings.Cut(err.Error(), "\nhint: ")
			all = append(all, problem{File: file, Severity: "error", Message: msg, Hint: hint})
		}
		for _, e := range invalid {
			all = append(all, newProblem(e, "error"))
		}
	}
	if err := printJSON(a.out("json"), all); err != nil {
		return err
	}
	return exited(code)
}
