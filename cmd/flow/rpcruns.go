package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"flow/cmd/flow/internal/rpc"
	"flow/state"
	"flow/steps"
)

// The sizes of lists and pages.
const (
	listDefault, listMost = 50, 1000
	pageDefault, pageMost = 200, 1000
	pageBytes             = 4 << 20 // a page is not longer, but for one event
)

// listRuns is run/list.
func (h *host) listRuns(_ *rpc.Call, p rpc.ListParams) (rpc.ListResult, error) {
	limit, err := bound(p.Limit, listDefault, listMost)
	if err != nil {
		return rpc.ListResult{}, err
	}
	s, err := h.store()
	if err != nil {
		return rpc.ListResult{}, err
	}
	read := limit
	if p.Status != "" {
		read = 0 // those that stand so may be far down
	}
	all, err := s.Runs(read)
	if err != nil {
		return rpc.ListResult{}, err
	}
	out := rpc.ListResult{Runs: []rpc.RunSummary{}}
	for _, r := range all {
		if len(out.Runs) == limit {
			break
		}
		if p.Status != "" && p.Status != r.Status {
			continue
		}
		out.Runs = append(out.Runs, rpc.RunSummary{
			ID: r.ID, Name: r.Name, File: r.File, Status: r.Status, Created: r.Created, Ended: r.Ended,
			Steps: r.Steps, Simulated: r.Simulated, Here: h.running(r.ID) != nil,
		})
	}
	return out, nil
}

// bound is a number that a client may leave out.
func bound(n, usual, most int) (int, error) {
	switch {
	case n == 0:
		return usual, nil
	case n < 0 || n > most:
		return 0, rpc.InvalidParam("params.limit", fmt.Sprintf("is %d", n), fmt.Sprintf("from 1 to %d", most))
	default:
		return n, nil
	}
}

// showRun is run/show.
func (h *host) showRun(_ *rpc.Call, p rpc.RunRef) (rpc.ShowResult, error) {
	v, err := h.hostView(p.Run)
	if err != nil {
		return rpc.ShowResult{}, err
	}
	r, err := readReport(v)
	if err != nil {
		return rpc.ShowResult{}, err
	}
	var report bytes.Buffer
	if err := r.printJSON(&report); err != nil {
		return rpc.ShowResult{}, err
	}
	out := rpc.ShowResult{Report: report.Bytes(), Questions: []rpc.Question{}, Here: h.running(r.Run) != nil}
	m, err := machine(v)
	if err != nil {
		return out, err
	}
	open, err := openQuestions(v, m)
	for _, q := range open {
		if !steps.Answered(v, q.Key()) {
			out.Questions = append(out.Questions, rpcQuestion(r.Run, q))
		}
	}
	return out, err
}

// runEvents is run/events: a page, or the beginning of notifications.
func (h *host) runEvents(c *rpc.Call, p rpc.EventsParams) (rpc.EventsResult, error) {
	limit, err := bound(p.Limit, pageDefault, pageMost)
	if err != nil {
		return rpc.EventsResult{}, err
	}
	v, err := h.hostView(p.Run)
	if err != nil {
		return rpc.EventsResult{}, err
	}
	if err := stepOf(v, p.Step); err != nil {
		return rpc.EventsResult{}, err
	}
	page := eventPage{limit: limit, step: p.Step, result: rpc.EventsResult{Run: v.Header().ID, Events: []json.RawMessage{}, Next: p.After}}
	if p.Subscribe {
		page.result.Subscribed = true
		return page.result, h.subscribe(c, following{run: page.result.Run, step: p.Step, after: p.After, runEvents: p.RunEvents})
	}
	offset, err := behindCursor(v, p.After)
	if err == nil {
		err = v.EventsFrom(offset, page.add)
	}
	if err != nil && !errors.Is(err, errPageFull) {
		return rpc.EventsResult{}, err
	}
	return page.result, nil
}

// behindCursor is where in the event log to look for the events behind a cursor: page after
// page, and client after client, must not read it from its beginning.
func behindCursor(v *state.View, after int64) (int64, error) {
	if after <= 0 {
		return 0, nil
	}
	return v.EventOffset(func(line []byte) bool {
		at, err := placeOf(line)
		return err == nil && at.Seq <= after
	})
}

// stepOf refuses a step that the run does not have; "" is all of them.
func stepOf(v *state.View, step string) error {
	if step == "" {
		return nil
	}
	if err := knownStep(v, step); err != nil {
		msg, hint, _ := strings.Cut(err.Error(), "\nhint: ")
		return rpc.InvalidParam("params.step", msg, hint)
	}
	return nil
}

// streamEvents is GET /events: the notifications of a run for a client that only listens.
func (h *host) streamEvents(s *rpc.Session, p rpc.EventsParams) (func() error, error) {
	v, err := h.hostView(p.Run)
	if err != nil {
		return nil, err
	}
	if err := stepOf(v, p.Step); err != nil {
		return nil, err
	}
	t, err := h.listener(s).begin(following{run: v.Header().ID, step: p.Step, after: p.After, runEvents: p.RunEvents})
	if err != nil {
		return nil, err
	}
	return t.tell, nil
}

// subscribe has the client told of a run once its request was answered.
func (h *host) subscribe(c *rpc.Call, f following) error {
	if !c.Session.CanNotify() {
		return rpc.InvalidParam("params.subscribe", "needs a client that stays", "use the WebSocket /ws, or GET /events?run="+f.run)
	}
	t, err := h.listener(c.Session).begin(f)
	if err != nil {
		return err
	}
	c.After(t.start)
	return nil
}

// unsubscribe is run/unsubscribe.
func (h *host) unsubscribe(c *rpc.Call, p rpc.RunRef) (rpc.None, error) {
	v, err := h.hostView(p.Run)
	if err != nil {
		return rpc.None{}, err
	}
	if !c.Session.CanNotify() || !h.listener(c.Session).stop(v.Header().ID) {
		return rpc.None{}, rpc.NewError(rpc.CodeNotFound, "no_subscription", "the client does not follow run "+v.Header().ID, "a subscription ends with its run")
	}
	return rpc.None{}, nil
}

// initialize is rpc/initialize.
func (h *host) initialize(c *rpc.Call, p rpc.InitializeParams) (rpc.InitializeResult, error) {
	if p.Capabilities.Permissions {
		if !c.Session.CanNotify() {
			return rpc.InitializeResult{}, rpc.InvalidParam("params.capabilities.permissions", "needs a client that stays", "use the WebSocket /ws; agent/respond works without it")
		}
		h.listener(c.Session).answering()
	}
	return rpc.InitializeResult{Protocol: rpc.ProtocolVersion, Server: rpc.Peer{Name: "flow", Version: version()}}, nil
}

var errPageFull = errors.New("the page is full")

// An eventPage is filled with the events behind a cursor.
type eventPage struct {
	limit  int
	step   string
	size   int
	result rpc.EventsResult
}

func (p *eventPage) add(line []byte) error {
	at, err := placeOf(line)
	if err != nil || at.Seq <= p.result.Next {
		return err
	}
	if at.within(p.step) {
		if len(p.result.Events) == p.limit || p.size > 0 && p.size+len(line) > pageBytes {
			p.result.More = true
			return errPageFull
		}
		p.result.Events = append(p.result.Events, bytes.Clone(line))
		p.size += len(line)
	}
	p.result.Next = at.Seq
	return nil
}
