package main

import (
	"os/exec"
	"strings"
	"testing"

	"flow/cmd/flow/internal/scriptmodel"
)

// loopTurn edits as asked and approves the third edit.
func loopTurn(r scriptmodel.Request) scriptmodel.Turn {
	task, _ := current(r)
	round, review := strings.CutPrefix(task, "review")
	if !review {
		return roundsTurn(r)
	}
	turn := call("StructuredOutput", map[string]any{"approved": round == "3", "comments": "more than " + round})
	turn.Label = task
	return turn
}

// TestRealLoop lets an editor of each kind go on in one session for three rounds. It is
// told what the reviewer wanted, and every round holds the rounds before it, once.
func TestRealLoop(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	for _, agent := range []string{"claude", "codex", "gemini"} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, path, binary, scriptmodel.New(loopTurn, nil))
			r := l.flow(t, 0, "run", l.pipeline(t, "loop.yaml", "EDITOR", agent), "--run-id", l.run, "-o", "json").report(t)
			if r.Outputs["rounds"] != 3.0 {
				t.Errorf("outputs: %v", r.Outputs)
			}
			rounds := []string{"edit1", "edit2", "edit3"}
			told := 0
			for _, x := range l.model.Exchanges() {
				task, items := current(x.Request)
				round := strings.TrimPrefix(task, "edit")
				if x.Request.Side || round == task || items[len(items)-1].Kind != scriptmodel.Result {
					continue
				}
				told++
				checkHistory(t, rounds[:round[0]-'0'], x.Request)
				if wanted := "The reviewer wants: more than " + string(round[0]-1); round != "1" && !x.Request.Contains(wanted) {
					t.Errorf("%s was not told %q", task, wanted)
				}
			}
			if told != 3 {
				t.Errorf("%d rounds", told)
			}
			checkNothingLeft(t, l)
		})
	}
}

// conflictTurn writes a line of its own into greet.txt, and both where it finds a conflict.
func conflictTurn(r scriptmodel.Request) scriptmodel.Turn {
	task, items := current(r)
	last := items[len(items)-1]
	write := func(text string) scriptmodel.Turn {
		return call("Write", map[string]any{"file_path": "greet.txt", "content": text})
	}
	switch {
	case last.Kind != scriptmodel.Result:
		return call("Read", map[string]any{"file_path": "greet.txt"})
	case strings.Contains(last.Text, "<<<<<<<"):
		return write("Hello from the left and the right\n")
	case strings.Contains(last.Text, wrongLine):
		return write("Hello from the " + task + "\n")
	}
	return final(task, "Written.")
}

// TestRealConflict brings two worktrees together that changed the same line: an agent
// resolves the conflict, and the workspace has both.
func TestRealConflict(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	l := newLab(t, path, binary, scriptmodel.New(conflictTurn, nil))
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"},
		{"add", "."},
		{"-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "-m", "start"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = l.work, l.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	r := l.flow(t, 0, "run", l.pipeline(t, "conflict.yaml"), "--run-id", l.run, "-o", "json").report(t)
	if got := l.read(t, "work/greet.txt"); got != "Hello from the left and the right\n" {
		t.Errorf("greet.txt reads %q", got)
	}
	if list, ok := r.Outputs["conflicts"].([]any); !ok || len(list) != 1 || list[0] != "greet.txt" {
		t.Errorf("outputs: %v", r.Outputs)
	}
	checkNothingLeft(t, l)
}
