package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/pipeline/dag"
	"flow/state"
	"flow/steps"
)

// A fate is what a run has come to and must come to whatever happens to it on the way.
type fate struct {
	Status    string
	Outputs   map[string]any
	Steps     map[string]string // by path: status, text and output
	Artifacts map[string]string
	Branches  string
	Changes   string // of the repository, by git
	Turns     map[string]int
	Effects   map[string]int
}

// A model watches over a run that is disturbed.
type model struct {
	crashRun
	want   *fate          // of the undisturbed run; nil: this is it
	kills  int            // that it has survived so far
	strays int            // those of others than flow and its guardian, which make attempts fail
	sealed map[string]int // effects of what was acknowledged, as they were then
	checks int            // invariants that were checked
}

func newModel(r crashRun, want *fate) *model {
	return &model{crashRun: r, want: want, sealed: map[string]int{}}
}

// left waits until nothing of the run lives any more, neither a process nor a lock, and
// returns what does after a while.
func (r crashRun) left() (left []string, took time.Duration) {
	began := time.Now()
	eventually(func() bool {
		if left = processesOf(r.id, r.home()); r.locked() {
			left = append(left, "lock")
		}
		return len(left) == 0
	})
	return left, time.Since(began)
}

// locked reports whether a process holds the lock of the run.
func (r crashRun) locked() bool {
	f, err := os.Open(filepath.Join(r.state(), "runs", r.id, "lock"))
	if err != nil {
		return false
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB) != nil
}

// open reads the run, which must be possible at any time. It is nil while there is none.
func (m *model) open(t *testing.T) *state.View {
	t.Helper()
	if !m.recorded() {
		return nil
	}
	s, err := state.Open(m.state())
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Read(m.id)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// invariants must hold after every kill, and at the end.
func (m *model) invariants(t *testing.T) {
	t.Helper()
	v := m.open(t)
	if v == nil {
		return
	}
	s, err := state.Open(m.state())
	if err != nil {
		t.Fatal(err)
	}
	found, err := s.Check()
	if err != nil {
		t.Error(err)
	}
	for _, f := range append(found, checkRun(s, m.id)...) {
		if !f.Harmless {
			t.Errorf("flow state check finds: %v", f)
		}
	}
	m.records(t, v)
	m.effects(t, v)
	m.checks += 5 // it opens, it is whole, in sequence, one attempt, no effect after the record
}

// records demands that the journal is in sequence and has one open attempt a step at most.
func (m *model) records(t *testing.T, v *state.View) {
	t.Helper()
	open := map[string]int{}
	for i, r := range v.Records() {
		if r.Seq != int64(i+1) {
			t.Errorf("record %d has the number %d", i+1, r.Seq)
		}
	}
	for f, err := range steps.Facts(v.Records()) {
		switch {
		case err != nil:
			t.Error(err)
		case f.Kind != dag.Started:
			delete(open, f.Path)
		case open[f.Path] > 0:
			t.Errorf("attempt %d of %s began while attempt %d was open", f.Attempt, f.Path, open[f.Path])
		default:
			open[f.Path] = f.Attempt
		}
	}
}

// effects demands that what was acknowledged has not happened again since, and that nothing
// happened more often than it was begun.
func (m *model) effects(t *testing.T, v *state.View) {
	t.Helper()
	now := m.count(t)
	for key, n := range m.sealed {
		if now[key] != n {
			t.Errorf("%s happened %d times, and %d times when it was on record", key, now[key], n)
		}
	}
	if m.want != nil {
		for key, n := range now {
			if most := m.want.Effects[key] + m.kills; n > most {
				t.Errorf("%s happened %d times, in a run that was killed %d times %d are allowed", key, n, m.kills, most)
			}
		}
	}
	for key := range acknowledged(t, v) {
		m.sealed[key] = now[key]
	}
}

// acknowledged are the effects of scripts that have succeeded: each prints its own.
func acknowledged(t *testing.T, v *state.View) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for f, err := range steps.Facts(v.Records()) {
		if err != nil {
			t.Fatal(err)
		}
		r, err := steps.DecodeResult(f.Result)
		if err != nil {
			t.Fatal(err)
		}
		text, err := r.Stdout.Load(v)
		if err != nil {
			t.Fatal(err)
		}
		if key, _, _ := strings.Cut(text, "\n"); f.Kind == dag.Succeeded && strings.HasPrefix(key, "did-") {
			all[key] = true
		}
	}
	return all
}

var trace = regexp.MustCompile(`^(did|tell|check)-`)

// count is how often each thing was done: lines of the ledger, and of the files that agents
// edit.
func (r crashRun) count(t *testing.T) map[string]int {
	t.Helper()
	all := map[string]int{}
	files, err := filepath.Glob(filepath.Join(r.dir, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, r.ledger()) {
		data, err := os.ReadFile(file)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if key := strings.TrimSpace(line); trace.MatchString(key) {
				all[key]++
			}
		}
	}
	return all
}

// fate reads what has become of the run, which has ended.
func (m *model) fate(t *testing.T) fate {
	t.Helper()
	v := m.open(t)
	r, err := readReport(v)
	if err != nil {
		t.Fatal(err)
	}
	f := fate{Status: r.Status, Outputs: r.Outputs, Steps: map[string]string{}, Artifacts: map[string]string{}, Effects: m.count(t), Turns: m.tasks(t)}
	normal := strings.NewReplacer("flow/"+m.id+"/", "flow/RUN/")
	for _, s := range r.Steps {
		if s, err = s.loaded(v); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(s.path, "race") && strings.Contains(s.path, ".") {
			continue // which candidate wins is open
		}
		f.Steps[s.path] = blots.ReplaceAllString(normal.Replace(fmt.Sprintf("%s %q %s", s.Status, deref(s.Text), s.Output)), "***")
		res, err := steps.DecodeResult(s.result)
		if err != nil {
			t.Fatal(err)
		}
		if f.Artifacts[s.path], err = res.Artifacts.Load(v); err != nil {
			t.Fatal(err)
		}
	}
	f.Branches = normal.Replace(m.git(t, "branch", "--format=%(refname:short)"))
	f.Changes = m.git(t, "status", "--porcelain")
	return f
}

// blots stand for secrets: as long as these where a file was masked before it was adopted.
var blots = regexp.MustCompile(`\*{3,}`)

var taskTag = regexp.MustCompile(`(?:Task|Race) ([\w.-]+):`)

// tasks is how many turns were completed for each task that agents were given. A prompt
// without one goes on with what the session was told before.
func (r crashRun) tasks(t *testing.T) map[string]int {
	t.Helper()
	told, done := map[string]string{}, map[string]int{}
	for _, turn := range r.turns(t) {
		if m := taskTag.FindStringSubmatch(turn.Prompt); m != nil {
			told[turn.Session] = m[1]
		}
		if turn.Done {
			done[told[turn.Session]]++
		}
	}
	return done
}

// compare holds what the run has come to against what it would have come to undisturbed.
// Effects may have happened again where a step was under way, and a turn that the kill hit
// between its last word and its note is not in the notes of its agent.
func (m *model) compare(t *testing.T) {
	t.Helper()
	got, want := m.fate(t), *m.want
	for key := range want.Effects {
		if got.Effects[key] == 0 && (m.strays == 0 || !strings.HasPrefix(key, "tell-")) { // the script that tells may have been killed
			t.Errorf("%s never happened", key)
		}
	}
	for task, n := range got.Turns {
		if most := m.most(task, want.Turns[task]); n > most {
			t.Errorf("task %q was completed %d times, want %d at most", task, n, most)
		}
	}
	got.Effects, want.Effects, got.Turns, want.Turns = nil, nil, nil, nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the run did not come to what an undisturbed one does (-want +got):\n%s", diff)
	}
	m.checks += 3
}

// most is how many turns may be completed for a task that takes so many undisturbed. It is
// open for the candidates of a race, and for a conflict (without a task) that flow died over
// before its end was stored. An agent that was asking when flow died is answered by the end
// of its standard input, and may get to the end of that turn before it is ended.
func (m *model) most(task string, usual int) int {
	switch {
	case task == "", strings.HasPrefix(task, "race"):
		return math.MaxInt
	case strings.HasPrefix(task, "permission"):
		return usual + m.strays + m.kills
	}
	return usual + m.strays
}

// quiet demands that going on with a run that has succeeded changes nothing.
func (m *model) quiet(t *testing.T) {
	t.Helper()
	m.finish(t, "show", m.id)
	if !m.listed(t) { // flow died between the journal and the index
		m.unchanging(t, "index.jsonl")
		if !m.listed(t) {
			t.Error("a resume of a run that has succeeded does not tell the index")
		}
	}
	m.unchanging(t)
	for name := range m.files(t) {
		if base := filepath.Base(name); strings.Contains(name, "/scratch/") || strings.HasPrefix(name, "tmp") || strings.Contains(base, "tmp-") || strings.HasPrefix(base, ".") {
			t.Errorf("a temporary file is left: %s", name)
		}
	}
	m.nothingLeft(t)
	m.secretive(t)
	m.checks += 4
}

// unchanging goes on with a run that has succeeded: it may change these files only.
func (m *model) unchanging(t *testing.T, but ...string) {
	t.Helper()
	before := m.files(t)
	m.finish(t, "resume", m.id)
	after := m.files(t)
	for _, name := range but {
		delete(before, name)
		delete(after, name)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("a resume of a run that has succeeded changed its files:\n%s", diff)
	}
}

// listed says whether the index knows that the run has succeeded.
func (m *model) listed(t *testing.T) bool {
	t.Helper()
	index, err := os.ReadFile(filepath.Join(m.state(), "index.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	status := ""
	for line := range bytes.Lines(index) {
		var e struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		}
		if json.Unmarshal(line, &e) == nil && e.ID == m.id {
			status = e.Status
		}
	}
	return status == "succeeded"
}

// secretive demands that no secret is in any file of the state directory, whatever was killed
// before it was masked.
func (m *model) secretive(t *testing.T) {
	t.Helper()
	sought := []string{plotToken, plotMade, base64.StdEncoding.EncodeToString([]byte(plotToken))}
	err := filepath.WalkDir(m.state(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, secret := range sought {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("%s holds the secret %s", path, secret)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// files are the contents of all files of flow's own in the state directory.
func (m *model) files(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	top := m.state()
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(top, path)
		foreign := []string{"simulated", "worktrees", "agents"} // of any run
		if d.IsDir() && slices.Contains(foreign, d.Name()) && strings.Count(rel, "/") == 2 {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() || d.Name() == "lock" { // its text may be that of a process that was killed
			return nil
		}
		data, err := os.ReadFile(path)
		all[rel] = fmt.Sprintf("%d bytes, %x", len(data), sha256.Sum256(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
