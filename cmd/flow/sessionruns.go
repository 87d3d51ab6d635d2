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
// are wanted. A run that cannot be read does not hide the others.
func (a *app) runSessions(q sessionQuery) ([]session, error) {
	if q.run != "" {
		v, err := a.view(q.run)
		if err != nil {
			return nil, err
		}
		all, err := sessionsOf(v)
		return slices.DeleteFunc(all, func(s session) bool { return !q.wants(s) }), err
	}
	s, err := a.store()
	if err != nil {
		return nil, err
	}
	runs, err := s.Runs(0)
	if err != nil {
		return nil, err
	}
	var all sessionList
	for _, r := range runs {
		if len(all) >= q.most() {
			break
		}
		a.addSessions(&all, s, r.ID, q.wants)
	}
	return all, nil
}

// addSessions adds the sessions of one run that are wanted.
func (a *app) addSessions(all *sessionList, s *state.Store, run string, wanted func(session) bool) {
	v, err := s.Read(run)
	if err != nil {
		fmt.Fprintf(a.stderr, "warning: left out: %v\n", err)
		return
	}
	found, err := sessionsOf(v)
	if err != nil {
		fmt.Fprintf(a.stderr, "warning: left out: run %s: %v\n", run, err)
		return
	}
	for _, one := range found {
		if wanted(one) {
			all.add(one)
		}
	}
}

// sessionList has each session once.
type sessionList []session

// add adds a session, or the steps that an older run had in it: a run that took over what
// another one did counts that too.
func (l *sessionList) add(s session) {
	if known := l.find(s.Agent, s.ID); known != nil {
		known.Steps = append(s.Steps, known.Steps...)
		return
	}
	*l = append(*l, s)
}

func (l sessionList) find(agent, id string) *session {
	i := slices.IndexFunc(l, func(s session) bool { return s.Agent == agent && s.ID == id })
	if i < 0 {
		return nil
	}
	return &l[i]
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
	planned := plannedSteps(plan)
	var all sessionList
	for _, found := range steps.Sessions(v.Records()) {
		st, known := states[found.Path] // an update may have taken the step out
		if known && st.Form != dag.Single {
			continue // its session is that of the round or candidate that it took
		}
		s, err := newSession(v, found, st, spent[found.Session])
		if err != nil {
			return nil, err
		}
		if p := planned[steps.StaticPath(found.Path)].plan; p != nil && s.Agent == "" {
			s.Agent = p.Agents[stepAgent(st)].Use
		}
		all.join(s)
	}
	return all, nil
}

// join adds a session, or the step that a session which is there had part in next.
func (l *sessionList) join(s session) {
	known := l.find(s.Agent, s.ID)
	if known == nil {
		*l = append(*l, s)
		return
	}
	known.Steps = append(known.Steps, s.Steps...)
	if s.Status == agents.SessionActive {
		known.Status = s.Status
	}
}

// newSession is what is known of a session as far as one step had part in it.
func newSession(v *state.View, found steps.NativeSession, st dag.StepState, spent *sessionTurns) (session, error) {
	r, err := steps.DecodeResult(st.Result)
	if err != nil {
		return session{}, err
	}
	h := v.Header()
	s := session{Simulated: h.Simulated, Agent: r.Use}
	s.ID, s.Dir, s.Created, s.Updated, s.Status = found.Session, h.Workspace, found.Started, found.Started, agents.SessionUnfinished
	if spent != nil {
		spent.describe(&s)
	}
	run := v.Summary().Status
	if run == state.StatusRunning && st.Status == dag.Running && (r.Session == "" || r.Session == found.Session) {
		s.Status = agents.SessionActive
	}
	s.Steps = []sessionStep{{Run: h.ID, Step: found.Path, Status: standing(st.Status, run)}}
	return s, nil
}

func stepAgent(st dag.StepState) string {
	if st.Step == nil {
		return ""
	}
	return st.Step.Agent
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
	if t.status != "" {
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
