package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"flow/agents"
)

// errHungUp is the cause of a turn whose client is gone.
var errHungUp = errors.New("standard input is closed")

// A codexTurn is one turn of a thread: the voice of the app-server.
type codexTurn struct {
	*turn
	server  *codexServer
	thread  *codexThread
	id      string
	began   time.Time
	playing bool
	calls   int    // made so far, for their ids
	says    int    // messages so far, for theirs
	pending object // the item under way, or nil
	final   []object
	steered []string // more words of the user

	unresolved any // the id of the request that was pending when the turn was interrupted
}

// turnInput is what turn/start and turn/steer bring.
type turnInput struct {
	codexSettings
	Input    []textInput     `json:"input"`
	Schema   json.RawMessage `json:"outputSchema"`
	Expected string          `json:"expectedTurnId"`
	TurnID   string          `json:"turnId"`
}

// A textInput is one part of what the user says.
type textInput struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func (in turnInput) text() string {
	var parts []string
	for _, i := range in.Input {
		if i.Type == "text" {
			parts = append(parts, i.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// readTurn reads a request about a turn and finds its thread.
func (s *codexServer) readTurn(params json.RawMessage) (in turnInput, t *codexThread, err error) {
	if err := s.params(params, &in); err != nil {
		return in, nil, err
	}
	if t = s.threads[in.ThreadID]; t == nil {
		return in, nil, rpcErrorf(rpcInvalidRequest, "thread not found: %s", in.ThreadID)
	}
	return in, t, nil
}

func (s *codexServer) startTurn(params json.RawMessage) (any, func(), error) {
	in, t, err := s.readTurn(params)
	if err != nil {
		return nil, nil, err
	}
	const limit = 1 << 20
	if n := utf8.RuneCountInString(in.text()); n > limit {
		e := rpcErrorf(rpcInvalidParams, "Input exceeds the maximum length of %d characters.", limit)
		e.Data = object{"input_error_code": "input_too_large", "max_chars": limit, "actual_chars": n}
		return nil, nil, e
	}
	if now := s.turn; now != nil && now.thread == t { // a second turn steers the first
		now.steered = append(now.steered, in.text())
		return object{"turn": now.describe("inProgress", nil)}, nil, nil
	}
	if err := t.apply(s, in.codexSettings); err != nil {
		return nil, nil, err
	}
	return s.enqueue(t, in)
}

// enqueue makes a turn of a request.
func (s *codexServer) enqueue(t *codexThread, in turnInput) (any, func(), error) {
	id, err := uuid.NewV7()
	if err != nil {
		return nil, nil, err
	}
	schema := in.Schema
	if len(schema) == 0 || string(schema) == "null" { // one that the CLI cannot enforce stands in the prompt
		schema = agents.SchemaOf(in.text())
	}
	c := &codexTurn{server: s, thread: t, id: id.String(), turn: &turn{
		process: s.process, stream: s.stream, store: t.store, session: t.session, mode: t.mode, prompt: in.text(), dir: t.dir,
		schema: schema, counted: s.counted, survives: true,
	}}
	if err := c.accept(); err != nil {
		return nil, nil, err
	}
	t.mode = modeResume
	t.turns++
	s.queue = append(s.queue, c)
	return object{"turn": c.describe("inProgress", nil)}, nil, nil
}

func (s *codexServer) steerTurn(params json.RawMessage) (any, func(), error) {
	in, t, err := s.readTurn(params)
	if err != nil {
		return nil, nil, err
	}
	if s.turn == nil || s.turn.thread != t {
		return nil, nil, rpcErrorf(rpcInvalidRequest, "no active turn to steer")
	}
	if in.Expected != s.turn.id {
		return nil, nil, rpcErrorf(rpcInvalidRequest, "expected active turn id `%s` but found `%s`", in.Expected, s.turn.id)
	}
	s.turn.steered = append(s.turn.steered, in.text())
	return object{"turnId": s.turn.id}, nil, nil
}

func (s *codexServer) interruptTurn(params json.RawMessage) (any, func(), error) {
	in, t, err := s.readTurn(params)
	if err != nil {
		return nil, nil, err
	}
	if s.turn == nil || s.turn.thread != t || s.turn.id != in.TurnID {
		return nil, nil, rpcErrorf(rpcInvalidRequest, "no active turn to interrupt")
	}
	return object{}, func() { s.turn.cancel(errStopped) }, nil
}

// startReview is a turn whose prompt is what to review.
func (s *codexServer) startReview(params json.RawMessage) (any, func(), error) {
	in, t, err := s.readTurn(params)
	if err != nil {
		return nil, nil, err
	}
	var p struct {
		Target json.RawMessage `json:"target"`
	}
	if err := s.params(params, &p); err != nil {
		return nil, nil, err
	}
	in.Input = append(in.Input, textInput{"text", "Review " + string(p.Target)})
	result, after, err := s.enqueue(t, in)
	if err == nil {
		result.(object)["reviewThreadId"] = in.ThreadID
	}
	return result, after, err
}

// describe is the turn as the client sees it.
func (c *codexTurn) describe(status string, problem any) object {
	out := object{
		"id": c.id, "rootTurnId": c.id, "items": []any{}, "itemsView": "notLoaded", "status": status, "error": problem,
		"startedAt": nil, "completedAt": nil, "durationMs": nil,
	}
	if !c.playing {
		return out
	}
	out["startedAt"] = c.began.Unix()
	if status != "inProgress" {
		out["completedAt"], out["durationMs"] = time.Now().Unix(), time.Since(c.began).Milliseconds()
	}
	if len(c.final) > 0 && status == "completed" {
		out["items"], out["itemsView"] = c.final, "summary"
	}
	return out
}

// notify sends a notification about the turn.
func (c *codexTurn) notify(method string, fields object) {
	fields["threadId"], fields["turnId"] = c.session.ID, c.id
	c.server.notify(method, fields)
}

// status tells what the thread is doing.
func (c *codexTurn) status(kind string, flags ...string) {
	status := object{"type": kind}
	if kind == "active" {
		status["activeFlags"] = append([]string{}, flags...)
	}
	c.server.notify("thread/status/changed", object{"threadId": c.session.ID, "status": status})
}

func (c *codexTurn) open() {
	c.playing, c.began = true, time.Now()
	c.status("active")
	c.server.notify("turn/started", object{"threadId": c.session.ID, "turn": c.describe("inProgress", nil)})
	c.heardUser(c.prompt)
}

// heardUser shows a message of the user as an item.
func (c *codexTurn) heardUser(text string) {
	c.whole(object{
		"type": "userMessage", "id": c.id[:24] + fmt.Sprintf("%012d", c.says), "clientId": nil,
		"content": []object{{"type": "text", "text": text, "text_elements": []any{}}},
	})
	c.says++
}

// whole shows an item that begins and ends at once.
func (c *codexTurn) whole(item object) {
	c.started(item)
	c.completed(item)
}

func (c *codexTurn) started(item object) {
	now := time.Now().UnixMilli()
	item["startedAtMs"], item["completedAtMs"] = now, nil
	c.notify("item/started", object{"item": item, "startedAtMs": now})
}

func (c *codexTurn) completed(item object) {
	now := time.Now().UnixMilli()
	item["completedAtMs"] = now
	c.notify("item/completed", object{"item": item, "contentTokenCount": nil, "completedAtMs": now})
}

func (c *codexTurn) say(text string) { c.message(text, "commentary") }

// message streams a message of the model.
func (c *codexTurn) message(text, phase string) {
	item := object{
		"type": "agentMessage", "moderation": nil, "id": fmt.Sprintf("msg_simulated%03d_%03d", c.thread.turns, c.says), "text": "",
		"phase": phase, "memoryCitation": nil, "delivery": nil, "questions": nil,
	}
	c.says++
	c.started(item)
	for _, piece := range chunks(text) {
		c.notify("item/agentMessage/delta", object{"itemId": item["id"], "delta": piece})
	}
	item["text"] = text
	c.completed(item)
	c.final = []object{item}
}

func (c *codexTurn) answer(a answer) int {
	c.message(a.text, "final_answer")
	c.usage()
	c.finish("idle", "completed", nil)
	return 0
}

// usage reports tokens: those of the thread, and those of this turn.
func (c *codexTurn) usage() {
	count := func(u agents.Usage) object {
		return object{
			"totalTokens": u.TotalTokens, "inputTokens": u.InputTokens, "cachedInputTokens": u.CachedTokens,
			"cacheWriteInputTokens": u.CacheWriteTokens, "outputTokens": u.OutputTokens, "reasoningOutputTokens": u.ReasoningTokens,
		}
	}
	c.notify("thread/tokenUsage/updated", object{"tokenUsage": object{
		"total": count(c.session.Usage), "last": count(c.spent), "modelContextWindow": 258400,
	}})
}

// finish ends the turn.
func (c *codexTurn) finish(thread, status string, problem any) {
	c.status(thread)
	c.server.notify("turn/completed", object{"threadId": c.session.ID, "turn": c.describe(status, problem)})
}

// interrupt ends a turn that the client or a signal stopped. Of a client that is gone
// nobody takes leave.
func (c *codexTurn) interrupt(cause error) int {
	switch s, _ := errors.AsType[signalled](cause); {
	case errors.Is(cause, errClosed):
		c.complain("thread 'main' panicked: failed printing to stdout: Broken pipe (os error 32)")
		return 101
	case s.signal == syscall.SIGTERM, errors.Is(cause, errHungUp):
		return 0
	case s.signal != 0:
		return dieBy(s.signal)
	}
	c.reopen()
	c.finish("idle", "interrupted", nil)
	if c.unresolved != nil {
		c.resolved(c.unresolved)
	}
	return 0
}

// fold shows the words with which the client steered the turn.
func (c *codexTurn) fold() {
	for _, text := range c.steered {
		last := &c.session.Turns[len(c.session.Turns)-1]
		last.Prompt += "\n" + text
		c.heardUser(text)
	}
	c.steered = nil
}
