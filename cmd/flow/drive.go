package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// driveFlags are the flags of every command that takes a run to its end.
type driveFlags struct {
	output  string
	quiet   bool
	noInput bool
	yes     bool
	ask     time.Duration
	budget  budgetFlags
}

func (f *driveFlags) add(fl *pflag.FlagSet) {
	fl.StringVarP(&f.output, "output", "o", "text", "what standard output gets: text or json")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress, only what failed")
	fl.BoolVar(&f.noInput, "no-input", false, "ask nothing on the terminal; `ask` steps wait for flow approve, and agents for as long as --ask-timeout says")
	fl.BoolVar(&f.yes, "yes", false, "approve every `ask` step that has no form; agents get no permission by it")
	fl.DurationVar(&f.ask, "ask-timeout", 0, "how long an agent waits for flow approve, or for the terminal, when it asks for a permission (default: `ask-timeout` of the pipeline)")
	fl.Float64Var(&f.budget.USD, "budget-usd", 0, "another `budget.usd` than the pipeline's, from now on")
	fl.Int64Var(&f.budget.Tokens, "budget-tokens", 0, "another `budget.tokens` than the pipeline's, from now on")
}

func (f *driveFlags) check() error {
	var err error
	if f.ask < 0 {
		err = usageError{fmt.Errorf("--ask-timeout is %s\nhint: a positive duration, such as 30m", f.ask)}
	}
	return errors.Join(oneOf("--output", f.output, "text", "json"), f.budget.check(), err)
}
