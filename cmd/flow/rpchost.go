package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"syscall"

	"flow/cmd/flow/internal/rpc"
	"flow/pipeline/local"
	"flow/state"
	"flow/steps"
	"flow/steps/mask"
)

// A host has runs under way for programs: those of `flow rpc` and `flow serve`. Its methods
// may be called concurrently.
type host struct {
	*app           // prints nothing
	log  io.Writer // what went wrong where no client can be told
	dir  string    // where runs work that name no directory

	mu       sync.Mutex
	ending   bool
	runs     map[string]*hosted // under way, by id
	active   string             // the selected agent, "" for the default
	options  map[string]rpc.AgentOptions
	present  int                        // clients that answer questions
	nobody   chan struct{}              // closed while there are none
	standing map[*hostQuestion]struct{} // questions of the runs under way
	changed  chan struct{}              // closed when a question came
	work     sync.WaitGroup             // the runs
	tellings sync.WaitGroup             // those who are told of them
}

// A hosted run is under way in a host. It is the steps.Asker of its run.
type hosted struct {
	*host
	ctx    context.Context
	cancel context.CancelCauseFunc
	engine *engine
	chat   bool          // of agent/run
	ended  chan struct{} // closed when others may open it
	driven bool          // it is prepared; guarded by the host's mu
}

// A hostQuestion is one that a run of the host waits with.
type hostQuestion struct {
	run      string
	question steps.Question
}

func (a *app) newHost(dir string) *host {
	quiet := *a
	quiet.stdin, quiet.stdout, quiet.stderr = strings.NewReader(""), io.Discard, io.Discard
	nobody := make(chan struct{})
	close(nobody)
	return &host{
		app: &quiet, log: a.stderr, dir: dir, runs: map[string]*hosted{}, options: map[string]rpc.AgentOptions{},
		nobody: nobody, standing: map[*hostQuestion]struct{}{}, changed: make(chan struct{}),
	}
}

// errClientGone is why runs stop whose only client has left.
var errClientGone = errors.New("the client has gone")

// errEnding refuses runs that come too late.
func errEnding() error {
	return rpc.NewError(rpc.CodeBusy, "ending", "the server is ending", "start another one")
}

// launch lets a run go on by itself, once ready has prepared it. The host closes it.
func (h *host) launch(e *engine, chat bool, ready func() error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &hosted{host: h, ctx: ctx, cancel: cancel, engine: e, chat: chat, ended: make(chan struct{})}
	e.host = r
	if err := h.enter(r); err != nil {
		cancel(nil)
		return errors.Join(err, e.run.Close())
	}
	err := ready()
	if err == nil && e.succeeded() {
		err = errNothingLeft
	}
	if err != nil {
		defer h.work.Done()
		return errors.Join(err, r.release())
	}
	h.mu.Lock()
	r.driven = true
	h.mu.Unlock()
	go h.drive(r) // which releases it
	return nil
}

// errNothingLeft says of a run that it has succeeded already.
var errNothingLeft = errors.New("there is nothing left to go on with")

// enter notes a run, unless the host is ending. The run is waited for until h.work is told that it is done.
func (h *host) enter(r *hosted) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ending {
		return errEnding()
	}
	h.work.Add(1)
	h.runs[r.engine.run.Header().ID] = r
	return nil
}

// release gives the run free. Its followers hear of its end only then, for they may want to go
// on with it.
func (r *hosted) release() error {
	r.cancel(nil)
	err := r.engine.run.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	if id := r.engine.run.Header().ID; r.runs[id] == r { // else it goes on already
		delete(r.runs, id)
	}
	close(r.ended)
	return err
}

// drive takes a run to its end, and says what went wrong: a server that ends waits for that.
func (h *host) drive(r *hosted) {
	defer h.work.Done()
	err := r.engine.execute()
	if _, told := errors.AsType[exitError](err); told { // its state says it
		err = nil
	}
	if err = errors.Join(err, r.release()); err != nil {
		h.complain(r.engine.masker, err)
	}
}

// complain reports an error that no client asked for, without the secrets of its run.
func (h *host) complain(m *mask.Masker, err error) {
	a := *h.app
	masked := m.Writer(h.log)
	a.stderr = masked
	a.report(err)
	_ = masked.Flush() // who does not read it misses it
}

// running returns the run of that id if it is under way here, else nil.
func (h *host) running(id string) *hosted {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs[id]
}

// stopAll stops all runs politely, for they go on when they are resumed, and lets none begin.
func (h *host) stopAll(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ending = true
	for _, r := range h.runs {
		r.cancel(why)
	}
}

// finish waits until all runs have ended, and those who follow them were told. No other may
// begin.
func (h *host) finish() {
	h.close()
	h.work.Wait()
	h.tellings.Wait()
}

// close lets no run begin any more.
func (h *host) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ending = true
}

// counted has the end of the host wait until what it returns is called, unless it is ending.
func (h *host) counted() (done func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ending {
		return func() {}
	}
	h.tellings.Add(1)
	return h.tellings.Done
}

// killAll ends all processes at once.
func (h *host) killAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		if r.driven {
			r.engine.supervisor.KillAll()
		}
	}
}

// arrive counts a client that answers questions, until what it returns is called.
func (h *host) arrive() (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.present++; h.present == 1 {
		h.nobody = make(chan struct{})
	}
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.present--; h.present == 0 {
			close(h.nobody)
		}
	})
}

// Answer waits until ctx ends: whoever answers leaves a file, which the executor finds,
// as flow approve does. So an answer is not lost when flow dies, and the first one counts
// wherever it comes from. Without a client to ask, the question ends at once, unless it
// has time to wait for flow approve.
func (r *hosted) Answer(ctx context.Context, q steps.Question) (steps.Answer, error) {
	s := &hostQuestion{r.engine.run.Header().ID, q}
	nobody := r.stand(s)
	defer r.settle(s)
	if q.Permission != nil && !q.Deadline.IsZero() {
		nobody = nil
	}
	select {
	case <-ctx.Done():
		return steps.Answer{}, context.Cause(ctx)
	case <-nobody:
		return steps.Answer{}, local.ErrNobody
	}
}

// stand tells of a question. The channel is closed when nobody is there.
func (h *host) stand(s *hostQuestion) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.standing[s] = struct{}{}
	close(h.changed)
	h.changed = make(chan struct{})
	return h.nobody
}

func (h *host) settle(s *hostQuestion) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.standing, s)
}

// questions are those that stand, and a channel that is closed when there is another.
func (h *host) questions() ([]*hostQuestion, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*hostQuestion, 0, len(h.standing))
	for s := range h.standing {
		all = append(all, s)
	}
	return all, h.changed
}

// interrupted does what the signals ask for that a server gets: end politely, kill, leave.
func (h *host) interrupted(s syscall.Signal, count int, cancel context.CancelCauseFunc) {
	switch count {
	case 1:
		cancel(errors.New("the server was stopped"))
	case 2:
		h.killAll()
	default:
		leaveNow(s)
	}
}

// hostView opens a run for reading, by its whole id, the beginning of it, or last.
func (h *host) hostView(name string) (*state.View, error) {
	if name == "" {
		return nil, rpc.InvalidParam("params.run", "is empty", "the id of a run, or last")
	}
	return h.view(name)
}
