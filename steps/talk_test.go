package steps

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"flow/agents"
	"flow/agents/policy"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/pipeline/local"
	"flow/state"
)

// A talker is the dialog of a fake agent that listens: what it is told is a word and a
// text a line, as what it says.
type talker struct {
	fakeDialog
	deaf  bool
	open  map[string]bool // requests that wait
	says  [][]byte
	ended bool
}

func (d *talker) say(format string, args ...any) {
	d.says = append(d.says, fmt.Appendf(nil, format, args...))
}

func (d *talker) Open() { d.say("prompt %s", d.request.Prompt) }

func (d *talker) Take() [][]byte {
	lines := d.says
	d.says = nil
	return lines
}

func (d *talker) Line(line []byte) []agents.Event {
	word, rest, _ := strings.Cut(string(line), " ")
	switch word {
	case "ask", "first": // first: before every call
		id, call, _ := strings.Cut(rest, " ")
		tool, target, _ := strings.Cut(call, " ")
		d.open[id] = true
		return []agents.Event{{Body: agents.PermissionRequested{
			RequestID: id, ToolID: target, ToolName: agents.Tool(tool), NativeName: "Tool", Target: target, Preliminary: word == "first",
		}}}
	case "never": // it asks, and settles that itself
		id, call, _ := strings.Cut(rest, " ")
		tool, target, _ := strings.Cut(call, " ")
		return []agents.Event{
			{Body: agents.PermissionRequested{RequestID: id, ToolID: target, ToolName: agents.Tool(tool), NativeName: "Tool", Target: target}},
			{Body: agents.PermissionDecided{RequestID: id, ToolID: target, Decision: agents.EffectDeny, By: "default", Message: "no way"}},
		}
	case "withdraw":
		delete(d.open, rest)
		return []agents.Event{{Body: agents.PermissionDecided{RequestID: rest, Decision: agents.EffectDeny, By: "agent", Message: "withdrawn"}}}
	case "over":
		d.ended = true
		return nil
	}
	return d.fakeDialog.Line(line)
}

func (d *talker) Decide(id string, v agents.Verdict) bool {
	if !d.open[id] {
		return false
	}
	delete(d.open, id)
	d.say("decision %s %s", id, v.Effect)
	return true
}

func (d *talker) Interrupt() bool {
	if d.deaf || d.ended {
		return false
	}
	d.say("interrupt")
	return true
}

func (d *talker) Say(text string) bool {
	d.ended = false
	d.say("prompt %s", text)
	return true
}

func (d *talker) Ended() bool                { return d.ended }
func (d *talker) Sent([]byte) []agents.Event { return nil }

// hears returns what gives the next line that the process is told, "EOF" at their end.
func (p *process) hears() func() string {
	r, w := io.Pipe()
	go p.spec.Input.Feed(w, p.ctx.Done())
	lines := bufio.NewScanner(r)
	return func() string {
		if lines.Scan() {
			return lines.Text()
		}
		return "EOF"
	}
}

// conversation plays a script: lines that begin with "< " are what the process must be
// told next, "> " what it says.
func conversation(script ...string) func(*process) (proc.Result, error) {
	return func(p *process) (proc.Result, error) {
		next := p.hears()
		for _, line := range script {
			if said, ok := strings.CutPrefix(line, "> "); ok {
				p.print(said)
				continue
			}
			if heard := next(); "< "+heard != line {
				p.t.Errorf("told %q, want %q", heard, line)
			}
		}
		return proc.Result{}, nil
	}
}

// decisions are the audit log and the events about decisions, in short.
func (w *world) decisions() (audit, events []string) {
	for _, e := range w.store.log {
		var a AuditEntry
		if e.audit != nil && json.Unmarshal(e.audit, &a) == nil {
			audit = append(audit, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", a.Decision, a.By, a.Tool, a.Target, a.Rule)))
		}
	}
	for _, e := range w.store.events(w.t) {
		if e.Type == "permissionDecided" || e.Type == "permissionRequested" {
			events = append(events, e.Type)
		}
	}
	return audit, events
}

// oracle is an Asker that answers what it has been told to.
type oracle struct {
	answer Answer
	err    error
	asked  []Question
	wait   bool // until the question is taken back
}

func (o *oracle) Answer(ctx context.Context, q Question) (Answer, error) {
	o.asked = append(o.asked, q)
	if o.wait {
		<-ctx.Done()
		return Answer{}, context.Cause(ctx)
	}
	return o.answer, o.err
}

func TestTalk(t *testing.T) {
	rules := []string{"allow shell(ls *)", "deny shell(rm *)", "ask shell(git push *)"}
	cases := []struct {
		name     string
		fallback string
		rules    []string
		approval string
		asker    *oracle
		timeout  time.Duration
		script   []string
		audit    []string
	}{
		{
			name: "nothing is asked", rules: rules,
			script: []string{"< prompt do s", "> session S", "> answer ok", "> over", "< EOF"},
		},
		{
			name: "rules decide", fallback: "deny", rules: rules,
			script: []string{"< prompt do s", "> ask 0 shell ls -l", "< decision 0 allow", "> call shell ls -l", "> called ls -l", "> ask 1 shell rm x", "< decision 1 deny", "> answer ok", "> over", "< EOF"},
			audit:  []string{"allow policy shell ls -l allow shell(ls *)", "deny policy shell rm x deny shell(rm *)"},
		},
		{
			name: "a call that is told of after it was denied", fallback: "deny",
			script: []string{"< prompt do s", "> ask 0 shell ls", "< decision 0 deny", "> call shell ls", "> declined ls", "> answer ok", "> over", "< EOF"},
			audit:  []string{"deny default shell ls"},
		},
		{
			name: "the default decides", fallback: "deny",
			script: []string{"< prompt do s", "> ask 0 shell ls", "< decision 0 deny", "> answer ok", "> over", "< EOF"},
			audit:  []string{"deny default shell ls"},
		},
		{
			name: "a call asked about twice", rules: rules, asker: &oracle{answer: Answer{Approved: true, By: "ada"}},
			script: []string{
				"< prompt do s", "> call shell git push", "> first a shell git push", "< decision a ask", "> ask b shell git push", "< decision b allow",
				"> called git push", "> first c shell date", "< decision c ", "> call shell date", "> called date", "> answer ok", "> over", "< EOF",
			},
			audit: []string{"allow person shell git push ask shell(git push *)", "allow default shell date"},
		},
		{
			name: "a person denies", rules: rules, asker: &oracle{answer: Answer{By: "ada", Reason: "no"}},
			script: []string{"< prompt do s", "> ask b shell git push", "< decision b deny", "> answer ok", "> over", "< EOF"},
			audit:  []string{"deny person shell git push ask shell(git push *)"},
		},
		{
			name: "nobody is there", rules: rules,
			script: []string{"< prompt do s", "> ask b shell git push", "< decision b deny", "> answer ok", "> over", "< EOF"},
			audit:  []string{"deny default shell git push ask shell(git push *)"},
		},
		{
			name: "nobody is there any more", rules: rules, asker: &oracle{err: local.ErrNobody},
			script: []string{"< prompt do s", "> ask b shell git push", "< decision b deny", "> answer ok", "> over", "< EOF"},
			audit:  []string{"deny default shell git push ask shell(git push *)"},
		},
		{
			name: "nobody answers in time", rules: rules, timeout: time.Hour,
			script: []string{"< prompt do s", "> ask b shell git push", "< decision b deny", "> answer ok", "> over", "< EOF"},
			audit:  []string{"deny default shell git push ask shell(git push *)"},
		},
		{
			name: "an id that is used again is another call", fallback: "allow", rules: []string{"deny shell(rm *)"},
			script: []string{
				"< prompt do s", "> ask a shell git push", "< decision a allow", "> call shell git push", "> called git push",
				"> call shell git push", "> called git push", "> answer ok", "> over", "< EOF",
			},
			audit: []string{"allow default shell git push", "allow default shell git push"},
		},
		{
			name: "it settles a request itself", fallback: "allow",
			script: []string{"< prompt do s", "> never b shell git push", "> answer ok", "> over", "< EOF"},
			audit:  []string{"deny default shell git push"},
		},
		{
			name: "the agent takes it back", rules: rules, asker: &oracle{wait: true},
			script: []string{"< prompt do s", "> ask b shell git push", "> withdraw b", "> answer ok", "> over", "< EOF"},
		},
		{
			name: "a request that is not answered when the turn ends", rules: rules, asker: &oracle{wait: true},
			script: []string{"< prompt do s", "> ask b shell git push", "> answer ok", "> over", "< EOF"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, ask("s", permissions(c.fallback, c.rules...)))
				w.agent = fakeAgent{talks: true, keeps: []string{"allow", "ask", "deny", "default"}}
				w.config.AskTimeout = c.timeout
				if c.asker != nil {
					w.config.Ask = c.asker
				}
				w.play = conversation(c.script...)
				m, err := w.run(t.Context())
				if err != nil || m.Status() != dag.RunSucceeded {
					t.Fatalf("%s, %v: %s", m.Status(), err, w.facts[len(w.facts)-1].Reason)
				}
				audit, _ := w.decisions()
				if d := cmp.Diff(c.audit, audit); d != "" {
					t.Error(d)
				}
			})
		})
	}
}

// What flow says is kept byte for byte.
func TestTalkRecord(t *testing.T) {
	w := newWorld(t, ask("s", permissions("allow")))
	w.agent = fakeAgent{talks: true}
	w.play = conversation("< prompt do s", "> ask 0 shell ls", "< decision 0 allow", "> answer ok", "> over", "< EOF")
	if _, err := w.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(w.store.dir, w.store.AttemptPath("s.1.1", "stdin")))
	if want := "prompt do s\ndecision 0 allow\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}

// While a person thinks, the agent's silence is no idleness.
func TestTalkIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ask("s", permissions("", "ask shell"), func(s *pipeline.Step) { s.IdleTimeout = pipeline.Duration(time.Minute) }))
		w.agent = fakeAgent{talks: true, keeps: []string{"ask"}}
		w.config.AskTimeout = time.Hour
		began := time.Now()
		w.play = conversation("< prompt do s", "> ask 0 shell ls", "< decision 0 deny", "> answer ok", "> over", "< EOF")
		if m, err := w.run(t.Context()); err != nil || m.Status() != dag.RunSucceeded {
			t.Fatalf("%s, %v", m.Status(), err)
		}
		if d := time.Since(began); d != time.Hour {
			t.Errorf("it took %s", d)
		}
	})
}

func TestTalkInterrupted(t *testing.T) {
	cases := []struct {
		name   string
		agent  fakeAgent
		script []string
		ends   bool // of itself
		took   time.Duration
	}{
		{"it ends its turn", fakeAgent{talks: true}, []string{"< prompt do s", "> session S", "< interrupt", "> over", "< EOF"}, true, 0},
		{"it goes on", fakeAgent{talks: true}, []string{"< prompt do s", "> session S", "< interrupt"}, false, politeWait},
		{"it ends its turn and stays", fakeAgent{talks: true}, []string{"< prompt do s", "> session S", "< interrupt", "> over", "< EOF"}, false, partingWait},
		{"it cannot be interrupted", fakeAgent{talks: true, deaf: true}, []string{"< prompt do s", "> session S", "< EOF"}, false, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, ask("s"))
				w.agent = c.agent
				ctx, cancel := context.WithCancel(t.Context())
				w.play = func(p *process) (proc.Result, error) {
					time.AfterFunc(time.Minute, cancel)
					r, err := conversation(c.script...)(p)
					if !c.ends {
						<-p.ctx.Done()
						r = proc.Result{Code: -1, Signal: "TERM"}
					}
					return r, err
				}
				began := time.Now()
				m, err := w.run(ctx)
				if err != nil || m.Status() != dag.RunCancelled {
					t.Errorf("%s, %v", m.Status(), err)
				}
				if d := time.Since(began) - time.Minute; d != c.took {
					t.Errorf("it took %s, want %s", d, c.took)
				}
			})
		})
	}
}

// An agent that does not end after its turn is ended, and has succeeded.
func TestTalkLingers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ask("s"))
		w.agent = fakeAgent{talks: true}
		w.play = func(p *process) (proc.Result, error) {
			r, err := conversation("< prompt do s", "> session S", "> answer ok", "> over", "< EOF")(p)
			<-p.ctx.Done()
			r.Code, r.Signal = -1, "KILL"
			return r, err
		}
		if m, err := w.run(t.Context()); err != nil || m.Status() != dag.RunSucceeded {
			t.Errorf("%s, %v", m.Status(), err)
		}
	})
}

// What a person has permitted is no violation when the stream is read again.
func TestTalkReplayed(t *testing.T) {
	w := newWorld(t, ask("s", permissions("", "ask shell(git push *)")))
	w.agent = fakeAgent{talks: true, keeps: []string{"ask"}}
	w.config.Ask = &oracle{answer: Answer{Approved: true}}
	w.play = func(p *process) (proc.Result, error) {
		_, err := conversation("< prompt do s", "> session S", "> ask 0 shell git push", "< decision 0 allow", "> call shell git push", "> called git push", "> answer done", "> over", "< EOF")(p)
		if err != nil {
			return proc.Result{}, err
		}
		return proc.Result{}, errDied
	}
	if _, err := w.run(t.Context()); err == nil {
		t.Fatal("flow did not die")
	}
	w.play = nil // nothing is asked twice
	w.exits = []proc.Record{{Label: "s.1.1"}}
	if m, err := w.run(t.Context()); err != nil || m.Status() != dag.RunSucceeded {
		t.Errorf("%s, %v", m.Status(), err)
	}
	if audit, _ := w.decisions(); len(audit) != 1 {
		t.Errorf("decided %q", audit)
	}
}

// A call that waited for a person when flow died was not made: the agent asks again, and
// the answer that was left meanwhile is taken.
func TestTalkDiesAsking(t *testing.T) {
	for _, lines := range [][]string{
		{"> session S", "> call shell git push", "> ask 0 shell git push"},
		{"> session S", "> ask 0 shell git push", "> call shell git push"},
	} {
		w := newWorld(t, ask("s", permissions("", "ask shell(git push *)")))
		w.agent = fakeAgent{talks: true, keeps: []string{"ask"}}
		w.config.Ask = &oracle{wait: true}
		w.play = func(p *process) (proc.Result, error) {
			_, err := conversation(append([]string{"< prompt do s"}, lines...)...)(p)
			return proc.Result{}, errors.Join(err, errDied)
		}
		w.die()
		w.config.Ask = &oracle{answer: Answer{Approved: true}}
		w.play = conversation("< prompt "+continuePrompt, "> ask 0 shell git push", "< decision 0 allow", "> call shell git push", "> called git push", "> answer done", "> over", "< EOF")
		w.want(w.finish(), "s", dag.OK)
		if audit, _ := w.decisions(); len(audit) != 1 {
			t.Errorf("decided %q", audit)
		}
	}
}

// An agent that ends while it waits for an answer has failed, and broken no rule.
func TestTalkEndsAsking(t *testing.T) {
	w := newWorld(t, ask("s", permissions("", "ask shell(git push *)")))
	w.agent = fakeAgent{talks: true, keeps: []string{"ask"}}
	w.config.Ask = &oracle{wait: true}
	w.play = conversation("< prompt do s", "> session S", "> call shell git push", "> ask 0 shell git push")
	if r := w.want(w.finish(), "s", dag.Failure); r.Cause == string(agents.CausePermission) {
		t.Errorf("it says %s: %q", r.Cause, r.Error)
	}
	if audit, _ := w.decisions(); audit != nil {
		t.Errorf("decided %q", audit)
	}
}

// An answer that flow had taken when it died permits one call, unless the agent had been
// told.
func TestAnswersPermit(t *testing.T) {
	w := newWorld(t)
	q := Question{Path: "s", Permission: &Permission{ID: "x"}}
	takenBy := func(attempt int) {
		err := errors.Join(PutAnswer(w.store, q.Key(), Answer{Approved: true}),
			os.Rename(answerFile(w.store, q.Key(), "json"), answerFile(w.store, q.Key(), taken(attempt))))
		if err != nil {
			t.Fatal(err)
		}
	}
	takenBy(1)
	takenBy(2)
	for _, c := range []struct {
		name   string
		asked  int // the attempt that asked and had no ruling, 0 if all had
		lost   []int
		permit bool
	}{
		{"ruled", 0, []int{1, 2}, false},
		{"taken and not ruled", 2, []int{1, 2}, true},
		{"taken by a later attempt", 1, []int{2}, true},
		{"ruled before it was asked again", 3, []int{1, 2, 3}, false},
	} {
		answers := newAnswers(w.store, hclog.NewNullLogger())
		if c.asked > 0 {
			pending := q
			pending.Attempt = c.asked
			answers.restore([]Question{pending})
		}
		q.Attempt = 4
		if _, ok := answers.permit(q, c.lost); ok != c.permit {
			t.Errorf("%s: %t", c.name, ok)
		}
		if _, ok := answers.permit(q, c.lost); ok {
			t.Errorf("%s: twice", c.name)
		}
	}
}

// An answer by which the agent made its call does not count again: not in the next attempt,
// and not in the one after that has asked again.
func TestTalkAnswerOnce(t *testing.T) {
	synctest.Test(t, testAnswerOnce)
}

func testAnswerOnce(t *testing.T) {
	t.Helper()
	w := newWorld(t, ask("s", permissions("", "ask shell(git push *)")))
	w.agent = fakeAgent{talks: true, keeps: []string{"ask"}}
	w.config.AskTimeout = time.Hour
	key := "s-permission-" + permissionID(policy.Call{Native: "Tool", Target: "git push"}, 0)
	asks := func(approved bool) func(*process) (proc.Result, error) {
		return func(p *process) (proc.Result, error) {
			next := p.hears()
			next()
			p.print("session S", "ask 0 shell git push")
			synctest.Wait() // the question is on record
			if approved {
				if err := PutAnswer(w.store, key, Answer{Approved: true}); err != nil {
					t.Error(err)
				}
				next()
			}
			return proc.Result{}, errDied
		}
	}
	w.play = asks(true)
	w.die()
	w.play = asks(false)
	w.die()
	w.config.AskTimeout = 0
	w.play = conversation("< prompt do s", "> ask 0 shell git push", "< decision 0 deny", "> answer done", "> over", "< EOF")
	w.want(w.finish(), "s", dag.OK)
}

// A call that the agent was to refuse, or had been denied, was not made when flow died
// before its result.
func TestTalkDiesDenied(t *testing.T) {
	for _, script := range [][]string{
		{"< prompt do s", "> session S", "> call shell rm x"},
		{"< prompt do s", "> session S", "> call shell rm x", "> ask 0 shell rm x", "< decision 0 deny"},
	} {
		w := newWorld(t, ask("s", permissions("", "deny shell(rm *)")))
		w.agent = fakeAgent{talks: true, keeps: []string{"deny"}}
		w.play = func(p *process) (proc.Result, error) {
			_, err := conversation(script...)(p)
			return proc.Result{}, errors.Join(err, errDied)
		}
		w.die()
		w.play = conversation("< prompt "+continuePrompt, "> answer done", "> over", "< EOF")
		w.want(w.finish(), "s", dag.OK)
	}
}

// Of a step only what its latest attempt asks waits for an answer.
func TestPendingPermissions(t *testing.T) {
	asked := func(path string, attempt int, id string) state.Record {
		data, err := json.Marshal(PermissionAsked{Question: &Question{Path: path, Attempt: attempt, Permission: &Permission{ID: id}}})
		if err != nil {
			t.Fatal(err)
		}
		return state.Record{Type: recordPermission, Data: data}
	}
	settled := state.Record{Type: recordPermission, Data: json.RawMessage(`{"settled": "s-permission-b"}`)}
	pending, err := PendingPermissions([]state.Record{
		asked("s", 1, "a"), asked("t", 1, "a"), asked("s", 1, "b"), asked("s", 2, "b"), asked("s", 2, "c"), settled,
	})
	var got []string
	for _, q := range pending {
		got = append(got, q.Key())
	}
	if d := cmp.Diff([]string{"t-permission-a", "s-permission-c"}, got); err != nil || d != "" {
		t.Error(err, d)
	}
}

// An agent that had finished when flow died is believed if flow had answered it: otherwise
// it took the silence for a denial, and goes on in its session.
func TestTalkUnheard(t *testing.T) {
	w := newWorld(t, ask("s", permissions("", "allow shell(git push *)")))
	w.agent = fakeAgent{talks: true, keeps: []string{"allow"}}
	w.play = func(p *process) (proc.Result, error) {
		_, err := conversation("< prompt do s", "> session S", "> ask 0 shell git push", "< decision 0 allow", "> call shell git push", "> called git push", "> answer done", "> over", "< EOF")(p)
		return proc.Result{}, errors.Join(err, errDied)
	}
	w.die()
	for last, again := range map[string]bool{"sessionStarted": true, "permissionRequested": true, "permissionDecided": false} {
		t.Run(last, func(t *testing.T) {
			n := slices.IndexFunc(w.store.log, func(e entry) bool { return strings.Contains(string(e.events), `"type":"`+last+`"`) }) + 1
			later := newWorld(t)
			later.plan, later.agent, later.store = w.plan, w.agent, w.store.at(t, n)
			for _, e := range w.store.log[n:] {
				if e.file != "" { // the agent went on
					appendFile(t, filepath.Join(later.store.dir, e.file), e.data)
				}
			}
			later.play = conversation("< prompt "+continuePrompt, "> answer done", "> over", "< EOF")
			later.want(later.finish(), "s", dag.OK)
			if got := len(later.ran) == 1; got != again {
				t.Errorf("the agent was started again: %t", got)
			}
		})
	}
}

// Equal calls that wait at one time are questions of their own.
func TestTalkAsksTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ask("s", permissions("", "ask shell(git push *)")))
		w.agent = fakeAgent{talks: true, keeps: []string{"ask"}}
		w.config.AskTimeout = time.Hour
		call := policy.Call{Native: "Tool", Target: "git push"}
		w.play = func(p *process) (proc.Result, error) {
			next := p.hears()
			next()
			p.print("ask a shell git push", "ask b shell git push")
			synctest.Wait() // both questions stand
			for n, want := range []string{"decision a allow", "decision b deny"} {
				err := PutAnswer(w.store, "s-permission-"+permissionID(call, n), Answer{Approved: n == 0})
				if got := next(); err != nil || got != want {
					t.Errorf("told %q, want %q, %v", got, want, err)
				}
			}
			p.print("answer ok", "over")
			return proc.Result{}, nil
		}
		w.want(w.finish(), "s", dag.OK)
	})
}

// A question that has time stays when the person at the terminal has gone.
func TestTalkLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ask("s", permissions("", "ask shell(git push *)")))
		w.agent = fakeAgent{talks: true, keeps: []string{"ask"}}
		w.config.AskTimeout, w.config.Ask = time.Hour, &oracle{err: local.ErrNobody}
		w.play = func(p *process) (proc.Result, error) {
			next := p.hears()
			next()
			p.print("ask a shell git push")
			synctest.Wait()
			err := PutAnswer(w.store, "s-permission-"+permissionID(policy.Call{Native: "Tool", Target: "git push"}, 0), Answer{Approved: true})
			if got := next(); err != nil || got != "decision a allow" {
				t.Errorf("told %q, %v", got, err)
			}
			p.print("answer ok", "over")
			return proc.Result{}, nil
		}
		w.want(w.finish(), "s", dag.OK)
	})
}
