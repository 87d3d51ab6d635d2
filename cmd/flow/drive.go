package main

import (
	"errors"
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
	fl.Var((*patience)(&f.ask), "ask-timeout", "how long an agent waits for flow approve, or for the terminal, when it asks for a permission (default: `ask-timeout` of the pipeline)")
	fl.Float64Var(&f.budget.USD, "budget-usd", 0, "another `budget.usd` than the pipeline's, from now on")
	fl.Int64Var(&f.budget.Tokens, "budget-tokens", 0, "another `budget.tokens` than the pipeline's, from now on")
}

func (f *driveFlags) check() error {
	return errors.Join(oneOf("--output", f.output, "text", "json"), f.budget.check())
}

// patience is a duration above 0 as a flag: what is not said is 0, and is the pipeline's
// affair.
type patience time.Duration

func (p *patience) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return errors.New("give a time above 0, such as 30m")
	}
	*p = patience(d)
	return nil
}

func (p *patience) String() string {
	if *p == 0 {
		return ""
	}
	return time.Duration(*p).String()
}

func (*patience) Type() string { return "duration" }
