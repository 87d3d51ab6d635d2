package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"flow/agents"
	"flow/cmd/flow/internal/scriptmodel"
)

// realCLIs returns the directories of the real agent CLIs, those of further ones among
// them, and of the node that runs two of them, as a PATH.
func realCLIs(t *testing.T, further ...string) string {
	t.Helper()
	prefix := os.Getenv("FLOW_REAL_CLIS")
	if prefix == "" {
		t.Skip("FLOW_REAL_CLIS does not name an npm prefix with the real agent CLIs; .ci/run installs them")
	}
	bin := filepath.Join(prefix, "node_modules", ".bin")
	for _, name := range append([]string{"claude", "codex", "gemini"}, further...) {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join([]string{bin, filepath.Dir(node), "/usr/bin", "/bin"}, string(os.PathListSeparator))
}

// buildFlow builds flow as it is shipped: without the race detector.
func buildFlow(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "flow")
	if out, err := exec.Command("go", "build", "-race=false", "-o", file, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// A lab is one machine of its own for flow and the real CLIs: home directories,
// workspace, state and network, with a scripted model at the other end.
type lab struct {
	dir, work string
	run       string // the id of the lab's only run, which no other run of the machine has
	binary    string
	env       []string
	net       *netns
	model     *scriptmodel.Server
	url       string
}

// newLab builds a lab in a private directory: Gemini CLI reads its system settings
// only where no one else could have written them, so not below /tmp.
func newLab(t *testing.T, path, binary string, model *scriptmodel.Server) *lab {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(cache, "flow-real-") //nolint:usetesting // t.TempDir is below /tmp
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("left for a look: %s", dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	l := &lab{dir: dir, run: filepath.Base(dir), work: filepath.Join(dir, "work"), binary: binary, net: newNetns(t), model: model}
	for _, name := range []string{"home", "tmp", "codex", "claude", "work"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l.write(t, "work/greet.txt", wrongLine+"\n")
	l.serve(t)
	l.env = []string{
		"PATH=" + path, "HOME=" + filepath.Join(dir, "home"), "TMPDIR=" + filepath.Join(dir, "tmp"),
		"FLOW_STATE_DIR=" + filepath.Join(dir, "state"), "LANG=C.UTF-8",
		"ANTHROPIC_BASE_URL=" + l.url, "ANTHROPIC_API_KEY=dummy", "CLAUDE_CONFIG_DIR=" + filepath.Join(dir, "claude"),
		"CODEX_HOME=" + filepath.Join(dir, "codex"), "CODEX_API_KEY=dummy",
		"GOOGLE_GEMINI_BASE_URL=" + l.url, "GEMINI_API_KEY=dummy", "GEMINI_CLI_HOME=" + filepath.Join(dir, "home"),
	}
	return l
}

// serve starts the model inside the lab's network.
func (l *lab) serve(t *testing.T) {
	t.Helper()
	var err error
	server := httptest.NewUnstartedServer(l.model)
	l.net.do(func() {
		var listener net.Listener
		if listener, err = net.Listen("tcp4", "127.0.0.1:0"); err == nil {
			server.Listener.Close()
			server.Listener = listener
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	l.url = server.URL
}

func (l *lab) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) mkdir(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(l.dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// pipeline puts a file of testdata/realcli into the lab, the model's address and
// further replacements filled in, and returns its path.
func (l *lab) pipeline(t *testing.T, name string, oldnew ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "realcli", name))
	if err != nil {
		t.Fatal(err)
	}
	l.write(t, name, strings.NewReplacer(append(oldnew, "MODEL_URL", l.url)...).Replace(string(text)))
	return filepath.Join(l.dir, name)
}

// A command is one process of flow.
type command struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

// start starts flow in the lab's workspace and network.
func (l *lab) start(t *testing.T, args ...string) *command {
	t.Helper()
	c := &command{Cmd: exec.Command(l.binary, args...)}
	c.Dir, c.Env, c.Stdout, c.Stderr = l.work, l.env, &c.stdout, &c.stderr
	var err error
	l.net.do(func() { err = c.Start() })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// end waits for flow and returns its exit status.
func (c *command) end(t *testing.T) int {
	t.Helper()
	var exit *exec.ExitError
	if err := c.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode()
}

// flow runs flow to its end and demands the exit status.
func (l *lab) flow(t *testing.T, want int, args ...string) *command {
	t.Helper()
	c := l.start(t, args...)
	if got := c.end(t); got != want {
		t.Fatalf("flow %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), got, want, c.stderr.String(), c.stdout.String())
	}
	return c
}

// ran is what `-o json` says of a run.
type ran struct {
	Status  string             `json:"status"`
	Outputs map[string]any     `json:"outputs"`
	Steps   map[string]ranStep `json:"steps"`
}

// ranStep is one step of a run.
type ranStep struct {
	Status   string        `json:"status"`
	Agent    string        `json:"agent"`
	Session  string        `json:"session"`
	Text     string        `json:"text"`
	Error    string        `json:"error"`
	Cause    string        `json:"cause"`
	Hint     string        `json:"hint"`
	Attempts int           `json:"attempts"`
	Usage    *agents.Usage `json:"usage"`
	CostUSD  *float64      `json:"costUsd"`
}

func (c *command) report(t *testing.T) ran {
	t.Helper()
	var r ran
	if err := json.Unmarshal(c.stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v\n%s%s", err, c.stderr.String(), c.stdout.String())
	}
	return r
}

// happened is one event of `flow events -o json`.
type happened struct {
	Type       string `json:"type"`
	Step       string `json:"step"`
	SessionID  string `json:"sessionId"`
	NativeName string `json:"nativeName"` // of a tool
	FilePath   string `json:"filePath"`
	Role       string `json:"role"` // of a text
	Seq        int64  `json:"seq"`
}

// runDir is where flow records the lab's run.
func (l *lab) runDir() string { return filepath.Join(l.dir, "state", "runs", l.run) }

func (l *lab) events(t *testing.T) []happened {
	t.Helper()
	var all []happened
	for line := range strings.Lines(l.flow(t, 0, "events", l.run, "-o", "json").stdout.String()) {
		var e happened
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, e)
	}
	return all
}
