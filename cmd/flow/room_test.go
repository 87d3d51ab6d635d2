package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestEnoughRoom(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string // a part of the message; "": there is room
	}{
		"as many as the default needs": {enoughFiles(4, 64), ""},
		"one too few":                  {enoughFiles(4, 63), "`concurrency: 3`"},
		"not even for one":             {enoughFiles(1, 45), "ulimit -n 1024"},
		"very many at once":            {enoughFiles(500, 1024), "ulimit -n 3040"},
		"just enough threads":          {enoughTasks(2, 50), ""},
		"too few":                      {enoughTasks(3, 50), "ulimit -u 4096"},
	}
	for name, tt := range tests {
		if tt.err == nil != (tt.want == "") || tt.err != nil && !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%s: %v", name, tt.err)
		}
	}
	if err := enoughFiles(1, 45); strings.Contains(err.Error(), "concurrency") {
		t.Errorf("fewer at once would not help: %v", err)
	}
}

// Threads count, and so do the processes of others of the same user.
func TestTasksOf(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	before := tasksOf(os.Getuid())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	if before < 2 || tasksOf(os.Getuid()) == 0 || tasksOf(1<<30) != 0 {
		t.Errorf("%d tasks, and %d of nobody", before, tasksOf(1<<30))
	}
}
