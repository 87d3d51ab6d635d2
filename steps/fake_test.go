package steps

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/pipeline/local"
	"flow/state"
)

// fakeAgent is an agent whose protocol is one word and a text a line. With chooses
// it takes the session ids that it is given, without it counts over whole sessions.
type fakeAgent struct {
	chooses bool
	bounds  bool     // it reports its cost, and can bound it
	native  bool     // it has a sandbox of its own
	keeps   []string // the effects of rules that it keeps by itself; "default" for the default
	talks   bool     // it speaks the protocol of a talker
	deaf    bool     // and cannot be interrupted

	hermetic bool          // it loads nothing of the user's
	tools    []agents.Tool // those that it has; nil: all
}

func (f fakeAgent) Enforces(_ agents.Request, r *agents.Rule) bool {
	if r == nil {
		return slices.Contains(f.keeps, "default")
	}
	return slices.Contains(f.keeps, r.Effect)
}

func (f fakeAgent) Info() agents.Info {
	return agents.Info{
		Name: "fake", Title: "Fake", Executable: "no-such-agent", Install: "install it",
		Hermetic: f.hermetic, Tools: f.tools,
		Capabilities: agents.Capabilities{ChoosesSessionID: f.chooses, Resume: true, Fork: true, Cost: f.bounds, MaxCost: f.bounds, NativeSandbox: f.native},
	}
}

func (f fakeAgent) Command(r agents.Request) (agents.Command, error) {
	switch r.Model {
	case "refused":
		return agents.Command{}, agents.Unsupported("fake", "it has no model refused", "choose another")
	case "broken":
		return agents.Command{}, errors.New("no arguments for that")
	}
	return agents.Command{Stdin: r.Prompt, Talks: f.talks, Env: []string{"FROM_AGENT=1", "BOTH=agent"}, Writable: []string{"${FAKE_HOME:-}/kept/", "~/missing"}}, nil
}

func (f fakeAgent) Dialog(r agents.Request) agents.Dialog {
	if f.talks {
		return &talker{fakeDialog: fakeDialog{request: r}, deaf: f.deaf, open: map[string]bool{}}
	}
	return &fakeDialog{request: r}
}

type fakeDialog struct {
	request agents.Request
	out     agents.Outcome
	done    bool
}

func (d *fakeDialog) SessionID() string { return d.out.SessionID }

func (d *fakeDialog) Line(line []byte) []agents.Event {
	word, rest, _ := strings.Cut(string(line), " ")
	switch word {
	case "session":
		d.out.SessionID = rest
		return []agents.Event{{Body: agents.SessionStarted{}}}
	case "say": // one event for each word
		d.out.Began = true
		var events []agents.Event
		for s := range strings.FieldsSeq(rest) {
			events = append(events, agents.Event{Body: agents.TextChunk{Content: s, Role: "assistant"}})
		}
		return events
	case "tool":
		return []agents.Event{{Body: agents.ToolStarted{ToolID: rest, NativeName: "Tool", Target: rest}}}
	case "call": // a tool on a target, which is its id as well
		tool, target, _ := strings.Cut(rest, " ")
		d.out.Began = true
		return []agents.Event{{Body: agents.ToolStarted{ToolID: target, ToolName: agents.Tool(tool), NativeName: "Tool", Target: target}}}
	case "called":
		return []agents.Event{{Body: agents.ToolCompleted{ToolID: rest, Success: true}}}
	case "declined":
		return []agents.Event{{Body: agents.ToolCompleted{ToolID: rest, Declined: true}}}
	case "total":
		n, _ := strconv.ParseInt(rest, 10, 64)
		d.out.SessionUsage = &agents.Usage{TotalTokens: n}
	case "cost":
		cost, _ := strconv.ParseFloat(rest, 64)
		d.out.CostUSD = &cost
	case "answer":
		d.done, d.out.Began, d.out.Text = true, true, rest
	case "problem":
		cause, message, _ := strings.Cut(rest, " ")
		d.out.Problem = &agents.Problem{Agent: "fake", Cause: agents.Cause(cause), Message: message}
	case "later":
		at, _ := time.Parse(time.RFC3339, rest)
		d.out.Problem.RetryAfter = at
	}
	return nil
}

func (d *fakeDialog) Stderr(line []byte) []agents.Event {
	return []agents.Event{{Body: agents.Log{Stream: "stderr", Text: string(line)}}}
}

func (d *fakeDialog) End(e agents.Exit) agents.Outcome {
	out := d.out
	if out.SessionUsage != nil {
		used := *out.SessionUsage
		if s := d.request.Session; s.Spent != nil && (s.Mode == agents.SessionFork || s.ID == out.SessionID) {
			used = used.Sub(*s.Spent)
		}
		out.Usage = &used
	}
	out.Reason = agents.Failed
	switch {
	case e.Intent == agents.IntentPolicy:
		out.Problem = &agents.Problem{Cause: agents.CausePermission, Message: "a tool call broke the policy"}
	case d.done && (e.Code == 0 || e.Intent != agents.IntentNone):
		out.Reason, out.Problem = agents.Completed, nil
	case e.Intent == agents.IntentCancel:
		out.Reason, out.Problem = agents.Cancelled, &agents.Problem{Cause: agents.CauseCancelled, Message: "cancelled"}
	case e.Intent != agents.IntentNone:
		out.Reason, out.Problem = agents.TimedOut, &agents.Problem{Cause: agents.CauseTimeout, Message: string(e.Intent)}
	case e.Err != nil:
		out.Problem = &agents.Problem{Cause: agents.CauseSpawn, Message: e.Err.Error()}
	case out.Problem == nil:
		out.Problem = &agents.Problem{Cause: agents.CauseIncomplete, Message: fmt.Sprintf("no result (exit %d)", e.Code)}
	}
	return out
}

// fakeStore is a run's record: in memory what the journal and the events would be.
// Its log has everything that reached the disk, in order, so that a test can go
// back to any moment.
type fakeStore struct {
	dir string

	mu    sync.Mutex
	log   []entry
	full  bool // the disk is: events cannot be stored
	blobs map[string][]byte
}

// An entry is a record, a line of the events, or bytes that a file got.
type entry struct {
	record *state.Record
	events []byte
	audit  []byte
	file   string
	data   []byte
}

func newStore(t *testing.T) *fakeStore {
	t.Helper()
	s := &fakeStore{dir: t.TempDir(), blobs: map[string][]byte{}}
	if err := os.Mkdir(filepath.Join(s.dir, "attempts"), 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *fakeStore) Dir() string                          { return s.dir }
func (s *fakeStore) AttemptPath(label, ext string) string { return "attempts/" + label + "." + ext }

func (s *fakeStore) add(e entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, e)
}

func (s *fakeStore) Append(_ context.Context, typ string, data any, _ bool) error {
	raw, err := json.Marshal(data)
	s.add(entry{record: &state.Record{Type: typ, Data: raw}})
	return err
}

func (s *fakeStore) AppendEvents(lines []byte) error {
	if s.full {
		return errors.New("disk full")
	}
	s.add(entry{events: bytes.Clone(lines)})
	return nil
}

func (s *fakeStore) AppendAudit(line []byte) error {
	s.add(entry{audit: bytes.Clone(line)})
	return nil
}

func (s *fakeStore) PutBlob(data []byte) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ref := fmt.Sprintf("sha256:%x", sha256.Sum256(data))
	s.blobs[ref] = bytes.Clone(data)
	return ref, nil
}

func (s *fakeStore) PutBlobFrom(src io.Reader) (string, int64, error) {
	data, err := io.ReadAll(src)
	if err != nil {
		return "", 0, err
	}
	ref, err := s.PutBlob(data)
	return ref, int64(len(data)), err
}

func (s *fakeStore) Blob(ref string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.blobs[ref]
	if !ok {
		return nil, errors.New("no blob " + ref)
	}
	return data, nil
}

func (s *fakeStore) records() (records []state.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.log {
		if e.record != nil {
			records = append(records, *e.record)
		}
	}
	return records
}

func (s *fakeStore) Events(fn func([]byte) error) error {
	s.mu.Lock()
	log := s.log
	s.mu.Unlock()
	for _, e := range log {
		if e.events == nil {
			continue
		}
		if err := fn(bytes.TrimSuffix(e.events, []byte("\n"))); err != nil {
			return err
		}
	}
	return nil
}

// eventsAfter is for steps.Config: it may begin before the event.
func (s *fakeStore) eventsAfter(_ int64, fn func([]byte) error) error { return s.Events(fn) }

// at returns the store as it was when its log had n entries.
func (s *fakeStore) at(t *testing.T, n int) *fakeStore {
	t.Helper()
	past := newStore(t)
	past.log, past.blobs = s.log[:n:n], s.blobs
	for _, e := range past.log {
		if e.file != "" {
			appendFile(t, filepath.Join(past.dir, e.file), e.data)
		}
	}
	return past
}

func appendFile(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.Write(data)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Error(err)
	}
}

// event is what tests look at of a stored event.
type event struct {
	Seq     int64          `json:"seq"`
	Type    string         `json:"type"`
	Step    string         `json:"step"`
	Attempt int            `json:"attempt"`
	Content string         `json:"content"`
	Text    string         `json:"text"`
	Subtype string         `json:"subtype"`
	Message string         `json:"message"`
	Native  *agents.Native `json:"native"`
}

func (s *fakeStore) events(t *testing.T) (all []event) {
	t.Helper()
	err := s.Events(func(line []byte) error {
		var e event
		err := json.Unmarshal(line, &e)
		all = append(all, e)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

var errDied = errors.New("flow died here") // what a launcher says that stands for the death of flow

// A process is what a fake process does.
type process struct {
	*world
	ctx     context.Context
	spec    proc.Spec
	sink    proc.Sink
	request agents.Request // of an agent
	prompt  string
	offset  map[string]int64
}

// print writes lines as the process would, to its file and to who listens.
func (p *process) print(lines ...string) { p.write("stdout", p.sink.Stdout, lines) }
func (p *process) warn(lines ...string)  { p.write("stderr", p.sink.Stderr, lines) }

func (p *process) write(ext string, deliver func(proc.Line), lines []string) {
	for _, text := range lines {
		p.file(ext, text+"\n")
		if deliver != nil {
			deliver(proc.Line{Data: []byte(text), Offset: p.offset[ext], Length: int64(len(text))})
		}
		p.offset[ext] += int64(len(text)) + 1
	}
}

// file appends to a file of the process without anyone listening.
func (p *process) file(ext, text string) {
	name := p.store.AttemptPath(p.spec.Label, ext)
	p.store.add(entry{file: name, data: []byte(text)})
	appendFile(p.t, filepath.Join(p.store.dir, name), []byte(text))
}

// world is a run of a plan with fake processes.
type world struct {
	t      *testing.T
	plan   *pipeline.Plan
	store  *fakeStore
	agent  fakeAgent
	config Config // what a test wants otherwise
	exits  []proc.Record
	holds  bool // the machine can hold files
	// play is what processes do.
	play func(p *process) (proc.Result, error)

	mu    sync.Mutex
	ran   []*process
	facts []dag.Fact
}

func newWorld(t *testing.T, steps ...pipeline.Step) *world {
	t.Helper()
	return &world{t: t, store: newStore(t), plan: &pipeline.Plan{
		File: "p.yaml", Agents: map[string]pipeline.Profile{"a": {Name: "a", Use: "fake", Pos: pipeline.Pos{Line: 2, Col: 3}}}, Steps: steps,
	}}
}

// in is a sequence of what processes do, one after the other.
func inTurn(plays ...func(*process) (proc.Result, error)) func(*process) (proc.Result, error) {
	next := 0
	var mu sync.Mutex
	return func(p *process) (proc.Result, error) {
		mu.Lock()
		i := next
		next++
		mu.Unlock()
		if i >= len(plays) {
			p.t.Errorf("process %s was not expected", p.spec.Label)
			return proc.Result{Code: -1}, nil
		}
		return plays[i](p)
	}
}

// says is a process that prints lines and exits.
func says(code int, lines ...string) func(*process) (proc.Result, error) {
	return func(p *process) (proc.Result, error) {
		p.print(lines...)
		return proc.Result{Code: code}, nil
	}
}

// dies prints lines, and then flow dies.
func dies(lines ...string) func(*process) (proc.Result, error) {
	return func(p *process) (proc.Result, error) {
		p.print(lines...)
		return proc.Result{}, errDied
	}
}

// Run is the Launcher.
func (w *world) Run(ctx context.Context, s proc.Spec, sink proc.Sink) (proc.Result, error) {
	p := &process{world: w, ctx: ctx, spec: s, sink: sink, offset: map[string]int64{}}
	for _, ext := range []string{launchExt, "prompt"} {
		name := w.store.AttemptPath(s.Label, ext)
		data, err := os.ReadFile(filepath.Join(w.store.dir, name))
		if err != nil {
			continue // of a shell step
		}
		w.store.add(entry{file: name, data: data})
		if ext == "prompt" {
			p.prompt = string(data)
			continue
		}
		var l Launch
		if err := json.Unmarshal(data, &l); err != nil {
			return proc.Result{}, err
		}
		p.request = l.Request
	}
	w.mu.Lock()
	w.ran = append(w.ran, p)
	w.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return proc.Result{Code: -1, Err: err}, nil
	}
	p.file("stdout", "")
	return w.play(p)
}

func (w *world) executor() *Executor {
	w.t.Helper()
	c := w.config
	c.RunID, c.Plan, c.Store, c.Launcher, c.Events = "run1", w.plan, w.store, w, w.store.eventsAfter
	c.Adapters = map[string]agents.Adapter{"fake": w.agent, "other": w.agent}
	c.Now, c.Logger = time.Now, hclog.NewNullLogger()
	if c.Workspace == "" {
		c.Workspace = w.t.TempDir()
	}
	x, err := New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	return x
}

// run goes on with the run from what its record says, to its end or its death.
func (w *world) run(ctx context.Context) (*dag.Machine, error) {
	w.t.Helper()
	x, m := w.executor(), dag.New(w.plan, dag.Options{})
	if err := x.Restore(m, w.store.records(), w.store.Events, w.exits); err != nil {
		w.t.Fatalf("restore: %v", err)
	}
	apply := func(f dag.Fact) {
		if err := errors.Join(x.Journal().Append(ctx, f), m.Apply(f)); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, path := range m.Unfinished() {
		apply(dag.Fact{Kind: dag.Lost, Path: path})
	}
	for _, f := range m.Reopenable() {
		apply(f)
	}
	err := local.Run(ctx, m, x, x.Journal(), local.Options{
		Observe: func(f dag.Fact) {
			w.facts = append(w.facts, f)
			x.NotifyFact(m, f)
		},
		Panic: func(path string, stack []byte) { w.t.Errorf("panic in %s: %s", path, stack) },
	})
	if err == nil {
		x.NotifyEnd(m, string(m.Status()), "the reason")
	}
	return m, err
}

// finish runs to the end.
func (w *world) finish() *dag.Machine {
	w.t.Helper()
	m, err := w.run(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return m
}

// die runs until flow dies.
func (w *world) die() {
	w.t.Helper()
	if _, err := w.run(w.t.Context()); !errors.Is(err, errDied) {
		w.t.Fatalf("flow was to die, and ended with %v", err)
	}
}

// result is how the step ended.
func (w *world) result(m *dag.Machine, path string) (dag.Status, Result) {
	w.t.Helper()
	for _, s := range m.Steps() {
		if s.Path == path {
			r, err := DecodeResult(s.Result)
			if err != nil {
				w.t.Fatal(err)
			}
			return s.Status, r
		}
	}
	w.t.Fatalf("no step %s", path)
	return "", Result{}
}

// want fails the test unless the step ended so.
func (w *world) want(m *dag.Machine, path string, status dag.Status) Result {
	w.t.Helper()
	got, r := w.result(m, path)
	if got != status {
		w.t.Fatalf("%s is %s (%s: %s), want %s", path, got, r.Cause, r.Error, status)
	}
	return r
}

func text(src string) *pipeline.Text {
	return &pipeline.Text{Src: src, Pos: pipeline.Pos{Line: 5, Col: 7}}
}

func ask(id string, change ...func(*pipeline.Step)) pipeline.Step {
	s := pipeline.Step{ID: id, Kind: pipeline.KindPrompt, Agent: "a", Prompt: text("do " + id), Pos: pipeline.Pos{Line: 4, Col: 3}}
	for _, f := range change {
		f(&s)
	}
	return s
}

func script(id, src string, change ...func(*pipeline.Step)) pipeline.Step {
	s := pipeline.Step{ID: id, Kind: pipeline.KindRun, Run: text(src), Pos: pipeline.Pos{Line: 4, Col: 3}}
	for _, f := range change {
		f(&s)
	}
	return s
}

func retry(times int, on ...string) func(*pipeline.Step) {
	return func(s *pipeline.Step) { s.Retry = pipeline.Retry{Max: times, On: on} }
}

func needs(ids ...string) func(*pipeline.Step) {
	return func(s *pipeline.Step) { s.Needs, s.Refs = ids, ids }
}

func session(mode pipeline.SessionMode, step string) func(*pipeline.Step) {
	return func(s *pipeline.Step) {
		s.Session = pipeline.Session{Mode: mode, Step: step, Root: step}
		needs(step)(s)
	}
}

func mkfifo(path string) error { return syscall.Mkfifo(path, 0o600) }
