package steps

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
)

func notify(src string, on ...string) func(*pipeline.Step) {
	return func(s *pipeline.Step) { s.Notify = append(s.Notify, pipeline.Notify{Run: *text(src), On: on}) }
}

// told lists what the scripts of `notify` were told, sorted.
func (w *world) told() (all []string) {
	for _, p := range w.ran {
		if !strings.HasPrefix(p.spec.Label, "notify-") {
			continue
		}
		get := func(name string) string {
			for _, v := range p.spec.Env {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value
				}
			}
			return "absent"
		}
		all = append(all, fmt.Sprintf("%s %s %s %q", get("FLOW_STEP"), get("FLOW_STATUS"), get("FLOW_RUN_STATUS"), get("FLOW_ERROR")))
	}
	slices.Sort(all)
	return all
}

func (w *world) wantTold(want ...string) {
	w.t.Helper()
	if got := w.told(); !slices.Equal(got, want) {
		w.t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		group := pipeline.Step{ID: "g", Kind: pipeline.KindGroup, Steps: []pipeline.Step{ask("in", notify("x {{ .steps.ok.status }}", "succeeded"), needs("ok"))}, Needs: []string{"ok"}, Refs: []string{"ok"}}
		notify("x", "succeeded")(&group)
		w := newWorld(t,
			ask("ok", notify("x", "failed", "succeeded"), notify("y", "succeeded")),
			group,
			ask("bad", notify("x", "failed"), retry(1)),
			ask("quiet", notify("x", "failed"), needs("ok")),
			ask("never", notify("x", "skipped"), needs("bad")))
		w.plan.Steps[1].Steps[0].Needs = nil
		w.plan.Notify = []pipeline.Notify{{Run: *text("x"), On: []string{"failed"}}}
		w.plan.Name = "p"
		w.play = func(p *process) (proc.Result, error) {
			switch {
			case strings.HasPrefix(p.spec.Label, "bad"):
				return says(1, "problem network gone")(p)
			case strings.HasPrefix(p.spec.Label, "notify-quiet"):
				t.Error("told of what nobody wants to know")
			}
			return says(0, "session S", "answer ok")(p)
		}
		w.want(w.finish(), "ok", dag.OK)
		w.wantTold(` failed failed "the reason"`, `bad failed running "gone"`, `g succeeded running ""`, `g.in succeeded running ""`,
			`never skipped running "bad failed"`, `ok succeeded running ""`, `ok succeeded running ""`)
	})
}

// Nobody is told twice, unless it happens twice.
func TestNotifyOnce(t *testing.T) {
	w := newWorld(t, ask("s", notify("x", "failed")), ask("ok", notify("x", "succeeded")))
	w.play = func(p *process) (proc.Result, error) {
		if strings.HasPrefix(p.spec.Label, "s.") {
			return says(1, "problem auth no")(p)
		}
		return says(0, "answer ok")(p)
	}
	w.finish()
	w.wantTold(`ok succeeded running ""`, `s failed running "no"`)
	w.finish() // s runs again
	w.wantTold(`ok succeeded running ""`, `s failed running "no"`, `s failed running "no"`)
}

// The scripts that flow died in run again, those that have ended do not, in whatever order
// they did.
func TestNotifyAgain(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []Notified
		again   bool
	}{
		{"never", nil, true},
		{"ended", []Notified{{"s", "succeeded", true}, {"s", "succeeded", false}}, false},
		{"died", []Notified{{"s", "succeeded", true}}, true},
		{"died again", []Notified{{"s", "succeeded", true}, {"s", "succeeded", true}}, true},
		{"by an older flow", []Notified{{"s", "succeeded", false}}, false},
		{"died after another end", []Notified{{"s", "waiting", true}, {"s", "waiting", false}, {"s", "succeeded", true}}, true},
		{"the one before ended later", []Notified{{"s", "waiting", true}, {"s", "succeeded", true}, {"s", "succeeded", false}, {"s", "waiting", false}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger()
			for _, n := range c.records {
				l.told(n)
			}
			if got := l.tell("s", "succeeded"); got != c.again {
				t.Errorf("again: %v", got)
			}
		})
	}
}

// A script that fails or hangs holds up nothing and fails nothing.
func TestNotifyFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, ask("s", notify("x", "succeeded"), notify("{{ .inputs.nope }}", "succeeded")), ask("next", needs("s")))
		began := time.Now()
		w.config.Inputs = map[string]any{}
		var next time.Duration
		w.play = func(p *process) (proc.Result, error) {
			if strings.HasPrefix(p.spec.Label, "notify-") {
				<-p.ctx.Done()
				return proc.Result{Code: -1, Signal: "TERM"}, nil
			}
			next = time.Since(began)
			return says(0, "answer ok")(p)
		}
		w.want(w.finish(), "next", dag.OK)
		if next != 0 || time.Since(began) != notifyTime {
			t.Errorf("the next step began after %v, and all ended after %v", next, time.Since(began))
		}
		if n := w.notices(noticeNotify); len(n) != 2 {
			t.Errorf("events about it: %q", n)
		}
	})
}
