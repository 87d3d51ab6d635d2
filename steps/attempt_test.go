package steps

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
)

func TestRepair(t *testing.T) {
	schema := func(s *pipeline.Step) { s.Output = []byte(`{"type":"object","required":["ok"]}`) }
	t.Run("once, in the same session", func(t *testing.T) {
		w := newWorld(t, ask("s", schema))
		w.play = inTurn(says(0, "session S", "answer {}"), says(0, "session S", `answer {"ok":1}`))
		r := w.want(w.finish(), "s", dag.OK)
		if r.Output.Inline != `{"ok":1}` {
			t.Errorf("output %+v", r.Output)
		}
		second := w.ran[1]
		if second.request.Session.ID != "S" || second.request.Session.Mode != agents.SessionResume || !strings.Contains(second.prompt, "ok") {
			t.Errorf("the repair asked %q in %+v", second.prompt, second.request.Session)
		}
		if second.spec.Label != "s.1.2" {
			t.Errorf("the repair is process %s", second.spec.Label)
		}
	})
	t.Run("not twice", func(t *testing.T) {
		w := newWorld(t, ask("s", schema))
		w.play = inTurn(says(0, "session S", "answer {}"), says(0, "session S", "answer nothing"))
		r := w.want(w.finish(), "s", dag.Failure)
		if r.Cause != string(agents.CauseSchema) || r.Hint == "" || r.Text.Inline != "nothing" {
			t.Errorf("it says %+v", r)
		}
	})
	t.Run("not without a session", func(t *testing.T) {
		w := newWorld(t, ask("s", schema))
		w.play = inTurn(says(0, "answer {}"))
		w.want(w.finish(), "s", dag.Failure)
	})
}

func TestRetry(t *testing.T) {
	limited := says(1, "problem rate_limit slow down")
	at := func(when time.Time) func(*process) (proc.Result, error) {
		return says(1, "problem rate_limit slow down", "later "+when.Format(time.RFC3339))
	}
	ok := says(0, "answer ok")
	cases := []struct {
		name     string
		retry    pipeline.Retry
		plays    []func(*process) (proc.Result, error)
		status   dag.Status
		from, to time.Duration // when it ended
	}{
		{"none", pipeline.Retry{}, []func(*process) (proc.Result, error){limited}, dag.Failure, 0, 0},
		{"default backoff", pipeline.Retry{Max: 1}, []func(*process) (proc.Result, error){limited, ok}, dag.OK, time.Second, 1200 * time.Millisecond},
		{"doubles", pipeline.Retry{Max: 3, Backoff: pipeline.Duration(10 * time.Second)}, []func(*process) (proc.Result, error){limited, limited, limited, ok}, dag.OK, 70 * time.Second, 84 * time.Second},
		{"gives up", pipeline.Retry{Max: 1}, []func(*process) (proc.Result, error){limited, limited}, dag.Failure, time.Second, 1200 * time.Millisecond},
		{"other causes only", pipeline.Retry{Max: 1, On: []string{"crash"}}, []func(*process) (proc.Result, error){limited}, dag.Failure, 0, 0},
		{"not what cannot pass", pipeline.Retry{Max: 1}, []func(*process) (proc.Result, error){says(1, "problem auth no login")}, dag.Failure, 0, 0},
		{"when the limit resets", pipeline.Retry{Max: 1}, []func(*process) (proc.Result, error){
			func(p *process) (proc.Result, error) { return at(time.Now().Add(time.Hour))(p) }, ok,
		}, dag.OK, time.Hour - time.Second, time.Hour},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w := newWorld(t, ask("s", func(s *pipeline.Step) { s.Retry = c.retry }))
				w.play = inTurn(c.plays...)
				w.want(w.finish(), "s", c.status)
				if took := time.Since(began); took < c.from || took > c.to {
					t.Errorf("it took %v, want %v to %v", took, c.from, c.to)
				}
				if len(w.ran) != len(c.plays) {
					t.Errorf("%d attempts, want %d", len(w.ran), len(c.plays))
				}
			})
		})
	}
}

func TestBackoff(t *testing.T) {
	for _, c := range []struct {
		base     time.Duration
		failures int
		want     time.Duration
	}{
		{0, 0, time.Second},
		{0, 3, 8 * time.Second},
		{0, 100, 5 * time.Minute},
		{time.Minute, 2, 4 * time.Minute},
		{time.Minute, 3, 5 * time.Minute},
		{time.Hour, 5, time.Hour},
		{7 * 24 * time.Hour, 1000, 7 * 24 * time.Hour},
	} {
		for range 100 {
			if got := backoff(c.base, c.failures); got < c.want || got > c.want+c.want/5 {
				t.Errorf("backoff(%v, %d) is %v, want %v and at most a fifth more", c.base, c.failures, got, c.want)
			}
		}
	}
}

// waits is a process that goes on until flow ends it, with a line every so often.
func waits(every time.Duration) func(*process) (proc.Result, error) {
	return func(p *process) (proc.Result, error) {
		p.print("session S")
		for p.ctx.Err() == nil {
			var tick <-chan time.Time
			if every > 0 {
				tick = time.After(every)
			}
			select {
			case <-tick:
				p.print("say hi")
			case <-p.ctx.Done():
			}
		}
		return proc.Result{Code: -1, Signal: "TERM"}, nil
	}
}

func TestLimits(t *testing.T) {
	limits := func(total, idle time.Duration) func(*pipeline.Step) {
		return func(s *pipeline.Step) { s.Timeout, s.IdleTimeout = pipeline.Duration(total), pipeline.Duration(idle) }
	}
	cases := []struct {
		name    string
		step    pipeline.Step
		play    func(*process) (proc.Result, error)
		cancel  time.Duration
		status  dag.Status
		cause   agents.Cause
		message string
		hint    string
		took    time.Duration
	}{
		{"timeout", ask("s", limits(time.Minute, 0)), waits(time.Second), 0, dag.Failure, agents.CauseTimeout, "timeout", "the step's `timeout` is 1m0s", time.Minute},
		{"idle", ask("s", limits(time.Hour, time.Minute)), waits(0), 0, dag.Failure, agents.CauseTimeout, "idle", "the step's `idle-timeout` is 1m0s", time.Minute},
		{"not idle", ask("s", limits(time.Hour, time.Minute)), waits(59 * time.Second), 0, dag.Failure, agents.CauseTimeout, "timeout", "the step's `timeout` is 1h0m0s", time.Hour},
		{"cancelled", ask("s", limits(time.Hour, time.Minute)), waits(time.Second), time.Second, dag.Cancelled, agents.CauseCancelled, "by hand", "", time.Second},
		{"script, timeout", script("s", "x", limits(time.Minute, 0)), waits(time.Second), 0, dag.Failure, agents.CauseTimeout, "timed out after 1m0s", "the step's `timeout` is 1m0s", time.Minute},
		{"script, idle", script("s", "x", limits(time.Hour, time.Minute)), waits(0), 0, dag.Failure, agents.CauseTimeout, "printed nothing for 1m0s", "the step's `idle-timeout` is 1m0s", time.Minute},
		{"script, cancelled", script("s", "x"), waits(0), time.Second, dag.Cancelled, agents.CauseCancelled, "by hand", "", time.Second},
		{"killed by someone else", ask("s"), says(-1, "session S", "problem cancelled killed by SIGTERM"), 0, dag.Failure, agents.CauseCancelled, "killed by SIGTERM", "", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				w := newWorld(t, c.step)
				w.play = c.play
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, func() { cancel(errors.New("by hand")) })
				}
				m, err := w.run(ctx)
				if err != nil {
					t.Fatal(err)
				}
				r := w.want(m, "s", c.status)
				if r.Cause != string(c.cause) || r.Error != c.message || !strings.HasPrefix(r.Hint, c.hint) || (c.hint == "") != (r.Hint == "") {
					t.Errorf("it says %s: %q, hint %q", r.Cause, r.Error, r.Hint)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// What has been done is done, although flow was just about to end it.
func TestFinishedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ask("s", func(s *pipeline.Step) { s.Timeout = pipeline.Duration(time.Second) }))
		w.play = func(p *process) (proc.Result, error) {
			p.print("session S", "answer ok")
			<-p.ctx.Done()
			return proc.Result{Code: -1, Signal: "KILL"}, nil
		}
		w.want(w.finish(), "s", dag.OK)
	})
}

// Work that cannot be recorded is ended, and flow says so.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ask("s"))
		w.store.full = true
		w.play = waits(0)
		_, err := w.run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "step s: disk full") {
			t.Errorf("flow says %v", err)
		}
	})
}

// An attempt that could not begin is not tried again, whatever `retry` says.
func TestRefused(t *testing.T) {
	set := func(f func(*pipeline.Step)) func(*pipeline.Step) { return f }
	for name, step := range map[string]pipeline.Step{
		"prompt": ask("s", set(func(s *pipeline.Step) { s.Prompt = text("{{ .inputs.nope }}") }), retry(3, "config")),
		"if":     ask("s", set(func(s *pipeline.Step) { s.If = text(`"yes"`) }), retry(3, "config")),
		"env":    ask("s", set(func(s *pipeline.Step) { s.Env = []pipeline.Var{{Name: "A", Value: *text("{{ .inputs.nope }}")}} }), retry(3, "config")),
		"cwd":    ask("s", set(func(s *pipeline.Step) { s.Cwd = text("nope") }), retry(3, "config")),
		"run":    script("s", "echo {{ .inputs.nope }}", retry(3, "config")),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, step)
			w.config.Inputs = map[string]any{}
			w.play = inTurn()
			r := w.want(w.finish(), "s", dag.Failure)
			if r.Cause != string(agents.CauseConfig) || !strings.HasPrefix(r.Error, "p.yaml:5:") {
				t.Errorf("it says %s: %q", r.Cause, r.Error)
			}
		})
	}
}

func TestCommandRefused(t *testing.T) {
	w := newWorld(t, ask("s"))
	p := w.plan.Agents["a"]
	p.Model = "refused"
	w.plan.Agents["a"] = p
	w.play = inTurn()
	r := w.want(w.finish(), "s", dag.Failure)
	if r.Error != "it has no model refused" || r.Hint != "choose another" {
		t.Errorf("it says %q, hint %q", r.Error, r.Hint)
	}
}

// A workspace that is gone is named as the cause, and not the agent's program.
func TestWorkspaceGone(t *testing.T) {
	for _, step := range []pipeline.Step{ask("s"), script("s", "x")} {
		w := newWorld(t, step)
		w.config.Workspace = filepath.Join(t.TempDir(), "gone")
		w.play = inTurn()
		r := w.want(w.finish(), "s", dag.Failure)
		if !strings.Contains(r.Error, "the workspace") || !strings.Contains(r.Error, w.config.Workspace) || !strings.Contains(r.Hint, "resume") {
			t.Errorf("it says %q, hint %q", r.Error, r.Hint)
		}
	}
}

func TestShell(t *testing.T) {
	object := func(s *pipeline.Step) { s.Output = []byte(`{"type":"object"}`) }
	exits := func(res proc.Result, lines ...string) func(*process) (proc.Result, error) {
		return func(p *process) (proc.Result, error) {
			p.print(lines...)
			return res, nil
		}
	}
	cases := []struct {
		name   string
		step   pipeline.Step
		play   func(*process) (proc.Result, error)
		status dag.Status
		cause  agents.Cause
		error  string
	}{
		{"ok", script("s", "x"), exits(proc.Result{}, "hi"), dag.OK, "", ""},
		{"exit", script("s", "x"), exits(proc.Result{Code: 3, StderrTail: "a\nwhy\n"}), dag.Failure, agents.CauseExit, "exit status 3: why"},
		{"signal", script("s", "x"), exits(proc.Result{Code: -1, Signal: "KILL"}), dag.Failure, agents.CauseCrash, "killed by SIGKILL"},
		{"spawn", script("s", "x"), exits(proc.Result{Code: -1, Err: errors.New("no such shell")}), dag.Failure, agents.CauseSpawn, "no such shell"},
		{"json", script("s", "x", object), exits(proc.Result{}, `{"a":1}`), dag.OK, "", ""},
		{"no json", script("s", "x", object), exits(proc.Result{}, `1`), dag.Failure, agents.CauseSchema, "what the script printed does not match the output schema: want object, got number"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.step)
			w.play = c.play
			r := w.want(w.finish(), "s", c.status)
			if r.Cause != string(c.cause) || r.Error != c.error {
				t.Errorf("it says %s: %q", r.Cause, r.Error)
			}
		})
	}
}

func TestShellCommand(t *testing.T) {
	long := strings.Repeat("#", scriptArgMax+1)
	for _, c := range []struct {
		name, shell string
		script      pipeline.Script
		path        string
		args        []string
		file        string
	}{
		{"sh", "", pipeline.Script{Body: "true"}, "sh", []string{"-eu", "-c", "true"}, ""},
		{"bash", "bash", pipeline.Script{Body: "true"}, "bash", []string{"-euo", "pipefail", "-c", "true"}, ""},
		{"other", "python3 -u", pipeline.Script{Body: "pass"}, "python3", []string{"-u", "FILE"}, "pass"},
		{"long", "sh", pipeline.Script{Body: long}, "sh", []string{"-eu", "FILE"}, long},
		{"values", "", pipeline.Script{Body: `echo "$v"`, Values: []pipeline.ScriptValue{{Name: "v", Value: "it's; rm -rf"}}}, "sh", []string{"-eu", "FILE"}, "v='it'\\''s; rm -rf'\necho \"$v\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := script("s", "x", func(s *pipeline.Step) { s.Shell = c.shell })
			w := newWorld(t, s)
			a := &attempt{x: w.executor(), task: dag.Task{Path: "s", Attempt: 1}, step: &s}
			a.spec()
			path, args, err := a.command(c.script)
			if err != nil {
				t.Fatal(err)
			}
			want := append([]string{}, c.args...)
			if last := len(want) - 1; want[last] == "FILE" {
				want[last] = a.path("script")
				if got, _, err := readHead(a.path("script"), 1<<20); err != nil || got != c.file {
					t.Errorf("the file is %q, %v", got, err)
				}
			}
			if diff := cmp.Diff(append([]string{c.path}, want...), append([]string{path}, args...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
