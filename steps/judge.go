package steps

import (
	"path/filepath"

	"flow/agents/policy"
	"flow/pipeline"
)

// A Judge decides on tool calls as a step does, for an agent that somebody else drives.
// Nobody can be asked: what a person is to be asked for is denied. It may be used
// concurrently.
type Judge struct{ guard *guard }

// NewJudge returns the judge of the calls of an agent of the plan, a profile or "", which
// works in dir, absolute. home is what ~ stands for in rules.
func NewJudge(p *pipeline.Plan, agent, dir, home string) *Judge {
	r := profileRequest(p.Agents[agent], dir)
	rules(&r, p, &pipeline.Step{Agent: agent})
	r.Dir = dir
	if file, err := filepath.Abs(p.File); err == nil {
		r.Protected = append(r.Protected, file) // who writes it decides on the calls after
	}
	return &Judge{newGuard(nil, r, home)}
}

// Decide decides on a call. The entry for the audit log lacks the time, and whose
// call it was. told is what the model is to be told when the call is denied.
func (j *Judge) Decide(c policy.Call) (entry AuditEntry, told string) {
	d := j.guard.decide(c)
	c.Risk = d.Risk
	r := ruling{call: c, allow: d.Effect == policy.Allow, by: decider(d), rule: d.Rule, message: oneLine(d.Why)}
	if d.Effect == policy.Ask {
		r.by, r.message = byDefault, r.message+": a person is to be asked, and nobody is there"
	}
	return r.entry(), denial(r)
}
