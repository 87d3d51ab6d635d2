package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
	"time"
)

// A peer is the client of a two-way agent that runs in this process.
type peer struct {
	t      *testing.T
	in     *os.File
	out    *bufio.Reader
	heard  []map[string]any     // every line so far
	refuse func(map[string]any) // is shown every line first, unless nil
	ended  chan int
	stderr bytes.Buffer // to be read once it has ended
}

// talk starts an agent and leaves its standard input open.
func (l *lab) talk(name string, args ...string) *peer {
	l.t.Helper()
	stdin, in := pipe(l.t)
	out, stdout := pipe(l.t)
	// An agent that waits for something else than the test fails the test.
	if err := out.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		l.t.Fatal(err)
	}
	p := &peer{t: l.t, in: in, out: bufio.NewReader(out), ended: make(chan int, 1)}
	env := l.env
	go func() {
		status := Main(name, args, stdin, stdout, &p.stderr, func(k string) string { return env[k] })
		_, _ = stdin.Close(), stdout.Close()
		p.ended <- status
	}()
	return p
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return r, w
}

// say writes one line: text as it is, anything else as JSON.
func (p *peer) say(v any) {
	p.t.Helper()
	line, ok := v.(string)
	if !ok {
		data, err := json.Marshal(v)
		if err != nil {
			p.t.Fatal(err)
		}
		line = string(data)
	}
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// next returns the next line, or nil at the end.
func (p *peer) next() map[string]any {
	p.t.Helper()
	line, err := p.out.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		p.t.Fatalf("%v; heard %v", err, p.heard)
	}
	var v map[string]any
	if err := json.Unmarshal(line, &v); err != nil {
		p.t.Fatalf("a line that is no JSON object: %q", line)
	}
	p.heard = append(p.heard, v)
	if p.refuse != nil {
		p.refuse(v)
	}
	return v
}

// await returns the next line that ok accepts.
func (p *peer) await(what string, ok func(map[string]any) bool) map[string]any {
	p.t.Helper()
	for v := p.next(); v != nil; v = p.next() {
		if ok(v) {
			return v
		}
	}
	status := <-p.ended
	p.t.Fatalf("no %s; status %d, stderr %s, heard %v", what, status, &p.stderr, p.heard)
	return nil
}

// close ends the input and returns what is left to be said, and the exit status.
func (p *peer) close() (rest []map[string]any, status int) {
	p.t.Helper()
	if err := p.in.Close(); err != nil {
		p.t.Fatal(err)
	}
	return p.rest()
}

// rest is what the agent says until it ends by itself.
func (p *peer) rest() (rest []map[string]any, status int) {
	p.t.Helper()
	for v := p.next(); v != nil; v = p.next() {
		rest = append(rest, v)
	}
	return rest, <-p.ended
}
