package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestRepairOfARealRun damages the journal of a run in many places. What a repair makes of each
// can be resumed to the same end, and nothing is wrong with it then.
func TestRepairOfARealRun(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(filepath.Join("testdata", "state", "format-1", "runs", "done", "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	const page = 512
	for at := 0; at < len(whole); at += page {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			r := newCrashRun(t, "done")
			goldenRuns(t, r, "format-1")
			data := append([]byte(nil), whole...)
			if at/page%2 == 0 {
				clear(data[at:min(at+page, len(data))])
			} else {
				data = data[:at]
			}
			if err := os.WriteFile(filepath.Join(r.state(), "runs", "done", "journal.jsonl"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := r.command("state", "check")
			_ = cmd.Run() // its exit status is what counts
			if code := cmd.ProcessState.ExitCode(); code != exitState {
				t.Errorf("exit status %d of the check, want %d", code, exitState)
			}
			fixed := r.dir + "-fixed"
			r.finish(t, "state", "repair", "done", "--to", fixed)
			r.env = []string{"FLOW_STATE_DIR=" + fixed}
			r.finish(t, "state", "check")
			r.answer(t)
			r.finish(t, "state", "check")
			r.prints(t, "end after title 1, 20000 bytes\n", "output", "done", "last")
		})
	}
}

// answer resumes the run to its end, and answers what it asks on the way.
func (r crashRun) answer(t *testing.T) {
	t.Helper()
	for range 2 {
		cmd := r.command("resume", r.id)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return
		}
		if cmd.ProcessState.ExitCode() != exitPerson {
			t.Fatalf("%v\n%s", err, out)
		}
		r.finish(t, "approve", r.id, "ask")
	}
	t.Error("the run asks again and again")
}
