package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestNightlyInRounds is TestNightly with a reviewer who is content with the second round
// only, and an editor who changes files: those of the two items once apart from each other,
// and once in conflict, which an agent resolves. Each item stays in the native session that
// it began with, and what was merged is what its rounds have made.
func TestNightlyInRounds(t *testing.T) {
	t.Parallel()
	const unmark = `sed -i -E '/^(<{7}|[|]{7}|={7}|>{7})/d' README.md` // what resolves a conflict
	for kind, c := range map[string]struct {
		edit, files string
		conflicts   int // that an agent resolves
	}{
		"apart":    {"edit=fixes/{session}.txt:by {session} in turn {turn}", "fixes/*.txt", 0},
		"conflict": {"edit=README.md:by {session} in turn {turn};run=" + unmark, "README.md", 1},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			nightly := absolute(t, filepath.Join("..", "..", "examples", "pipelines", "nightly-maintenance.yaml"))
			var want map[string]any
			usual := time.Duration(0)
			for _, id := range []string{"calm", "killed"} {
				r := seeded(t, kind+id)
				r.env = []string{"FLOW_SIMULATE_CLAUDE=no@1:review", "FLOW_SIMULATE_CODEX=" + c.edit, "FLOW_SIMULATE_LOG=" + r.dir + ".log"}
				kills := 0
				args, began := []string{"run", nightly, "--simulate", "--run-id", r.id, "--yes"}, time.Now()
				if usual > 0 {
					kills = 12
					args = r.killOften(t, kills, usual/2, args, "resume", r.id, "--yes")
				}
				r.finish(t, args...)
				usual = time.Since(began)
				got := r.nightly(t)
				if want == nil {
					want = got
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("the result differs from that of an undisturbed run (-want +got):\n%s", diff)
				}
				r.checkRounds(t, c.conflicts, kills, r.merged(t, c.files))
				r.nothingLeft(t)
			}
			if want["fix.0.2.review"] != "succeeded" || want["fix.1.2.review"] != "succeeded" || want["fix.0.3"] != nil {
				t.Errorf("the rounds were not two: %v", want)
			}
		})
	}
}

// merged is what files of the repository hold, by pattern.
func (r crashRun) merged(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return string(all)
}

// A simulatedTurn is what a simulated agent notes of a turn: when it begins, and when it is
// done.
type simulatedTurn struct {
	Agent   string `json:"agent"`
	Session string `json:"session"`
	Turn    int    `json:"turn"`
	Prompt  string `json:"prompt"`
	Done    bool   `json:"done"`
}

// turns reads what the simulated agents noted beside the directory of the run.
func (r crashRun) turns(t *testing.T) (turns []simulatedTurn) {
	t.Helper()
	log, err := os.ReadFile(r.dir + ".log")
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		var turn simulatedTurn
		if err := json.Unmarshal(line, &turn); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		turns = append(turns, turn)
	}
	return turns
}

// checkRounds looks at the editor's sessions: that the rounds of an item are turns of one of
// them that were completed once each, that all that they did was merged, and how many
// resolved conflicts, in a run that was killed so many times.
func (r crashRun) checkRounds(t *testing.T, resolutions, killed int, merged string) {
	t.Helper()
	items, rounds := map[string]string{}, map[string]int{} // by session: the item, completed turns
	for _, turn := range r.turns(t) {
		if turn.Agent != "codex" {
			continue
		}
		if first, _, found := strings.Cut(turn.Prompt, " in file "); found {
			if was := items[turn.Session]; was != "" && was != first {
				t.Errorf("session %s was told %q, and then %q", turn.Session, was, first)
			}
			items[turn.Session] = first
		}
		if turn.Done {
			rounds[turn.Session]++
		}
	}
	var counts, merges []int
	for session, n := range rounds {
		if items[session] == "" {
			merges = append(merges, n)
		} else {
			counts = append(counts, n)
		}
		if items[session] != "" && strings.Count(merged, "by "+session) < 2 {
			t.Errorf("%d rounds of session %s are not all in what was merged:\n%s", n, session, merged)
		}
	}
	if want := []int{2, 2}; !slices.Equal(counts, want) {
		t.Errorf("completed turns of the editor's sessions: %v, want %v", counts, want)
	}
	// A conflict that flow died over before its resolution was stored is handed over again.
	if len(merges) < resolutions || killed < len(merges)-resolutions || slices.ContainsFunc(merges, func(n int) bool { return n != 1 }) {
		t.Errorf("completed turns of sessions that resolved conflicts: %v, want %d and at most %d more", merges, resolutions, killed)
	}
	if r.stepSession(t, "fix.0.1.edit") != r.stepSession(t, "fix.0.2.edit") || r.stepSession(t, "fix.0.1.edit") == r.stepSession(t, "fix.1.1.edit") {
		t.Error("the rounds of an item are not in one session of its own")
	}
	if strings.Contains(merged, "<<<<<<<") {
		t.Errorf("what was merged has marks of conflicts:\n%s", merged)
	}
}

func (r crashRun) stepSession(t *testing.T, path string) string {
	t.Helper()
	var report struct {
		Steps map[string]struct{ Session string }
	}
	r.show(t, &report)
	return report.Steps[path].Session
}
