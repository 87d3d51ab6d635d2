package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"time"
)

// A claudeTalk is Claude Code with --input-format stream-json: turns as long as the
// client sends messages, and requests of both sides about them.
type claudeTalk struct {
	*claude
	queue     []claudeMessage // that no turn has taken yet
	current   []claudeMessage // that the turn under way answers
	hooks     []claudeHook
	asked     *claudeAsk // the request that waits for an answer, or nil
	requested int        // requests made
	status    int        // of the last turn
	failure   error      // why the input cannot be read on
}

// A claudeMessage is one message of the user.
type claudeMessage struct {
	text string
	uuid string          // "" where the client gave none
	raw  json.RawMessage // the API's message
}

// talkClaude is the process of Claude Code that listens.
func talkClaude(p *process, args claudeArgs) (int, error) {
	ctx, stop := watch()
	defer stop()
	s := &stream{w: p.stdout, ear: listen(ctx, p.stdin)}
	k := &claudeTalk{claude: &claude{turn: &turn{process: p, stream: s, schema: args.schema}, args: args, began: time.Now()}}
	k.talk, k.hear = k, k.heard
	var err error
	if k.dir, err = os.Getwd(); err != nil {
		return 0, err
	}
	if err := k.prepare(k); err != nil {
		return 0, err
	}
	if status, err := k.openSession(); status != 0 || err != nil {
		return status, err
	}
	return k.serve(ctx)
}

// serve takes messages until the input ends, and returns the status of the last turn.
func (k *claudeTalk) serve(ctx context.Context) (int, error) {
	for {
		signal := signalOf(ctx)
		switch {
		case k.failure != nil:
			return 0, k.failure
		case signal == syscall.SIGINT, errors.Is(k.err, errClosed):
			return 0, nil
		case signal != 0:
			return 128 + int(signal), nil
		case len(k.queue) > 0:
			if err := k.next(ctx); k.gone || err != nil {
				return k.status, err
			}
		case k.closed():
			return k.status, nil
		default:
			k.idle(ctx)
		}
	}
}

// next answers the first message that waits.
func (k *claudeTalk) next(ctx context.Context) (err error) {
	k.current, k.queue = k.queue[:1:1], k.queue[1:]
	k.turn = &turn{
		process: k.process, stream: k.stream, store: k.store, session: k.session, mode: k.mode, dir: k.dir,
		schema: k.schema, counted: k.counted, prompt: k.current[0].text,
	}
	k.began, k.denials, k.credited, k.aborted = time.Now(), nil, false, false
	if err := k.prepare(k); err != nil {
		return err
	}
	k.lifecycle(k.current[0], "started")
	if name := claudeCommand(k.prompt); name != "" {
		k.status, err = k.localCommand(name)
	} else {
		err = k.converse(ctx)
	}
	state := "completed"
	if k.aborted {
		state = "cancelled"
	}
	for _, m := range k.current {
		k.lifecycle(m, state)
	}
	k.current, k.mode = nil, modeResume
	return err
}

// converse plays the turn.
func (k *claudeTalk) converse(ctx context.Context) (err error) {
	if err := k.start(); err != nil {
		return err
	}
	k.status, err = k.play(ctx, k)
	return err
}

// lifecycle tells what becomes of a message that has a name.
func (k *claudeTalk) lifecycle(m claudeMessage, state string) {
	if m.uuid != "" {
		k.put(k.envelope(object{"type": "command_lifecycle", "command_uuid": m.uuid, "state": state}))
	}
}

// fold takes the messages that came during a tool call into the turn under way.
func (k *claudeTalk) fold() {
	for _, m := range k.queue {
		k.lifecycle(m, "started")
		last := &k.session.Turns[len(k.session.Turns)-1]
		last.Prompt += "\n" + m.text
	}
	k.current, k.queue = append(k.current, k.queue...), nil
}

// uuids are the names of the messages that the turn answers.
func (k *claudeTalk) uuids() []string {
	if k == nil {
		return nil
	}
	var out []string
	for _, m := range k.current {
		if m.uuid != "" {
			out = append(out, m.uuid)
		}
	}
	return out
}

// replay prints the messages that the turn answers, where that is wanted.
func (k *claudeTalk) replay() {
	if k == nil || !k.args.has("--replay-user-messages") {
		return
	}
	for _, m := range k.current {
		line := k.envelope(object{
			"type": "user", "message": m.raw, "parent_tool_use_id": nil, "timestamp": timestamp(), "isReplay": true,
		})
		if m.uuid != "" {
			line["uuid"] = m.uuid
		}
		k.send(line)
	}
}

// heard takes a line of the client; nil is the end of its words.
func (k *claudeTalk) heard(line []byte) {
	var m struct {
		Type      string          `json:"type"`
		UUID      string          `json:"uuid"`
		Message   json.RawMessage `json:"message"`
		RequestID string          `json:"request_id"`
		Request   json.RawMessage `json:"request"`
		Response  json.RawMessage `json:"response"`
	}
	switch err := json.Unmarshal(line, &m); {
	case line == nil:
		k.asked.fail("AbortError: Tool permission stream closed before response received")
	case err != nil:
		k.refuseInput("Error parsing streaming input line (type=unknown, %d chars): SyntaxError", len(line))
	case m.Type == "user":
		k.enqueue(m.Message, m.UUID)
	case m.Type == "control_request":
		k.control(m.RequestID, m.Request)
	case m.Type == "control_response":
		k.asked.take(m.Response)
	} // other types are ignored, as the CLI does
}

// fail1 ends the process with status 1 for what the client wrote.
func (k *claudeTalk) refuseInput(format string, args ...any) {
	k.failure = quit(1, format, args...)
	if k.cancel != nil {
		k.cancel(k.failure)
	}
}

// enqueue takes a message of the user.
func (k *claudeTalk) enqueue(message json.RawMessage, uuid string) {
	var m struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(message, &m); err != nil || m.Role != "user" {
		role := m.Role
		if role == "" {
			role = "undefined"
		}
		k.refuseInput("Error: Expected message role 'user', got '%s'", role)
		return
	}
	one := claudeMessage{text: textOf(m.Content), uuid: uuid, raw: message}
	k.lifecycle(one, "queued")
	k.queue = append(k.queue, one)
}

// textOf is the text of a content that is a string or a list of blocks.
func textOf(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var blocks []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &blocks) != nil {
		return ""
	}
	var parts []string
	for _, b := range blocks {
		if b.Text != "" {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}
