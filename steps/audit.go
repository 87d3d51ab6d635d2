package steps

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"flow/agents"
	"flow/agents/policy"
)

// An AuditEntry is one line of a run's audit log: a decision about a tool call.
type AuditEntry struct {
	Time       time.Time   `json:"ts"`
	Run        string      `json:"run"`
	Step       string      `json:"step"`
	Attempt    int         `json:"attempt"`
	Agent      string      `json:"agent"`
	Tool       agents.Tool `json:"tool"` // normalised
	NativeTool string      `json:"nativeTool"`
	Target     string      `json:"target,omitempty"`
	ArgsSHA256 string      `json:"argsSha256"` // of the arguments as the agent gave them
	Risk       agents.Risk `json:"risk"`
	Decision   string      `json:"decision"`          // allow or deny
	By         string      `json:"by"`                // policy, person, default or agent
	Person     string      `json:"person,omitempty"`  // who, as far as that is known
	Rule       string      `json:"rule,omitempty"`    // as it is written
	Where      string      `json:"where,omitempty"`   // where the rule stands, as file:line:col
	Message    string      `json:"message,omitempty"` // why
}

// The deciders of a PermissionDecided.
const (
	byAgent   = "agent"
	byPolicy  = "policy"
	byPerson  = "person"
	byDefault = "default" // no rule and nobody: the approval mode, or that nobody is there
)

// A ruling is a decision about a call, complete.
type ruling struct {
	call    policy.Call
	request string // id of the request that it answers, or ""
	tool    string // id of the call
	allow   bool
	by      string
	person  string
	rule    *agents.Rule
	message string
}

// ruleText is a rule as it is written, without its place.
func ruleText(r *agents.Rule) string {
	if r == nil {
		return ""
	}
	bare := *r
	bare.Where = ""
	return policy.Text(bare)
}

// event is the ruling as an event.
func (r ruling) event() agents.PermissionDecided {
	e := agents.PermissionDecided{
		RequestID: r.request, ToolID: r.tool, Decision: agents.EffectDeny, By: r.by, Message: r.message, Rule: ruleText(r.rule),
	}
	if r.allow {
		e.Decision = agents.EffectAllow
	}
	if r.rule != nil {
		e.Where = r.rule.Where
	}
	return e
}

// entry is the ruling as a line of an audit log, without the time and whose call it was.
func (r ruling) entry() AuditEntry {
	e := r.event()
	arguments := r.call.Arguments
	if arguments == nil {
		arguments = []byte(r.call.Target)
	}
	sum := sha256.Sum256(arguments)
	return AuditEntry{
		Tool: r.call.Tool, NativeTool: r.call.Native, Target: head(r.call.Target, storedMax), ArgsSHA256: hex.EncodeToString(sum[:]),
		Risk: r.call.Risk, Decision: e.Decision, By: e.By, Person: r.person, Rule: e.Rule, Where: e.Where, Message: head(e.Message, storedMax),
	}
}

// audit writes a ruling into the audit log.
func (a *attempt) audit(r ruling) error {
	e := r.entry()
	e.Time, e.Run, e.Step, e.Attempt, e.Agent = a.x.Now().UTC(), a.x.RunID, a.task.Path, a.task.Attempt, a.profile().Use
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return a.x.Store.AppendAudit(append(line, '\n'))
}
