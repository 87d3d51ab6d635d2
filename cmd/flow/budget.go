package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"flow/pipeline"
	"flow/steps"
)

// recordBudget is the type of the journal's record that gives a run another budget.
const recordBudget = "budget"

// budgetFlags are another budget for the run; zero leaves the pipeline's.
type budgetFlags struct {
	USD    float64 `json:"usd,omitempty"`
	Tokens int64   `json:"tokens,omitempty"`
}

func (b budgetFlags) check() error {
	if b.USD < 0 || math.IsNaN(b.USD) || math.IsInf(b.USD, 0) || b.Tokens < 0 {
		return usageError{errors.New("a budget is a number above 0\nhint: --budget-usd 5 or --budget-tokens 2000000")}
	}
	return nil
}

// over returns b with what it leaves open taken from the pipeline's budget.
func (b budgetFlags) over(of *pipeline.Budget) *pipeline.Budget {
	if b == (budgetFlags{}) {
		return of
	}
	budget := pipeline.Budget{OnExceed: "stop"}
	if of != nil {
		budget = *of
	}
	if b.USD > 0 {
		budget.USD = b.USD
	}
	if b.Tokens > 0 {
		budget.Tokens = b.Tokens
	}
	return &budget
}

// rebudget gives the plan the budget of the command line, for this process of the run
// and all later ones, or the one that an earlier process was given. An update of the
// pipeline brings its own.
func (e *engine) rebudget() error {
	given := budgetFlags{}
	updated, _ := steps.Update{}.Record()
	for _, r := range e.records {
		switch r.Type {
		case updated:
			given = budgetFlags{}
		case recordBudget:
			if err := json.Unmarshal(r.Data, &given); err != nil {
				return fmt.Errorf("record %d of the journal is no budget: %w", r.Seq, err)
			}
		}
	}
	if e.budget == (budgetFlags{}) {
		e.plan.Budget = given.over(e.plan.Budget)
		return nil
	}
	e.plan.Budget = e.budget.over(given.over(e.plan.Budget))
	b := e.plan.Budget
	return e.run.Append(context.Background(), recordBudget, budgetFlags{USD: b.USD, Tokens: b.Tokens}, true)
}

// stop stops the run for a budget; what runs comes to its end.
func (e *engine) stop(reason error) {
	if over, ok := errors.AsType[*steps.BudgetError](reason); ok {
		e.overBudget.CompareAndSwap(nil, over)
	}
	select {
	case e.stops <- reason:
	default: // it stops already
	}
}
