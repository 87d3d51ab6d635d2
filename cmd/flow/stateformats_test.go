package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goldenRuns copies a state directory of testdata, with the modes that git does not keep, and
// has its runs work in the directory of r.
func goldenRuns(t *testing.T, r crashRun, format string) {
	t.Helper()
	from := filepath.Join("testdata", "state", format)
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(r.state(), strings.TrimPrefix(path, from))
		if d.IsDir() {
			return os.Mkdir(to, 0o700)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if d.Name() == "run.json" {
			data = bytes.Replace(data, []byte(`"/golden/work"`), []byte(`"`+r.dir+`"`), 1)
		}
		return os.WriteFile(to, data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestStateOfEveryFormat reads, checks and resumes the runs that earlier flows have left.
func TestStateOfEveryFormat(t *testing.T) {
	t.Parallel()
	formats, err := os.ReadDir(filepath.Join("testdata", "state"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range formats {
		if f.IsDir() {
			t.Run(f.Name(), func(t *testing.T) {
				t.Parallel()
				r := newCrashRun(t, "done")
				goldenRuns(t, r, f.Name())
				r.finish(t, "state", "check")
				checkDone(t, r)
				checkWaits(t, r)
				checkKilled(t, r)
				r.finish(t, "state", "reindex")
				r.finish(t, "state", "check")
			})
		}
	}
}

// statuses returns the status of a run and of its steps.
func statuses(t *testing.T, r crashRun, id string) map[string]string {
	t.Helper()
	var report struct {
		Status string
		Steps  map[string]struct{ Status string }
	}
	r.id = id
	r.show(t, &report)
	all := map[string]string{"": report.Status}
	for path, s := range report.Steps {
		if strings.Contains(path, ".") {
			continue // of an item: the step says the same
		}
		all[path] = s.Status
	}
	return all
}

func wantStatuses(t *testing.T, r crashRun, id string, want map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, statuses(t, r, id)); diff != "" {
		t.Errorf("run %s (-want +got):\n%s", id, diff)
	}
}

// prints runs flow and compares what it prints.
func (r crashRun) prints(t *testing.T, want string, args ...string) {
	t.Helper()
	out, err := r.command(args...).Output()
	if err != nil || string(out) != want {
		t.Errorf("flow %s: %v\n got %q\nwant %q", strings.Join(args, " "), err, out, want)
	}
}

func allSucceeded() map[string]string {
	return map[string]string{
		"": "succeeded", "plan": "succeeded", "each": "succeeded", "edit": "succeeded",
		"report": "succeeded", "ask": "succeeded", "last": "succeeded",
	}
}

func checkDone(t *testing.T, r crashRun) {
	t.Helper()
	wantStatuses(t, r, "done", allSucceeded())
	r.prints(t, "end after title 1, 20000 bytes\n", "output", "done", "last")
	events, err := os.ReadFile(filepath.Join(r.state(), "runs", "done", "events.jsonl"))
	if err != nil || len(events) == 0 {
		t.Fatal(err)
	}
	r.prints(t, string(events), "events", "done", "-o", "json")
	audit, err := os.ReadFile(filepath.Join(r.state(), "runs", "done", "audit.jsonl"))
	if err != nil || len(audit) == 0 {
		t.Fatal(err)
	}
	r.prints(t, string(audit), "audit", "done", "-o", "json")
	r.finish(t, "artifacts", "done", "--to", filepath.Join(r.dir, "artifacts"))
	if report, err := os.ReadFile(filepath.Join(r.dir, "artifacts", "report", "report.txt")); string(report) != "report\n" {
		t.Errorf("the artifact is %q, %v", report, err)
	}
}

func checkWaits(t *testing.T, r crashRun) {
	t.Helper()
	want := allSucceeded()
	want[""], want["ask"], want["last"] = "waiting", "waiting", "pending"
	wantStatuses(t, r, "waits", want)
	r.finish(t, "approve", "waits", "ask")
	r.finish(t, "resume", "waits")
	wantStatuses(t, r, "waits", allSucceeded())
}

// checkKilled resumes a run whose agent was killed with flow: it goes on in its session.
func checkKilled(t *testing.T, r crashRun) {
	t.Helper()
	wantStatuses(t, r, "killed", map[string]string{"": "interrupted", "before": "succeeded", "agent": "interrupted", "after": "pending"})
	sees(t, "33-upgraded", r.finish(t, "resume", "killed"))
	wantStatuses(t, r, "killed", map[string]string{"": "succeeded", "before": "succeeded", "agent": "succeeded", "after": "succeeded"})
	out, err := r.command("sessions", "killed", "-o", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		ID    string `json:"id"`
		Steps []struct {
			Step string `json:"step"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(out, &s); err != nil || s.ID != "af0e0526-c7ce-4d57-b63d-2dc74accfcef" || len(s.Steps) != 1 {
		t.Errorf("not one session of the agent: %v\n%s", err, out)
	}
}
