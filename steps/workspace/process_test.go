package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flow/agents/proc"
	"flow/steps/internal/inmemory"
)

func TestMain(m *testing.M) {
	proc.GuardianMain()
	inmemory.TempFiles()
	os.Exit(m.Run())
}

func TestProcesses(t *testing.T) {
	supervisor := proc.New(proc.Options{})
	defer supervisor.Close()
	scratch := filepath.Join(t.TempDir(), "scratch")
	p := &Processes{Launcher: supervisor, Label: "test", Scratch: scratch}
	l := newLab(t)
	file := filepath.Join(l.dir, "out")
	for name, c := range map[string]struct {
		cmd  Cmd
		want Out
		file string
	}{
		"stdin and stdout": {Cmd{Args: []string{"hash-object", "--stdin"}, Stdin: []byte("x\n")}, Out{Stdout: []byte("587be6b4c3f93f93c489c0111bba5596147a26cb\n")}, ""},
		"into a file":      {Cmd{Args: []string{"cat-file", "-t", "HEAD"}, Stdout: file}, Out{}, "commit\n"},
		"an exit status":   {Cmd{Args: []string{"rev-parse", "--verify", "nope"}}, Out{Code: 128, Stderr: "fatal: Needed a single revision\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.cmd.Dir, c.cmd.Env = l.repo, l.environ
			out, err := p.Run(t.Context(), c.cmd)
			l.check(err)
			if out.Code != c.want.Code || string(out.Stdout) != string(c.want.Stdout) || out.Stderr != c.want.Stderr || out.Err != nil {
				t.Errorf("got %+v", out)
			}
			if data, _ := os.ReadFile(c.cmd.Stdout); string(data) != c.file {
				t.Errorf("the file has %q", data)
			}
			if left := leftovers(scratch); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
	out, err := p.Run(t.Context(), Cmd{Dir: l.repo, Env: []string{"PATH=/nowhere"}, Args: []string{"version"}})
	if err != nil || out.Err == nil || !strings.Contains(out.Err.Error(), "git") {
		t.Errorf("no git: %+v, %v", out, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	if _, err := p.Run(ctx, Cmd{Dir: l.repo, Env: l.environ, Args: []string{"version"}}); !errors.Is(err, cause) {
		t.Errorf("cancelled: %v", err)
	}
}
