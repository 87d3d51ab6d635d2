package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
)

// A talker generates what the agents print, in the shapes of the recorded streams:
// always the same for the same seed.
type talker struct {
	rand *rand.Rand
	text string // what the contents are cut from; quotes and newlines are escaped
	n    int    // lines so far
}

func newTalker() *talker {
	return &talker{
		rand: rand.New(rand.NewPCG(1, 2)), //nolint:gosec // it must be the same every time
		text: strings.Repeat(`func (s *Server) Serve(l net.Listener) error {\n\tfor { // accept \"all\"\n\t\tconn, err := l.Accept()\n\t}\n}\n`, 60_000),
	}
}

// mix returns the size of a content as in sessions of real agents: half of the lines
// below 0.5 KB, a tenth above 8 KB, and now and then one of megabytes.
func (t *talker) mix() int {
	if t.n%20_000 == 10_000 {
		return 5 * mib
	}
	return min(1+int(math.Exp(4.6+2.1*t.rand.NormFloat64())), 200_000)
}

// chatty returns the size of a content that makes lines of about 0.5 KB.
func (t *talker) chatty() int { return 100 + t.rand.IntN(250) }

// content cuts at least size bytes, and no escape in two.
func (t *talker) content(size int) string {
	from := t.rand.IntN(1000)
	for t.text[from-min(from, 1)] == '\\' {
		from++
	}
	to := from + size
	for t.text[to-1] == '\\' {
		to++
	}
	return t.text[from:to]
}

// stream returns whole lines of agent, about total bytes of them.
func (t *talker) stream(agent string, total int, size func() int) []byte {
	turn := map[string]func(*bytes.Buffer, func() int){"claude": t.claude, "codex": t.codex, "gemini": t.gemini}[agent]
	var b bytes.Buffer
	b.Grow(total + 20*mib)
	for b.Len() < total {
		turn(&b, size)
	}
	return b.Bytes()
}

// line prints one line. %c in format is a content, %d the number of the turn.
func (t *talker) line(b *bytes.Buffer, id int, format string, size func() int) {
	t.n++
	format = strings.ReplaceAll(format, "%d", fmt.Sprint(id))
	if before, after, ok := strings.Cut(format, "%c"); ok {
		b.WriteString(before)
		b.WriteString(t.content(size()))
		format = after
	}
	b.WriteString(format)
	b.WriteByte('\n')
}

// claude prints a message in parts, the message itself, a tool call and its result.
func (t *talker) claude(b *bytes.Buffer, size func() int) {
	const (
		stream = `{"type":"stream_event","event":`
		tail   = `,"session_id":"ce703752-b875-42dc-8f86-a36c496de8fc","parent_tool_use_id":null,"uuid":"3b1a3225-3882-465b-b499-85133fabe249"}`
		head   = `{"type":"assistant","message":{"id":"msg_%d","type":"message","role":"assistant","model":"claude-opus-5-5","content":[`
		usage  = `],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":100,"output_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}`
	)
	id := t.n
	for _, format := range []string{
		stream + `{"type":"message_start","message":{"id":"msg_%d","type":"message","role":"assistant","model":"claude-opus-5-5","content":[],"usage":{"input_tokens":100,"output_tokens":1}}}` + tail,
		stream + `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + tail,
		stream + `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Let me look."}}` + tail,
		head + `{"type":"text","text":"Let me look. %c"}` + usage + tail,
		stream + `{"type":"content_block_stop","index":0}` + tail,
		head + `{"type":"tool_use","id":"toolu_%d","name":"Bash","input":{"command":"%c","description":"look"}}` + usage + tail,
		`{"type":"user","message":{"role":"user","content":[{"tool_use_id":"toolu_%d","type":"tool_result","content":"%c","is_error":false}]},"timestamp":"2026-11-20T23:33:55.417Z"` + tail,
	} {
		t.line(b, id, format, size)
	}
}

// codex prints reasoning, a command that is started and completed, and a message.
func (t *talker) codex(b *bytes.Buffer, size func() int) {
	id := t.n
	for _, format := range []string{
		`{"type":"item.completed","item":{"id":"item_%d_r","type":"reasoning","text":"%c"}}`,
		`{"type":"item.started","item":{"id":"item_%d","type":"command_execution","command":"/bin/bash -lc 'go vet ./...'","aggregated_output":"","exit_code":null,"status":"in_progress"}}`,
		`{"type":"item.completed","item":{"id":"item_%d","type":"command_execution","command":"/bin/bash -lc 'go vet ./...'","aggregated_output":"%c","exit_code":0,"status":"completed"}}`,
		`{"type":"item.completed","item":{"id":"item_%d_m","type":"agent_message","text":"%c"}}`,
	} {
		t.line(b, id, format, size)
	}
}

// gemini prints a message, a tool call and its result.
func (t *talker) gemini(b *bytes.Buffer, size func() int) {
	id := t.n
	for _, format := range []string{
		`{"type":"message","timestamp":"2026-11-20T23:49:52.830Z","role":"assistant","content":"%c","delta":true}`,
		`{"type":"tool_use","timestamp":"2026-11-20T23:49:52.972Z","tool_name":"write_file","tool_id":"write_%d","parameters":{"file_path":"hello.txt","content":"%c"}}`,
		`{"type":"tool_result","timestamp":"2026-11-20T23:49:53.249Z","tool_id":"write_%d","status":"success","output":"%c"}`,
	} {
		t.line(b, id, format, size)
	}
}
