package steps

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
)

func check(src string, times int, timeout ...time.Duration) func(*pipeline.Step) {
	return func(s *pipeline.Step) {
		s.Check = &pipeline.Check{Run: *text(src), Max: times}
		for _, d := range timeout {
			s.Check.Timeout = pipeline.Duration(d)
		}
	}
}

// checks is a process that prints and ends like a check.
func checks(code int, stdout, stderr string) func(*process) (proc.Result, error) {
	return func(p *process) (proc.Result, error) {
		p.print(stdout)
		p.warn(stderr)
		return proc.Result{Code: code, StderrTail: stderr + "\n"}, nil
	}
}

func TestCheckPasses(t *testing.T) {
	w := newWorld(t, ask("s", check(`test "{{ .inputs.what }}"`, 2), func(s *pipeline.Step) {
		s.Env = []pipeline.Var{{Name: "MINE", Value: *text("1")}}
	}))
	w.config.Inputs = map[string]any{"what": "it's"}
	w.config.Environ = []string{"ANTHROPIC_API_KEY=secret", "PATH=/bin"}
	w.play = inTurn(says(0, "session S", "answer done"), says(0, ""))
	if r := w.want(w.finish(), "s", dag.OK); r.Text.Inline != "done" || r.Answered {
		t.Errorf("the result is %+v", r)
	}
	spec := w.ran[1].spec
	if spec.Label != "s.1.2" || spec.Path != "sh" || spec.Dir != w.ran[0].spec.Dir || !spec.Group {
		t.Errorf("the check was started as %+v", spec)
	}
	env := strings.Join(spec.Env, " ")
	if !strings.Contains(env, "MINE=1") || strings.Contains(env, "secret") {
		t.Errorf("the environment of the check is %s", env)
	}
	if !strings.Contains(strings.Join(w.ran[0].spec.Env, " "), "secret") {
		t.Error("the agent has no key")
	}
	body, _, err := readHead(spec.Args[len(spec.Args)-1], 1<<20)
	if err != nil || !strings.Contains(body, `'it'\''s'`) {
		t.Errorf("the script is %q, %v", body, err)
	}
}

func TestCheckGoesBack(t *testing.T) {
	w := newWorld(t, ask("s", check("test", 2), func(s *pipeline.Step) { s.Output = []byte(`{"type":"object","required":["n"]}`) }))
	w.play = inTurn(
		says(0, "session S", "total 10", `answer {"n":1}`), checks(1, "one is missing", "why not"),
		says(0, "session S", "total 20", `answer {}`), says(0, "session S", "total 30", `answer {"n":2}`), checks(2, "x", "still not"),
		says(0, "session S", "total 40", `answer {"n":3}`), checks(0, "", ""))
	r := w.want(w.finish(), "s", dag.OK)
	if r.Output.Inline != `{"n":3}` || r.Usage.TotalTokens != 40 || r.Session != "S" {
		t.Errorf("the result is %+v", r)
	}
	back := w.ran[2]
	if s := back.request.Session; s.Mode != agents.SessionResume || s.ID != "S" {
		t.Errorf("it went back into %+v", s)
	}
	for _, part := range []string{"exit status 1: why not", "one is missing", "-----DATA", "JSON Schema"} {
		if !strings.Contains(back.prompt, part) {
			t.Errorf("the agent was not told %q in:\n%s", part, back.prompt)
		}
	}
	if notices := w.notices(noticeCheck); len(notices) != 2 {
		t.Errorf("events about the check: %q", notices)
	}
}

// notices are the messages of flow's own events of a kind.
func (w *world) notices(subtype string) (all []string) {
	w.t.Helper()
	for _, e := range w.store.events(w.t) {
		if e.Type == "system" && e.Subtype == subtype {
			all = append(all, e.Message)
		}
	}
	return all
}

func TestCheckFails(t *testing.T) {
	answer := says(0, "session S", "answer done")
	sleeps := func(p *process) (proc.Result, error) {
		<-p.ctx.Done()
		return proc.Result{Code: -1, Signal: "TERM"}, nil
	}
	limited := func(s *pipeline.Step) { s.IdleTimeout = pipeline.Duration(time.Minute) }
	cases := []struct {
		name    string
		step    pipeline.Step
		plays   []func(*process) (proc.Result, error)
		cause   agents.Cause
		message string
	}{
		{
			"never passes", ask("s", check("x", 1)),
			[]func(*process) (proc.Result, error){answer, checks(3, "", "no"), answer, checks(4, "", "nor now")},
			agents.CauseCheck, "the check did not pass, and going back to the agent 1 times did not help: exit status 4: nor now",
		},
		{"does not go back", ask("s", check("x", 0)), []func(*process) (proc.Result, error){answer, checks(3, "", "no")}, agents.CauseCheck, "the check did not pass: exit status 3: no"},
		{"no session", ask("s", check("x", 2)), []func(*process) (proc.Result, error){says(0, "answer done"), checks(3, "", "no")}, agents.CauseCheck, "the check did not pass: exit status 3: no"},
		{"killed", ask("s", check("x", 0)), []func(*process) (proc.Result, error){answer, says(-1)}, agents.CauseCheck, "the check did not pass: exit status -1"},
		{"takes too long", ask("s", check("x", 0, time.Second)), []func(*process) (proc.Result, error){answer, sleeps}, agents.CauseCheck, "the check did not pass: it took longer than 1s"},
		{"idle", ask("s", check("x", 2), limited), []func(*process) (proc.Result, error){answer, sleeps}, agents.CauseTimeout, "printed nothing for 1m0s"},
		{"cannot start", ask("s", check("x", 2)), []func(*process) (proc.Result, error){answer, func(*process) (proc.Result, error) {
			return proc.Result{Code: -1, Err: errors.New("no sh")}, nil
		}}, agents.CauseSpawn, "no sh"},
		{"template", ask("s", check("{{ .inputs.nope }}", 2)), []func(*process) (proc.Result, error){answer}, agents.CauseConfig, "p.yaml:5:"},
		{"agent fails on its way back", ask("s", check("x", 2)), []func(*process) (proc.Result, error){answer, checks(3, "", ""), says(1, "problem auth no login")}, agents.CauseAuth, "no login"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.step)
				w.config.Inputs = map[string]any{}
				w.play = inTurn(c.plays...)
				r := w.want(w.finish(), "s", dag.Failure)
				if r.Cause != string(c.cause) || !strings.HasPrefix(r.Error, c.message) {
					t.Errorf("it says %s: %q", r.Cause, r.Error)
				}
				if len(w.ran) != len(c.plays) {
					t.Errorf("%d processes, want %d", len(w.ran), len(c.plays))
				}
			})
		})
	}
}

// A step that is cancelled while it is checked does not ask its agent again when the
// run goes on.
func TestCheckCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ask("s", check("x", 1)))
		ctx, cancel := context.WithCancelCause(t.Context())
		w.play = inTurn(says(0, "session S", "total 10", "answer done"), func(p *process) (proc.Result, error) {
			cancel(errors.New("by hand"))
			<-p.ctx.Done()
			return proc.Result{Code: -1, Signal: "TERM"}, nil
		})
		m, err := w.run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		w.want(m, "s", dag.Cancelled)
		w.play = inTurn(checks(0, "", ""))
		r := w.want(w.finish(), "s", dag.OK)
		if r.Text.Inline != "done" || r.Session != "S" || r.Usage.TotalTokens != 10 {
			t.Errorf("the result is %+v", r)
		}
	})
}

// What a check found is said again when flow died before the agent had begun to mend
// it, and not a second time when it had.
func TestCheckAdopted(t *testing.T) {
	for name, c := range map[string]struct {
		printed []string
		again   bool
	}{"not begun": {[]string{"session S"}, true}, "begun": {[]string{"session S", "say hm"}, false}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, ask("s", check("x", 1)))
			w.play = inTurn(says(0, "session S", "answer one"), checks(1, "", "bad"), dies(c.printed...))
			w.die()
			rest := []func(*process) (proc.Result, error){says(0, "session S", "answer two"), checks(0, "", "")}
			if c.again {
				rest = append([]func(*process) (proc.Result, error){checks(1, "", "bad")}, rest...)
			}
			w.play = inTurn(rest...)
			r := w.want(w.finish(), "s", dag.OK)
			asked := w.ran[len(w.ran)-2]
			if r.Text.Inline != "two" || strings.Contains(asked.prompt, "exit status 1: bad") != c.again || (asked.prompt == continuePrompt) == c.again {
				t.Errorf("%q came of %q", r.Text.Inline, asked.prompt)
			}
		})
	}
}

// TestEveryCrashOfCheck is TestEveryCrash for a step whose work goes back twice.
func TestEveryCrashOfCheck(t *testing.T) {
	step := ask("s", check("x", 2), func(s *pipeline.Step) { s.Output = []byte(`{"type":"object","required":["n"]}`) })
	calm := newWorld(t, step)
	calm.play = newChecked(t, calm.store).play
	calm.want(calm.finish(), "s", dag.OK)
	total := len(calm.store.log)
	if total < 40 {
		t.Fatalf("only %d moments to crash at", total)
	}
	for n := range total + 1 {
		w := newWorld(t, step)
		w.store = calm.store.at(t, n)
		c := newChecked(t, w.store)
		w.play = c.play
		r := w.want(w.finish(), "s", dag.OK)
		if r.Output.Inline != `{"n":3}` && r.Output.Inline != `{"n":4}` {
			t.Errorf("the answer is %s", r.Output.Inline)
		}
		// A turn that is asked again after it answered, before flow saw that, may only add.
		if used := r.Usage.TotalTokens; used != int64(10*c.turns) || used > 50 {
			t.Errorf("it used %d in %d turns", used, c.turns)
		}
		last := w.ran
		if n == total {
			last = calm.ran
		}
		if len(last) > 0 && last[len(last)-1].spec.Path != "sh" {
			t.Error("its last process was no check")
		}
		checkEvents(t, w)
		if t.Failed() {
			t.Fatalf("crash at %d of %d", n, total)
		}
	}
}

// checked plays an agent that needs four turns: its second answer is no answer, and its
// work passes the check from the third answer on.
type checked struct{ turns int }

// newChecked remembers the turns whose output is in the store.
func newChecked(t *testing.T, s *fakeStore) *checked {
	t.Helper()
	c := &checked{}
	files, err := filepath.Glob(filepath.Join(s.dir, "attempts", "*.stdout"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := eachLine(f, maxLine, func(l proc.Line) {
			if strings.HasPrefix(string(l.Data), "total ") {
				c.turns++
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *checked) play(p *process) (proc.Result, error) {
	if p.spec.Path == "sh" {
		code := 0
		if c.turns < 4 {
			code = 1
		}
		return checks(code, "checked", "so it is")(p)
	}
	c.turns++
	p.print("session S", "say two words", fmt.Sprintf("total %d", 10*c.turns))
	switch c.turns {
	case 2:
		p.print("answer {}")
	case 1:
		p.print(`answer {"n":1}`)
	default:
		p.print(fmt.Sprintf(`answer {"n":%d}`, c.turns-1))
	}
	return proc.Result{}, nil
}
