package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"flow/cmd/flow/internal/rpc"
	"flow/cmd/flow/internal/rpcclient"
)

// A peer is a client of a server under test, and what it has heard.
type peer struct {
	*rpcclient.Client
	heard *heard
}

type note struct {
	Method string
	Params map[string]any
	Raw    json.RawMessage
}

// heard are notifications in the order in which they came.
type heard struct {
	mu   sync.Mutex
	more *sync.Cond
	all  []note
	gone bool
}

func newHeard() *heard {
	h := &heard{}
	h.more = sync.NewCond(&h.mu)
	return h
}

func (h *heard) take(method string, params json.RawMessage) {
	n := note{Method: method, Raw: params}
	if err := json.Unmarshal(params, &n.Params); err != nil {
		panic(err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, n)
	h.more.Broadcast()
}

func (h *heard) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = true
	h.more.Broadcast()
}

// await returns the first notification that is wanted. It fails when none comes any more.
func (p peer) await(t *testing.T, wanted func(note) bool) note {
	t.Helper()
	late := time.AfterFunc(time.Minute, p.heard.leave)
	defer late.Stop()
	p.heard.mu.Lock()
	defer p.heard.mu.Unlock()
	for i := 0; ; i++ {
		for i == len(p.heard.all) {
			if p.heard.gone {
				t.Fatalf("it never came; heard were %v", p.heard.methods())
			}
			p.heard.more.Wait()
		}
		if wanted(p.heard.all[i]) {
			return p.heard.all[i]
		}
	}
}

// method wants a notification of a method about a run.
func method(name, run string) func(note) bool {
	return func(n note) bool { return n.Method == name && n.Params["run"] == run }
}

// methods are the methods that were heard. mu is held.
func (h *heard) methods() []string {
	all := make([]string, len(h.all))
	for i, n := range h.all {
		all[i] = n.Method
	}
	return all
}

// seqs are the cursors of the run_events that were heard, in order.
func (h *heard) seqs() []int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []int64
	for _, n := range h.all {
		if n.Method == rpc.RunEvent {
			all = append(all, int64(n.Params["seq"].(float64)))
		}
	}
	return all
}

// rpc starts flow rpc. It is closed, and has ended well, when the test ends.
func (r crashRun) rpc(t *testing.T, args ...string) peer {
	t.Helper()
	cmd := r.command(append([]string{"rpc"}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := newPeer(func(notify func(string, json.RawMessage)) *rpcclient.Client { return rpcclient.Stream(out, in, notify) })
	t.Cleanup(func() {
		_ = p.Close() // the test may have done it
		<-p.Ended()
		if err := cmd.Wait(); err != nil {
			t.Errorf("flow rpc: %v", err)
		}
	})
	return p
}

func newPeer(connect func(notify func(string, json.RawMessage)) *rpcclient.Client) peer {
	h := newHeard()
	p := peer{connect(h.take), h}
	go func() {
		<-p.Ended()
		h.leave()
	}()
	return p
}

// A served is a flow serve under test.
type served struct {
	crashRun
	cmd     *exec.Cmd
	address string
	token   string
	said    bytes.Buffer  // on standard error; to be read when it has ended
	gone    chan struct{} // closed when it has ended
}

// serve starts flow serve. It is stopped when the test ends.
func (r crashRun) serve(t *testing.T, args ...string) *served {
	t.Helper()
	s := &served{crashRun: r, cmd: r.command(append([]string{"serve"}, args...)...), gone: make(chan struct{})}
	s.cmd.Stderr = &s.said
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address, err := io.ReadAll(io.LimitReader(out, int64(len("http://127.0.0.1:")))) // the port follows
	if err != nil {
		t.Fatal(err)
	}
	port := make([]byte, 6)
	n, err := out.Read(port)
	if err != nil {
		t.Fatal(err)
	}
	s.address = string(address) + strings.TrimSpace(string(port[:n]))
	token, err := os.ReadFile(r.state() + "/serve.token")
	if err != nil {
		t.Fatal(err)
	}
	s.token = strings.TrimSpace(string(token))
	go func() {
		_ = s.cmd.Wait() // how it ends is up to the test
		close(s.gone)
	}()
	t.Cleanup(func() { s.stop(syscall.SIGTERM) })
	return s
}

// stop ends the server by a signal, and waits for it.
func (s *served) stop(sig syscall.Signal) {
	_ = s.cmd.Process.Signal(sig) // it may have ended
	<-s.gone
}

// dial connects a client.
func (s *served) dial(t *testing.T) peer {
	t.Helper()
	return newPeer(func(notify func(string, json.RawMessage)) *rpcclient.Client {
		c, err := rpcclient.Dial(t.Context(), s.address, s.token, notify)
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
}

// answering says that the client answers permissions.
func (p peer) answering(t *testing.T) peer {
	t.Helper()
	if _, err := p.Initialize(t.Context(), rpc.InitializeParams{Capabilities: rpc.Capabilities{Permissions: true}}); err != nil {
		t.Fatal(err)
	}
	return p
}

// simulated are options of a simulated agent that does something.
func simulated(does string) rpc.RunOptions {
	return rpc.RunOptions{Simulate: true, Env: map[string]string{"FLOW_SIMULATE": does}}
}

// asked is simulated with everything asked.
func asked(does string) rpc.RunOptions {
	o := simulated(does)
	o.Permissions = json.RawMessage(`{"default":"ask"}`)
	return o
}
