package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flow/cmd/flow/internal/scriptmodel"
)

// stored is a line of `flow sessions -o json`.
type stored struct {
	ID     string `json:"id"`
	Agent  string `json:"agentType"`
	Parent string `json:"parentId"`
	Status string `json:"status"`
	File   string `json:"file"`
	Steps  []struct {
		Step string `json:"step"`
	} `json:"steps"`
	Messages int `json:"messageCount"`
	Tokens   int `json:"tokensUsed"`
}

// TestRealSessions reads the sessions of a run back from where the CLIs keep them: with the
// run they are its sessions, without it the CLIs' own, and both times they hold what was
// said and done.
func TestRealSessions(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	for _, agent := range []string{"claude", "codex", "gemini"} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, path, binary, scriptmodel.New(roundsTurn, nil))
			r := l.flow(t, 0, "run", l.pipeline(t, "rounds.yaml", "AGENT", agent), "-o", "json").report(t)
			main, fork := r.Steps["one"].Session, r.Steps["left"].Session

			listed := l.sessions(t)
			if len(listed) != 3 {
				t.Errorf("%d sessions are listed, want 3: %+v", len(listed), listed)
			}
			one := listed[main]
			if one.Agent != agent || one.Status != "completed" || one.Messages != 6 || one.Tokens != 660 || len(one.Steps) != 3 {
				t.Errorf("the session of three turns is listed as %+v", one)
			}
			checkTold(t, l, main, "one", "two", "three")
			if agent == "gemini" {
				return // its sessions are the run's own, and gone with it
			}
			if err := os.RemoveAll(filepath.Join(l.dir, "state")); err != nil {
				t.Fatal(err)
			}
			listed = l.sessions(t)
			if s := listed[main]; s.Messages != 6 || s.File == "" || s.Tokens != 660 || s.Steps != nil {
				t.Errorf("without the run it is listed as %+v", s)
			}
			if s := listed[fork]; s.Parent != main || s.Status != "completed" {
				t.Errorf("without the run the fork is listed as %+v", s)
			}
			checkTold(t, l, main, "one", "two", "three")
		})
	}
}

// sessions is what flow lists, by id.
func (l *lab) sessions(t *testing.T) map[string]stored {
	t.Helper()
	all := map[string]stored{}
	for line := range strings.Lines(l.flow(t, 0, "sessions", "--native", "-n", "0", "-o", "json").stdout.String()) {
		var s stored
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all[s.ID] = s
	}
	return all
}

// checkTold demands that the session shows each task with its tool and its answer, in
// order, once.
func checkTold(t *testing.T, l *lab, id string, tasks ...string) {
	t.Helper()
	var got, want []string
	shown := l.flow(t, 0, "sessions", "show", id).stdout.String()
	if strings.Contains(shown, "/flow\n") {
		t.Errorf("a prompt shows how it was sent:\n%s", shown)
	}
	for line := range strings.Lines(shown) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "Task: ") || strings.HasPrefix(line, "I did ") || strings.Contains(line, "greet.txt]") {
			got = append(got, line)
		}
	}
	tool := ""
	if len(got) > 1 {
		tool = got[1]
	}
	for _, task := range tasks {
		want = append(want, "Task: "+task, tool, "I did "+task+".")
	}
	if !slices.Equal(got, want) || !strings.HasPrefix(tool, "[") {
		t.Errorf("the session shows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
