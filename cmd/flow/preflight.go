package main

import (
	"fmt"

	"flow/pipeline"
	"flow/steps"
)

// preflight refuses a plan whose agents cannot be started, and warns of those that its
// steps can do without.
func (a *app) preflight(plan *pipeline.Plan, workspace string) error {
	warnings, err := steps.Preflight(plan, adapters(), workspace)
	if err == nil {
		for _, w := range warnings {
			fmt.Fprintf(a.stderr, "warning: %s\n", w)
		}
	}
	return err
}
