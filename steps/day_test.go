package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/pipeline/local"
)

// A dayStore keeps of records and events only how many there are, so that what is measured is
// the memory of the run.
type dayStore struct {
	*fakeStore
	records, journal, events int
}

func (s *dayStore) Append(_ context.Context, _ string, data any, _ bool) error {
	raw, err := json.Marshal(data)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records++
	s.journal += len(raw)
	return err
}

func (s *dayStore) AppendEvents([]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events++
	return nil
}

// A dayLauncher runs processes that leave nothing in memory.
type dayLauncher struct {
	play func(ctx context.Context, s proc.Spec, say func(line string)) (proc.Result, error)
}

func (l dayLauncher) Run(ctx context.Context, s proc.Spec, sink proc.Sink) (proc.Result, error) {
	offset := int64(0)
	return l.play(ctx, s, func(line string) {
		if sink.Stdout != nil {
			sink.Stdout(proc.Line{Data: []byte(line), Offset: offset, Length: int64(len(line))})
		}
		offset += int64(len(line)) + 1
	})
}

// A reading is what a run holds at a time.
type reading struct {
	heap                 int64
	goroutines           int
	records, events, kib int
}

// day runs a plan for as long as it takes, and reads what it holds after an hour, and one hour
// before 24.
func day(t *testing.T, launcher dayLauncher, steps ...pipeline.Step) (first, last reading, m *dag.Machine) {
	t.Helper()
	w := newWorld(t, steps...)
	store := &dayStore{fakeStore: w.store}
	x := w.executor()
	x.Store, x.Launcher, x.recorder.append = store, launcher, store.AppendEvents
	read := func() reading {
		runtime.GC()
		runtime.GC() // what the first one finds in pools
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		store.mu.Lock()
		defer store.mu.Unlock()
		return reading{int64(mem.HeapAlloc), runtime.NumGoroutine(), store.records, store.events, store.journal >> 10}
	}
	began := time.Now()
	for at, into := range map[time.Duration]*reading{time.Hour + time.Millisecond: &first, 23*time.Hour + time.Millisecond: &last} {
		timer := time.AfterFunc(at, func() { *into = read() })
		defer timer.Stop()
	}
	m = dag.New(w.plan, dag.Options{})
	if err := local.Run(t.Context(), m, x, x.Journal(), local.Options{Observe: func(f dag.Fact) { x.NotifyFact(m, f) }}); err != nil {
		t.Fatal(err)
	}
	x.NotifyEnd(m, string(m.Status()), "")
	synctest.Wait() // for the readings
	if took := time.Since(began); took < 24*time.Hour || took > 24*time.Hour+time.Minute {
		t.Errorf("the day took %v", took)
	}
	t.Logf("after an hour %+v, after 23 %+v", first, last)
	return first, last, m
}

// TestDayOfTalk is an agent that works for a day and says something every second: 170,000
// events, and nothing in memory grows.
func TestDayOfTalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, last, m := day(t, dayLauncher{func(_ context.Context, _ proc.Spec, say func(string)) (proc.Result, error) {
			say("session S")
			for i := range 24 * 60 * 60 {
				time.Sleep(time.Second)
				say(fmt.Sprintf("tool %d", i))
				say(fmt.Sprintf("called %d", i))
			}
			say("answer done")
			return proc.Result{}, nil
		}}, ask("s", func(s *pipeline.Step) {
			s.Timeout, s.IdleTimeout = pipeline.Duration(48*time.Hour), pipeline.Duration(2*time.Second)
		}))
		if m.Status() != dag.RunSucceeded || last.events-first.events < 2*22*60*60 {
			t.Errorf("the run is %s; %d events", m.Status(), last.events)
		}
		if grown := last.heap - first.heap; grown > 256<<10 {
			t.Errorf("%d KiB of memory came to %d", grown>>10, first.heap>>10)
		}
		if last.goroutines != first.goroutines || last.records != first.records {
			t.Errorf("goroutines, records: %+v and then %+v", first, last)
		}
	})
}

// TestDayOfRounds is a loop that polls every two minutes for a day: an agent that is idle for
// too long now and then, one that meets a limit and is tried again, a script that tells of it.
// Memory and journal grow with the rounds, by little, and nothing else does.
func TestDayOfRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rounds, pause = 720, 2 * time.Minute
		launches := 0
		launcher := dayLauncher{func(ctx context.Context, s proc.Spec, say func(string)) (proc.Result, error) {
			switch now := time.Now(); {
			case strings.HasPrefix(s.Label, "notify-"):
				return proc.Result{}, nil
			case s.Stdin == "": // the script that waits for the next round
				time.Sleep(now.Truncate(pause).Add(pause).Sub(now))
				return proc.Result{}, nil
			}
			launches++ // of the agent, one after the other
			say("session S")
			switch launches % 7 {
			case 0: // it is silent
				<-ctx.Done()
				return proc.Result{Code: -1, Signal: "KILL"}, nil
			case 3:
				say("problem rate_limit later")
				say("later " + time.Now().Add(20*time.Second).Format(time.RFC3339))
				return proc.Result{Code: 1}, nil
			}
			say("say it goes on")
			say("answer no")
			return proc.Result{}, nil
		}}
		round := group("g",
			ask("poll", retry(5, "timeout", "rate_limit"), func(s *pipeline.Step) { s.IdleTimeout = pipeline.Duration(10 * time.Second) }),
			script("wait", "wait", needs("poll"), notify("tell", "succeeded")))
		first, last, m := day(t, launcher, changed(round, func(s *pipeline.Step) {
			s.Repeat = &pipeline.Repeat{Until: *text("false"), Max: rounds, GoOn: true}
			s.Previous = true
		}))
		if m.Status() != dag.RunSucceeded {
			t.Errorf("the run is %s", m.Status())
		}
		passed := int64(rounds * 22 / 24)
		if grown := last.heap - first.heap; grown > passed*8<<10 {
			t.Errorf("%d KiB of memory came to %d", grown>>10, first.heap>>10)
		}
		if last.goroutines > first.goroutines+2 {
			t.Errorf("%d goroutines, and then %d", first.goroutines, last.goroutines)
		}
		if perHour := float64(last.kib) / 23; perHour > 1.2*float64(first.kib) {
			t.Errorf("the journal grows by %.1f KiB an hour, in the first by %d", perHour, first.kib)
		}
	})
}
