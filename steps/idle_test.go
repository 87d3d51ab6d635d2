package steps

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"flow/agents"
	"flow/agents/proc"
)

// An agent that says something every hour works as long as it likes; one that says nothing
// for longer is ended, for that and not for its step's timeout.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		whole, done := withTimeout(t.Context(), 24*time.Hour)
		defer done()
		ctx, watch := watchIdle(whole, 2*time.Hour)
		defer watch.stop()
		sink := watch.over(proc.Sink{})
		signs := []func(){
			func() { sink.Stdout(proc.Line{}) },
			func() { sink.Stderr(proc.Line{}) },
			sink.Growing, // of standard error, some is not delivered before the end
		}
		for i := range 12 {
			time.Sleep(time.Hour + 30*time.Minute)
			signs[i%len(signs)]()
		}
		if ctx.Err() != nil {
			t.Fatalf("ended after %v, although it spoke", context.Cause(ctx))
		}
		began := time.Now()
		<-ctx.Done()
		if silent := time.Since(began); silent != 2*time.Hour || !errors.Is(context.Cause(ctx), errIdle) {
			t.Errorf("ended after %v of silence by %v", silent, context.Cause(ctx))
		}
	})
}

// A limit that is said to reset in the distant past or future is not believed.
func TestBelievableReset(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		at   time.Time
		want bool
	}{
		"soon":           {now.Add(time.Minute), true},
		"next week":      {now.Add(7 * 24 * time.Hour), true},
		"nothing said":   {time.Time{}, false},
		"an hour ago":    {now.Add(-time.Hour), false}, // or the clock was set
		"in a century":   {now.AddDate(100, 0, 0), false},
		"in a fortnight": {now.AddDate(0, 0, 14), false},
	} {
		p := &agents.Problem{RetryAfter: c.at}
		if got := !believed(p, now).IsZero(); got != c.want {
			t.Errorf("%s is believed: %t", name, got)
		}
	}
}

// What a turn takes is never negative, whatever is done to the clock.
func TestClockSetBack(t *testing.T) {
	now := time.Now().Round(0) // without a monotonic reading, as a clock that can be set
	a := &attempt{x: &Executor{Config: Config{Now: func() time.Time { return now.Add(-time.Hour) }}}, began: now}
	if got := a.elapsed(); got != 0 {
		t.Errorf("%d ms after the clock was set back", got)
	}
}
