package agents

// An Enforcer is an Adapter whose agent keeps rules of a request by itself: it refuses a
// call before it runs, and says so in ToolCompleted.Declined. A call that it refuses has
// broken nothing.
type Enforcer interface {
	// Enforces reports whether the agent that Command(r) starts keeps rule, one of
	// r.Rules, or r.RuleDefault when rule is nil.
	Enforces(r Request, rule *Rule) bool
}
