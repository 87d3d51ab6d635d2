package local_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"flow/pipeline/dag"
	"flow/pipeline/local"
)

// A retry is to come at a time of the wall clock, and that clock goes on while the timers
// stand still, as when a laptop is suspended: the retry comes soon after it wakes up.
func TestSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		suspended := start.Add(2 * time.Hour)
		wall := func() time.Time {
			now := time.Now().Round(0)
			if now.After(suspended) {
				now = now.Add(9 * time.Hour)
			}
			return now
		}
		var began []time.Duration // by the timers
		x := exec(func(ctx context.Context, task dag.Task, rec local.Recorder) (dag.Fact, error) {
			began = append(began, time.Since(start))
			if err := rec(ctx, answer(task, dag.Started)); err != nil {
				return dag.Fact{}, err
			}
			if task.Attempt > 1 {
				return answer(task, dag.Succeeded), nil
			}
			f := answer(task, dag.Failed)
			f.RetryAt = wall().Add(10 * time.Hour)
			return f, nil
		})
		m, err := run(t, plan(1, step("a")), x, &journal{}, local.Options{Now: wall})
		if err != nil || m.Status() != dag.RunSucceeded {
			t.Fatal(m.Status(), err)
		}
		if again := began[len(began)-1]; len(began) != 2 || again < 2*time.Hour || again > 2*time.Hour+time.Minute {
			t.Errorf("the attempts began after %v", began)
		}
	})
}
