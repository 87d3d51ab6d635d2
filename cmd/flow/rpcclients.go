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

// A telling tells a client of a run.
type telling struct {
	*listener
	following
	view   *state.View
	own    *hosted         // the run, if it is under way here
	wanted context.Context // ends when the client no longer wants to hear, or has gone
}

// begin notes that the client follows a run, in place of what it followed of it before.
func (l *listener) begin(f following) (*telling, error) {
	v, err := l.host.view(f.run)
	if err != nil {
		return nil, err
	}
	wanted, err := l.note(f.run)
	if err != nil {
		return nil, err
	}
	return &telling{l, f, v, l.host.running(f.run), wanted}, nil
}

// start tells beside the client's calls.
func (t *telling) start() {
	told := func() {}
	if t.own != nil { // then the host's end waits for it
		told = t.host.counted()
	}
	t.session.Go(func() {
		defer told()
		if err := t.tell(); err != nil {
			t.complain(fmt.Errorf("run %s cannot be followed any more: %w", t.run, err))
		}
	})
}

// complain reports why the client cannot be told.
func (t *telling) complain(err error) {
	m, _ := t.host.known(t.view) // a plan that cannot be read names no secrets
	t.host.complain(m, err)
}

// tell sends all that happens behind the cursor, until the run has ended, another such wish
// takes the place of this one, or the client has gone.
func (t *telling) tell() error {
	defer t.forget(t.run, t.wanted)
	err := t.follow(t.wanted)
	if t.wanted.Err() != nil {
		return nil
	}
	return err
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
func (l *listener) forget(run string, wanted interface{ Err() error }) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wanted.Err() == nil {
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
		wake := l.relevant(&all)
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

// relevant leaves those questions that the client is to hear of.
func (l *listener) relevant(all *[]*hostQuestion) <-chan struct{} {
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

// follow sends all events behind the cursor as the run goes on, then that it has ended.
// Questions that the host does not know of are looked for.
func (t *telling) follow(ctx context.Context) error {
	watching, done := context.WithCancel(ctx)
	var watch sync.WaitGroup
	if t.own == nil {
		watch.Go(func() { t.watchForeign(watching) })
	}
	offset, err := behindCursor(t.view, t.after)
	if err == nil {
		err = t.view.FollowFrom(ctx, offset, func(line []byte) error {
			next, err := sendEvent(ctx, t.session, line, t.following)
			t.after = next
			return err
		})
	}
	done()
	watch.Wait()
	if err != nil {
		return err
	}
	if t.own != nil {
		select {
		case <-t.own.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return t.tellEnd(ctx)
}

// sendEvent sends an event that is behind the cursor, and returns the cursor behind it.
func sendEvent(ctx context.Context, s *rpc.Session, line []byte, f following) (int64, error) {
	at, err := placeOf(line)
	if err != nil || at.Seq <= f.after {
		return f.after, err
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
func (t *telling) watchForeign(ctx context.Context) {
	tick := time.NewTicker(foreignPoll)
	defer tick.Stop()
	for {
		if err := t.askStanding(ctx); err != nil {
			t.complain(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// askStanding tells of the questions that stand in the run, as its journal says.
func (t *telling) askStanding(ctx context.Context) error {
	v, err := t.host.view(t.run)
	if err != nil {
		return err
	}
	m, err := machine(v)
	if err != nil {
		return err
	}
	open, err := openQuestions(v, m)
	for _, q := range open {
		if !steps.Answered(v, q.Key()) && t.ask(ctx, t.run, q) != nil {
			return nil // the client has gone
		}
	}
	return err
}

// tellEnd tells how the run has ended, with the questions that it waits with.
func (t *telling) tellEnd(ctx context.Context) error {
	if err := t.askStanding(ctx); err != nil {
		return err
	}
	v, err := t.host.view(t.run)
	if err != nil {
		return err
	}
	r, err := readReport(v)
	if err != nil {
		return err
	}
	end := rpc.RunCompleteParams{Run: t.run, Status: r.Status, Error: r.why(), Seq: t.after}
	return t.session.Notify(ctx, rpc.Notification{Method: rpc.RunComplete, Params: end})
}
