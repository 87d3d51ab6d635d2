package steps

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"flow/agents"
	"flow/agents/policy"
	"flow/pipeline/local"
	"flow/state"
)

// A Permission is what a person is asked for: that an agent may make a call.
type Permission struct {
	// ID is the same for the same call of the same step, also in a later attempt. Of equal
	// calls that wait at one time each has its own.
	ID     string      `json:"id"`
	Agent  string      `json:"agent"`
	Tool   agents.Tool `json:"tool"`
	Native string      `json:"nativeTool"`
	Target string      `json:"target,omitempty"`
	Risk   agents.Risk `json:"risk"`
	Rule   string      `json:"rule,omitempty"`  // that wants a person to be asked
	Where  string      `json:"where,omitempty"` // where it stands, as file:line:col

	Asked time.Time `json:"asked,omitzero"`
	// What the agent's own events call it, and what the call is made with.
	Use       string          `json:"use,omitempty"`
	Session   string          `json:"sessionId,omitempty"`
	Request   string          `json:"requestId,omitempty"`
	Call      string          `json:"toolId,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // nil where they are too long to keep
}

// callOf is the call that a request is about.
func callOf(r agents.PermissionRequested) policy.Call {
	return policy.Call{Tool: r.ToolName, Native: r.NativeName, Target: r.Target, Risk: r.Risk, Arguments: r.Arguments}
}

// judge decides a request, or has a person asked. mu is held.
func (t *talk) judge(r agents.PermissionRequested) {
	call := callOf(r)
	if r.Preliminary {
		t.prejudge(r, call)
		return
	}
	d := t.guard.decide(call)
	call.Risk = d.Risk
	if t.a.x.Recording != nil && t.replayed(r, call, d) {
		return
	}
	if d.Effect == policy.Ask {
		t.ask(r, call, d)
		return
	}
	t.rule(decided(r, call, d))
}

// replayed rules on a request that a person is to be asked about as was ruled when the run
// was recorded. One that was never answered then is not now. mu is held.
func (t *talk) replayed(r agents.PermissionRequested, call policy.Call, d policy.Decision) bool {
	before, ok := t.a.recordedRuling(r) // also of those that the policy decides, to count them
	if d.Effect != policy.Ask {
		return false
	}
	if ok {
		t.rule(ruling{
			call: call, request: r.RequestID, tool: r.ToolID, rule: d.Rule,
			allow: before.Decision == agents.EffectAllow, by: before.By, message: before.Message,
		})
	}
	return true
}

// decided is the ruling that the policy comes to by itself.
func decided(r agents.PermissionRequested, call policy.Call, d policy.Decision) ruling {
	return ruling{
		call: call, request: r.RequestID, tool: r.ToolID, allow: d.Effect == policy.Allow,
		by: decider(d), rule: d.Rule, message: oneLine(d.Why),
	}
}

// prejudge answers a request that the agent makes before every call. Where a person is to
// be asked, or nothing rules, the agent asks again if its own mode wants that. Only what
// is settled here is a decision.
func (t *talk) prejudge(r agents.PermissionRequested, call policy.Call) {
	d := t.guard.judge(call)
	switch d.Effect {
	case policy.Allow, policy.Deny:
		call.Risk = d.Risk
		t.rule(decided(r, call, d))
	case policy.Ask:
		t.conv.Decide(r.RequestID, agents.Verdict{Effect: agents.EffectAsk, Message: oneLine(d.Why)})
	case policy.Unruled:
		t.conv.Decide(r.RequestID, agents.Verdict{})
	}
}

// decider says who took a decision of the policy's: a rule, or what holds without one.
func decider(d policy.Decision) string {
	if d.Rule == nil {
		return byDefault
	}
	return byPolicy
}

// rule tells the agent a ruling, and records it. mu is held.
func (t *talk) rule(r ruling) {
	v := agents.Verdict{Effect: agents.EffectDeny, Message: denial(r)}
	if r.allow {
		v = agents.Verdict{Effect: agents.EffectAllow}
	}
	if !t.conv.Decide(r.request, v) {
		return // it was taken back meanwhile
	}
	t.guard.ruled(r)
	t.tr.Emit(r.event())
	if err := t.a.audit(r); err != nil {
		t.fail(err)
	}
}

// denial is what the model is told of a call that is denied.
func denial(r ruling) string {
	text := "Denied: " + r.message
	if r.rule != nil {
		text = fmt.Sprintf("Denied by the rule `%s`: %s", ruleText(r.rule), r.message)
	}
	return text + ". Do without it, and do not try it in another way."
}

// ask has a person decide a request. mu is held.
func (t *talk) ask(r agents.PermissionRequested, call policy.Call, d policy.Decision) {
	out := ruling{call: call, request: r.RequestID, tool: r.ToolID, rule: d.Rule, by: byDefault}
	q := t.a.permission(call, d)
	q.Permission.ID = t.permissionID(call)
	q.Permission.Session, q.Permission.Request, q.Permission.Call = t.tr.SessionID(), r.RequestID, r.ToolID
	if answer, ok := t.a.x.answers.permit(q, t.a.x.ledger.get(q.Path).open); ok { // before flow died, say
		if err := t.a.settled(t.ctx, q); err != nil {
			t.fail(err)
			return
		}
		t.rule(out.asked(answer))
		return
	}
	wait, ok := t.a.patience()
	if !ok {
		out.message = oneLine(d.Why) + ": a person is to be asked, and nobody is there"
		t.rule(out)
		return
	}
	if wait > 0 {
		q.Deadline = t.a.x.Now().Add(wait).UTC()
	}
	t.watch.hold()
	t.stands[q.Permission.ID] = true
	t.asked[r.RequestID] = t.put(q, wait, func(answer Answer, err error) {
		t.watch.release()
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.stands, q.Permission.ID)
		t.answered(out, answer, err)
	})
}

// answered rules as a person has said. mu is held.
func (t *talk) answered(out ruling, answer Answer, err error) {
	if t.asked[out.request] == nil {
		return // it was taken back, or the agent is gone
	}
	t.forget(out.request)
	switch {
	case err == nil:
		out = out.asked(answer)
	case t.ctx.Err() != nil:
		return // the turn is being interrupted
	case errors.Is(err, errTimeout):
		out.message = "nobody answered in time"
	case errors.Is(err, local.ErrNobody):
		out.message = "a person is to be asked, and nobody is there any more"
	default:
		out.message = "the question could not be asked: " + err.Error()
	}
	t.rule(out)
	t.proceed()
}

// asked is the ruling as a person has said.
func (r ruling) asked(a Answer) ruling {
	text := "denied"
	if a.Approved {
		text = "approved"
	}
	if a.By != "" {
		text += " by " + a.By
	}
	r.by, r.allow, r.person, r.message = byPerson, a.Approved, a.By, cmp.Or(a.Reason, text)
	return r
}

// patience is how long a person may take to permit a call, 0 for ever. It is false when
// there is nobody, and nobody is waited for. During a chat flow approve has no step to answer.
func (a *attempt) patience() (time.Duration, bool) {
	if a.chat && a.x.Ask == nil {
		return 0, false
	}
	wait := a.x.AskTimeout
	if p := a.frame.plan.PermissionsOf(a.step); p != nil && wait == 0 {
		wait = time.Duration(p.AskTimeout)
	}
	return wait, wait > 0 || a.x.Ask != nil
}

// permission is the question whether a call may be made.
func (a *attempt) permission(c policy.Call, d policy.Decision) Question {
	c = a.x.maskedCall(c)
	p := Permission{
		Agent: a.step.Agent, Tool: c.Tool, Native: c.Native, Target: head(c.Target, storedMax), Risk: c.Risk,
		Rule: ruleText(d.Rule),
	}
	p.Use, p.Asked = a.profile().Use, a.x.Now().UTC()
	if len(c.Arguments) <= storedMax {
		p.Arguments = c.Arguments
	}
	if d.Rule != nil {
		p.Where = d.Rule.Where
	}
	text := fmt.Sprintf("%s wants to use %s: %s (risk %s)", a.step.Agent, c.Native, oneLine(c.Target), c.Risk)
	if p.Rule != "" {
		text += fmt.Sprintf("; the rule `%s` at %s wants you to be asked", p.Rule, p.Where)
	}
	return Question{Path: a.task.Path, Attempt: a.task.Attempt, Text: text, Permission: &p}
}

// permissionID names a call that a person is to be asked about. mu is held.
func (t *talk) permissionID(c policy.Call) string {
	n := 0
	for t.stands[permissionID(c, n)] {
		n++
	}
	return permissionID(c, n)
}

// permissionID names a call by what it is, so that the answer to it is found again when
// flow died before it was taken. n counts equal calls whose questions stand already.
func permissionID(c policy.Call, n int) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%s\x00%s", c.Native, c.Target, c.Arguments)
	if n > 0 {
		fmt.Fprintf(h, "\x00%d", n)
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}

// A PermissionAsked is the data of a "permission" record: a person is asked, or is no
// longer.
type PermissionAsked struct {
	Question *Question `json:"question,omitempty"`
	Settled  string    `json:"settled,omitempty"` // the key of a question that needs no answer any more
}

// personSays asks until a person has answered, here or by `flow approve`.
func (a *attempt) personSays(ctx context.Context, q Question) (Answer, error) {
	if err := a.x.Store.Append(ctx, recordPermission, PermissionAsked{Question: &q}, true); err != nil {
		return Answer{}, err
	}
	if a.x.Ask == nil {
		a.notice(noticePermission, "waits for flow approve "+a.x.RunID+" "+q.Path+": "+q.Text)
	}
	answer, err := a.x.answer(ctx, q, nil)
	return answer, errors.Join(err, a.settled(ctx, q))
}

// settled records that a question is over, before the agent is told of it: once it may
// have made the call, no later attempt may make it by the same answer.
func (a *attempt) settled(ctx context.Context, q Question) error {
	return a.x.Store.Append(context.WithoutCancel(ctx), recordPermission, PermissionAsked{Settled: q.Key()}, true)
}

// PendingPermissions are the questions about calls of agents that nobody has answered, in
// the order in which they were asked. They may be of a process of flow that has died: the
// agent then asks again when the run goes on, and what it does not ask again is over.
func PendingPermissions(records []state.Record) ([]Question, error) {
	var pending []Question
	for _, r := range records {
		if r.Type != recordPermission {
			continue
		}
		var asked PermissionAsked
		if err := json.Unmarshal(r.Data, &asked); err != nil {
			return nil, fmt.Errorf("record %d of the journal is about no permission: %w", r.Seq, err)
		}
		key := asked.Settled
		if asked.Question != nil {
			key = asked.Question.Key()
		}
		pending = slices.DeleteFunc(pending, func(q Question) bool {
			return q.Key() == key || asked.Question != nil && q.Path == asked.Question.Path && q.Attempt < asked.Question.Attempt
		})
		if asked.Question != nil {
			pending = append(pending, *asked.Question)
		}
	}
	return pending, nil
}
