package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"flow/agents"
	"flow/pipeline/dag"
	"flow/state"
	"flow/steps"
)

// runSessions are the sessions of the run that is named, or of the latest runs: as many as
// are wanted.
func (a *app) runSessions(q sessionQuery) ([]session, error) {
	if q.run == "" {
		l, err := a.latestSessions(q.wants, q.most())
		return l.all, err
	}
	v, err := a.view(q.run)
	if err != nil {
		return nil, err
	}
	all, err := sessionsOf(v)
	return slices.DeleteFunc(all, func(s session) bool { return !q.wants(s) }), err
}

// latestSessions are the sessions that are wanted, of as many of the latest runs as it takes
// to have most of them. A run that cannot be read does not hide the others.
func (a *app) latestSessions(wanted func(session) bool, most int) (sessionList, error) {
	var l sessionList
	store, err := a.store()
	if err != nil {
		return l, err
	}
	runs, err := store.Runs(0)
	if err != nil {
		return l, err
	}
	for _, r := range runs {
		if len(l.all) >= most {
			break
		}
		found, err := readSessions(store, r.ID)
		if err != nil {
			fmt.Fprintf(a.stderr, "warning: left out: %v\n", err)
		}
		for _, s := range found {
			if wanted(s) {
				l.older(s)
			}
		}
	}
	return l, nil
}

func readSessions(store *state.Store, run string) ([]session, error) {
	v, err := store.Read(run)
	if err != nil {
		return nil, err
	}
	found, err := sessionsOf(v)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run, err)
	}
	return found, nil
}

// A sessionList has each session once.
type sessionList struct {
	all []session
	at  map[[2]string]int // by agent and id
}

// find returns the session of an agent with that id, nil if there is none.
func (l *sessionList) find(agent, id string) *session {
	i, ok := l.at[[2]string{agent, id}]
	if !ok {
		return nil
	}
	return &l.all[i]
}

func (l *sessionList) add(s session) {
	if l.at == nil {
		l.at = map[[2]string]int{}
	}
	l.at[[2]string{s.Agent, s.ID}] = len(l.all)
	l.all = append(l.all, s)
}

// older adds a session, or the steps that an older run had in it: a run that took over what
// another one did counts what that used.
func (l *sessionList) older(s session) {
	if known := l.find(s.Agent, s.ID); known != nil {
		known.Steps = append(s.Steps, known.Steps...)
		return
	}
	l.add(s)
}

// next adds a session, or the step that had part in it next.
func (l *sessionList) next(s session) {
	known := l.find(s.Agent, s.ID)
	if known == nil {
		l.add(s)
		return
	}
	known.Steps = append(known.Steps, s.Steps...)
	if s.Status == agents.SessionActive {
		known.Status = s.Status
	}
}

// sessionsOf are the sessions of a run, in the order in which they became known.
func sessionsOf(v *state.View) ([]session, error) {
	m, err := machine(v)
	if err != nil {
		return nil, err
	}
	plan, _, err := frozen(v)
	if err != nil {
		return nil, err
	}
	spent, err := turnsOf(v)
	if err != nil {
		return nil, err
	}
	states := map[string]dag.StepState{}
	for _, st := range m.Steps() {
		states[st.Path] = st
	}
	planned, run := plannedSteps(plan), v.Summary()
	var l sessionList
	for _, found := range steps.Sessions(v.Records()) {
		st, known := states[found.Path] // an update may have taken the step out
		if known && st.Form != dag.Single {
			continue // its session is that of the round or candidate that it took
		}
		if found.Replaced && spent[found.Session] == nil {
			continue // nothing came of it
		}
		s, err := newSession(v.Header(), run.Status, found, st)
		if err != nil {
			return nil, err
		}
		if p := planned[steps.StaticPath(found.Path)].plan; p != nil && st.Step != nil && s.Agent == "" {
			s.Agent = p.Agents[st.Step.Agent].Use
		}
		if turns := spent[found.Session]; turns != nil {
			turns.describe(&s)
		}
		l.next(s)
	}
	return l.all, nil
}

// newSession is what the record of one step says of a session, in a run that stands so.
func newSession(h state.Header, run string, found steps.NativeSession, st dag.StepState) (session, error) {
	r, err := steps.DecodeResult(st.Result)
	if err != nil {
		return session{}, err
	}
	s := session{Simulated: h.Simulated, Agent: r.Use}
	s.ID, s.Dir, s.Created, s.Updated, s.Status = found.Session, h.Workspace, found.Started, found.Started, agents.SessionUnfinished
	if run == state.StatusRunning && st.Status == dag.Running && (r.Session == "" || r.Session == found.Session) {
		s.Status = agents.SessionActive
	}
	s.Steps = []sessionStep{{Run: h.ID, Step: found.Path, Status: standing(st.Status, run)}}
	return s, nil
}

// sessionTurns is what the processes of a run came to that worked in one session.
type sessionTurns struct {
	agent, model string
	dir          string
	messages     int
	usage        *agents.Usage
	costUSD      *float64
	status       agents.SessionStatus
	ended        time.Time
}

// describe completes s.
func (t *sessionTurns) describe(s *session) {
	s.Agent, s.Model, s.Messages, s.Usage, s.CostUSD, s.Updated = t.agent, t.model, t.messages, t.usage, t.costUSD, t.ended
	if s.Status != agents.SessionActive {
		s.Status = t.status
	}
	if t.dir != "" {
		s.Dir = t.dir
	}
	if t.usage != nil {
		s.TokensUsed = t.usage.TotalTokens
	}
}

// turnEvent is what matters here of the events at the ends of an agent's process.
type turnEvent struct {
	Type      string        `json:"type"`
	Session   string        `json:"sessionId"`
	Timestamp time.Time     `json:"timestamp"`
	Agent     string        `json:"agentType"`
	Reason    agents.Reason `json:"reason"`
	Model     string        `json:"model"`
	Cwd       string        `json:"cwd"`
	Text      string        `json:"text"`
	Usage     *agents.Usage `json:"finalUsage"`
	CostUSD   *float64      `json:"costUsd"`
}

// turnsOf sums up the turns of a run, by session. It looks into few of the events, which
// may be very many.
func turnsOf(v *state.View) (map[string]*sessionTurns, error) {
	all := map[string]*sessionTurns{}
	started, ended := []byte(`"type":"sessionStarted"`), []byte(`"type":"sessionEnded"`)
	err := v.Events(func(line []byte) error {
		if !bytes.Contains(line, started) && !bytes.Contains(line, ended) {
			return nil
		}
		var e turnEvent
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("an event of run %s cannot be read: %w", v.Header().ID, err)
		}
		if e.Session == "" {
			return nil
		}
		if all[e.Session] == nil {
			all[e.Session] = &sessionTurns{}
		}
		all[e.Session].note(e)
		return nil
	})
	return all, err
}

// note counts a process: its prompt when it ends, and its answer.
func (t *sessionTurns) note(e turnEvent) {
	t.agent, t.ended = e.Agent, e.Timestamp
	if e.Model != "" {
		t.model = e.Model
	}
	if e.Cwd != "" {
		t.dir = e.Cwd
	}
	if e.Type == "sessionStarted" {
		t.status = agents.SessionUnfinished
		return
	}
	t.status = sessionStatus(e.Reason)
	t.messages++
	if e.Reason == agents.Completed {
		t.messages++
	}
	if e.Usage != nil {
		sum := *e.Usage
		if t.usage != nil {
			sum = sum.Add(*t.usage)
		}
		t.usage = &sum
	}
	if e.CostUSD != nil {
		sum := *e.CostUSD
		if t.costUSD != nil {
			sum += *t.costUSD
		}
		t.costUSD = &sum
	}
}

// sessionStatus is how a session stands whose last process ended so.
func sessionStatus(r agents.Reason) agents.SessionStatus {
	switch r {
	case agents.Completed:
		return agents.SessionCompleted
	case agents.Cancelled:
		return agents.SessionCancelled
	case agents.TimedOut:
		return agents.SessionTimedOut
	default:
		return agents.SessionFailed
	}
}
