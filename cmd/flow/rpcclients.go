package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"flow/cmd/flow/internal/rpc"
	"flow/state"
	"flow/steps"
)

// maxSubscriptions is how many runs one client may follow at once.
const maxSubscriptions = 64

// foreignPoll is how often questions are looked for in runs of other processes.
const foreignPoll = time.Second

// A listener is what a host knows of a client that hears notifications.
type listener struct {
	host    *host
	session *rpc.Session

	mu      sync.Mutex
	answers bool                          // it hears of all questions of the host
	follows map[string]context.CancelFunc // by run
	told    map[string]bool               // questions that it was told of, by questionKey
	wake    chan struct{}                 // closed when follows or answers has changed; nil: nobody watches
}

// listener returns what the host knows of the client of a session.
func (h *host) listener(s *rpc.Session) *listener {
	return rpc.State(s, func() *listener {
		return &listener{host: h, session: s, follows: map[string]context.CancelFunc{}, told: map[string]bool{}}
	})
}

// A following is a wish to hear of a run.
type following struct {
	run, step string
	after     int64 // the cursor
	runEvents bool
}

// follow has the client told of a run, in place of what it was told of it before.
func (l *listener) follow(f following) error {
	tell, err := l.begin(f)
	if err != nil {
		return err
	}
	l.session.Go(func() {
		ctx := l.session.Context()
		if err := tell(ctx); err != nil && ctx.Err() == nil {
			l.host.complain(fmt.Errorf("run %s cannot be followed any more: %w", f.run, err))
		}
	})
	return nil
}

// begin notes that the client follows a run. What it returns tells it, until the run has
// ended, another such wish takes its place, or its context ends.
func (l *listener) begin(f following) (tell func(context.Context) error, err error) {
	v, err := l.host.view(f.run)
	if err != nil {
		return nil, err
	}
	stopped, err := l.note(f.run)
	if err != nil {
		return nil, err
	}
	told := l.host.telling(f.run)
	return func(ctx context.Context) error {
		defer told()
		defer l.forget(stopped, f.run)
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(stopped, cancel)()
		err := l.host.follow(ctx, l.session, v, f, l.ask)
		if stopped.Err() != nil {
			return nil
		}
		return err
	}, nil
}

// note notes that the client follows a run. The context ends when it no longer does.
func (l *listener) note(run string) (context.Context, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stop := l.follows[run]; stop != nil {
		stop()
	} else if len(l.follows) >= maxSubscriptions {
		return nil, rpc.NewError(rpc.CodeBusy, "subscriptions", fmt.Sprintf("the client follows %d runs already", maxSubscriptions), "run/unsubscribe from one")
	}
	for key := range l.told { // a client that asks again is told again
		if strings.HasPrefix(key, run+"\x00") {
			delete(l.told, key)
		}
	}
	ctx, stop := context.WithCancel(l.session.Context())
	l.follows[run] = stop
	l.watch()
	return ctx, nil
}

// forget forgets a run that has ended, unless it is followed anew.
func (l *listener) forget(stopped context.Context, run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if stopped.Err() == nil {
		l.follows[run]()
		delete(l.follows, run)
	}
}

// stop ends what follow has begun. It reports whether there was something.
func (l *listener) stop(run string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	stop := l.follows[run]
	if stop != nil {
		stop()
		delete(l.follows, run)
	}
	return stop != nil
}

// answering says that the client answers questions for as long as it is there.
func (l *listener) answering() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.answers {
		return
	}
	l.answers = true
	l.session.OnLeave(l.host.arrive())
	l.watch()
}

// watch has the questions of the host told, from now on or anew. mu is held.
func (l *listener) watch() {
	first := l.wake == nil
	if !first {
		close(l.wake)
	}
	l.wake = make(chan struct{})
	if first {
		l.session.Go(l.watchQuestions)
	}
}

// watchQuestions tells the client of the questions of the host's runs that it answers or
// follows, as long as it is there.
func (l *listener) watchQuestions() {
	ctx := l.session.Context()
	for {
		all, changed := l.host.questions()
		wake := l.wanted(&all)
		for _, s := range all {
			if l.ask(ctx, s.run, s.question) != nil {
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-wake:
		}
	}
}

// wanted leaves those questions that the client is to hear of.
func (l *listener) wanted(all *[]*hostQuestion) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := (*all)[:0]
	for _, s := range *all {
		if l.answers || l.follows[s.run] != nil {
			kept = append(kept, s)
		}
	}
	*all = kept
	return l.wake
}

// ask tells the client of a question, once.
func (l *listener) ask(ctx context.Context, run string, q steps.Question) error {
	key := fmt.Sprintf("%s\x00%s\x00%d\x00%s", run, q.Key(), q.Attempt, requestOf(q))
	l.mu.Lock()
	told := l.told[key]
	l.told[key] = true
	l.mu.Unlock()
	if told {
		return nil
	}
	return l.session.Notify(ctx, asking(run, q))
}

// requestOf is the agent's own id of a request: the same call may be asked about again.
func requestOf(q steps.Question) string {
	if q.Permission == nil {
		return ""
	}
	return q.Permission.Request
}

// asking is the notification of a question.
func asking(run string, q steps.Question) rpc.Notification {
	if q.Permission == nil {
		return rpc.Notification{Method: rpc.RunQuestion, Params: rpcQuestion(run, q)}
	}
	return rpc.Notification{Method: rpc.AgentPermission, Params: rpcPermission(run, q)}
}

func rpcQuestion(run string, q steps.Question) rpc.Question {
	out := rpc.Question{Run: run, Step: q.Path, QuestionID: q.Path, Text: q.Text, Form: q.Form, Deadline: q.Deadline}
	if q.Permission != nil {
		p := rpcPermission(run, q)
		out.QuestionID, out.Permission = p.PermissionID, &p
	}
	return out
}

func rpcPermission(run string, q steps.Question) rpc.PermissionParams {
	p := q.Permission
	return rpc.PermissionParams{
		Envelope:     rpc.Envelope{AgentType: p.Use, SessionID: p.Session, Run: run, Step: q.Path, Attempt: q.Attempt, Timestamp: p.Asked},
		ToolParams:   rpc.Tool(p.Call, string(p.Tool), p.Native, p.Target, string(p.Risk), p.Arguments),
		PermissionID: p.ID, RequestID: p.Request, AutoApproveHint: p.Risk == "low", Rule: p.Rule, Where: p.Where, Deadline: q.Deadline,
	}
}

// follow sends all events of a run behind a cursor, as it goes on, then that it has ended.
// ask tells of questions that stand where the host does not know of them.
func (h *host) follow(ctx context.Context, s *rpc.Session, v *state.View, f following, ask func(context.Context, string, steps.Question) error) error {
	watching, done := context.WithCancel(ctx)
	var watch sync.WaitGroup
	own := h.running(f.run)
	if own == nil {
		watch.Go(func() { h.watchForeign(watching, f.run, ask) })
	}
	cursor := f.after
	err := v.Follow(ctx, func(line []byte) error {
		next, err := sendEvent(ctx, s, line, f, cursor)
		cursor = next
		return err
	})
	done()
	watch.Wait()
	if err != nil {
		return err
	}
	if own != nil {
		select {
		case <-own.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return h.tellEnd(ctx, s, f.run, cursor, ask)
}

// sendEvent sends an event that is behind the cursor, and returns the cursor behind it.
func sendEvent(ctx context.Context, s *rpc.Session, line []byte, f following, cursor int64) (int64, error) {
	at, err := placeOf(line)
	if err != nil || at.Seq <= cursor {
		return cursor, err
	}
	if !at.within(f.step) {
		return at.Seq, nil
	}
	n, told, err := rpc.Translate(line)
	if told && err == nil {
		if f.runEvents {
			n.Cursor = 0 // the run_event comes after it
		}
		err = s.Notify(ctx, n)
	}
	if f.runEvents && err == nil {
		params := rpc.RunEventParams{Run: f.run, Seq: at.Seq, Event: bytes.Clone(line)}
		err = s.Notify(ctx, rpc.Notification{Method: rpc.RunEvent, Params: params, Cursor: at.Seq})
	}
	return at.Seq, err
}

// An eventPlace is what says where an event belongs.
type eventPlace struct {
	Seq  int64  `json:"seq"`
	Step string `json:"step"`
}

func placeOf(line []byte) (p eventPlace, err error) {
	if err := json.Unmarshal(line, &p); err != nil {
		return p, fmt.Errorf("an event cannot be read: %w", err)
	}
	return p, nil
}

// within reports whether the event is of a step or of one inside it; "" is the run.
func (p eventPlace) within(step string) bool {
	return step == "" || p.Step == step || strings.HasPrefix(p.Step, step+".")
}

// watchForeign looks for questions of a run that is not the host's, for as long as ctx
// lasts. What cannot be read now may be later.
func (h *host) watchForeign(ctx context.Context, run string, ask func(context.Context, string, steps.Question) error) {
	tick := time.NewTicker(foreignPoll)
	defer tick.Stop()
	for {
		if err := h.askStanding(ctx, run, ask); err != nil {
			h.complain(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// askStanding tells of the questions that stand in a run, as its journal says.
func (h *host) askStanding(ctx context.Context, run string, ask func(context.Context, string, steps.Question) error) error {
	v, err := h.view(run)
	if err != nil {
		return err
	}
	m, err := machine(v)
	if err != nil {
		return err
	}
	open, err := openQuestions(v, m)
	for _, q := range open {
		if !steps.Answered(v, q.Key()) && ask(ctx, run, q) != nil {
			return nil // the client has gone
		}
	}
	return err
}

// tellEnd tells how a run has ended, with the questions that it waits with.
func (h *host) tellEnd(ctx context.Context, s *rpc.Session, run string, cursor int64, ask func(context.Context, string, steps.Question) error) error {
	if err := h.askStanding(ctx, run, ask); err != nil {
		return err
	}
	v, err := h.view(run)
	if err != nil {
		return err
	}
	r, err := readReport(v)
	if err != nil {
		return err
	}
	end := rpc.RunCompleteParams{Run: run, Status: r.Status, Error: r.why(), Seq: cursor}
	return s.Notify(ctx, rpc.Notification{Method: rpc.RunComplete, Params: end})
}
