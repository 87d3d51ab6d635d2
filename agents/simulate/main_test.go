package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asAgent makes the test binary a simulated agent, as flow's own binary is one.
const asAgent = "FLOW_TEST_AGENT"

func TestMain(m *testing.M) {
	if name := os.Getenv(asAgent); name != "" {
		os.Exit(Main(name, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
	}
	os.Exit(m.Run())
}

// vendors are the agents whose one-way protocols have flags in common.
func vendors() []string { return []string{Claude, Codex, Gemini} }

// A lab is a home for sessions and a work tree, where agents are run.
type lab struct {
	t         *testing.T
	home, dir string
	env       map[string]string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{t: t, home: t.TempDir(), dir: t.TempDir()}
	t.Chdir(l.dir)
	l.env = map[string]string{EnvHome: l.home, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
	return l
}

// with returns the lab with another environment variable.
func (l *lab) with(name, value string) *lab {
	out := *l
	out.env = maps.Clone(l.env)
	out.env[name] = value
	return &out
}

func (l *lab) script(s string) *lab { return l.with(EnvScript, s) }

// An outcome is what a process left behind.
type outcome struct {
	stdout, stderr string
	status         int
}

// run calls Main in this process.
func (l *lab) run(name, stdin string, args ...string) outcome {
	l.t.Helper()
	var stdout, stderr bytes.Buffer
	status := Main(name, args, strings.NewReader(stdin), &stdout, &stderr, func(k string) string { return l.env[k] })
	return outcome{stdout.String(), stderr.String(), status}
}

// command is the agent as a process.
func (l *lab) command(name, stdin string, args ...string) *exec.Cmd {
	l.t.Helper()
	self, err := os.Executable()
	if err != nil {
		l.t.Fatal(err)
	}
	cmd := exec.CommandContext(l.t.Context(), self, args...)
	cmd.Dir, cmd.Stdin = l.dir, strings.NewReader(stdin)
	// The race detector sleeps at exit unless it is told not to.
	cmd.Env = append(os.Environ(), asAgent+"="+name, "GORACE=atexit_sleep_ms=0")
	for k, v := range l.env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	return cmd
}

// lines are the JSON lines of the output.
func (o outcome) lines(t *testing.T) []map[string]any {
	t.Helper()
	var out []map[string]any
	for line := range strings.Lines(o.stdout) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("stdout has a line that is no JSON object: %s", line)
		}
		out = append(out, v)
	}
	return out
}

// last is the last line.
func (o outcome) last(t *testing.T) map[string]any {
	t.Helper()
	lines := o.lines(t)
	if len(lines) == 0 {
		t.Fatalf("nothing on stdout; status %d, stderr: %s", o.status, o.stderr)
	}
	return lines[len(lines)-1]
}

// get follows keys and list indexes, as in "message.content.0.text".
func get(t *testing.T, v any, path string) any {
	t.Helper()
	for key := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			var i int
			if _, err := fmt.Sscan(key, &i); err != nil || i >= len(x) {
				t.Fatalf("no item %q in %v", key, x)
			}
			v = x[i]
		default:
			t.Fatalf("no key %q in %v", key, v)
		}
	}
	return v
}

// argv are the command lines that flow's adapters give, without options of a test.
func argv(name string, more ...string) []string {
	switch name {
	case Claude:
		return append([]string{"-p", "--output-format", "stream-json", "--verbose"}, more...)
	case Codex:
		return append(append([]string{"exec", "--json", "--skip-git-repo-check"}, more...), "-")
	default:
		return append([]string{"-o", "stream-json", "-m", "gemini-2.5-flash"}, more...)
	}
}

// writing are the options that let an agent edit files and run commands.
func writing(name string) []string {
	switch name {
	case Claude:
		return []string{"--permission-mode", "acceptEdits", "--allowedTools", "Bash"}
	case Codex:
		return []string{"-s", "workspace-write"}
	default:
		return []string{"--approval-mode", "yolo"}
	}
}

func write(t *testing.T, file, data string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
