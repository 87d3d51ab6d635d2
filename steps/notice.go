package steps

import "flow/agents"

// The subtypes of the system events that flow itself reports about an attempt.
const (
	noticeCheck      = "check"
	noticePolicy     = "policy"
	noticeLimit      = "limit"
	noticeFallback   = "fallback"
	noticeBudget     = "budget"
	noticeCache      = "cache"
	noticeNotify     = "notify"
	noticePermission = "permission"
	noticeSandbox    = "sandbox"
	noticeSecret     = "secret"
	noticeVersion    = "version"
	noticeExit       = "exit"
)

// notice records an event of flow's own about the attempt: something that its agent did
// not do, and that whoever reads the events should know.
func (a *attempt) notice(subtype, message string) { a.noticeIn(a.result.Session, subtype, message) }

// noticeIn is notice for what belongs to a session that may not be that of the result yet.
func (a *attempt) noticeIn(session, subtype, message string) {
	now := a.x.Now().UTC()
	body := agents.System{Subtype: subtype, Message: message}
	_ = a.x.recorder.record(agents.Event{ // Exec returns the error
		Type: body.Type(), SessionID: session, Time: now, AgentType: a.profile().Use,
		Run: a.x.RunID, Step: a.task.Path, Attempt: a.task.Attempt, Body: body,
	})
}

// isNotice reports whether an event of this type that stands in no native file is a
// notice, or a decision. Others are those with which a translator ends the stream of a
// process.
func isNotice(eventType string) bool {
	return eventType == agents.System{}.Type() || eventType == agents.PermissionDecided{}.Type()
}
