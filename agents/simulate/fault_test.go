package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// firstAndLast are parts of the first line and of the last line of a turn.
func firstAndLast(agent string) (first, last string) {
	switch agent {
	case Claude:
		return `"subtype":"init"`, `"type":"result"`
	case Codex:
		return "thread.started", "turn.completed"
	default:
		return `"type":"init"`, `"type":"result"`
	}
}

// What a script does to the output is the same with every agent.
func TestFaultsOfTheOutput(t *testing.T) {
	tests := []struct {
		script string
		check  func(o outcome, lines []string, first, last string) bool
	}{
		{"bom", func(_ outcome, lines []string, first, _ string) bool {
			return strings.HasPrefix(lines[0], "\xEF\xBB\xBF{") && strings.Contains(lines[0], first)
		}},
		{"nul", func(o outcome, _ []string, _, _ string) bool { return strings.Contains(o.stdout, "no text: \x00") }},
		{"invalid-utf8", func(o outcome, _ []string, _, _ string) bool { return strings.Contains(o.stdout, "no text: \xC3(") }},
		{"flood=2M", func(_ outcome, lines []string, _, last string) bool {
			return strings.Count(strings.Join(lines, "\n"), strings.Repeat("y", 2<<20)) == 1 && strings.Contains(lines[len(lines)-1], last)
		}},
		{"events=3", func(o outcome, _ []string, _, _ string) bool {
			return strings.Contains(o.stdout, "message 1 of 3") && strings.Contains(o.stdout, "message 3 of 3")
		}},
		{"stderr=3M", func(o outcome, _ []string, _, last string) bool {
			return len(o.stderr) > 3<<20 && strings.HasSuffix(o.stderr, "the last line on standard error\n") && strings.Contains(o.stdout, last)
		}},
		{"no-init", func(o outcome, _ []string, first, last string) bool {
			return !strings.Contains(o.stdout, first) && strings.Contains(o.stdout, last)
		}},
		{"late-init", func(o outcome, _ []string, first, last string) bool {
			at := strings.Index(o.stdout, last)
			return at >= 0 && strings.Index(o.stdout, first) > at
		}},
		{"repeat-result", func(_ outcome, lines []string, _, last string) bool {
			n := len(lines)
			return lines[n-1] == lines[n-2] && strings.Contains(lines[n-1], last)
		}},
		{"cut", func(o outcome, lines []string, _, _ string) bool {
			return !strings.HasSuffix(o.stdout, "\n") && !json.Valid([]byte(lines[len(lines)-1]))
		}},
		{"cut;late-update", func(o outcome, lines []string, _, last string) bool {
			return !strings.HasSuffix(o.stdout, "\n") && strings.Contains(lines[len(lines)-2], last)
		}},
		{"status=7", func(o outcome, _ []string, _, last string) bool {
			return o.status == 7 && strings.Contains(o.stdout, last)
		}},
	}
	for _, agent := range vendors() {
		for _, tt := range tests {
			t.Run(agent+" "+tt.script, func(t *testing.T) {
				o := newLab(t).script(tt.script).run(agent, "p", argv(agent)...)
				first, last := firstAndLast(agent)
				if lines := strings.Split(strings.TrimSuffix(o.stdout, "\n"), "\n"); !tt.check(o, lines, first, last) {
					t.Errorf("status %d, stdout %.2000q, stderr %.500q", o.status, o.stdout, o.stderr)
				}
			})
		}
	}
}

// A failure ends with the status of the script, and faults hold in the turns they are for.
func TestFaultsOfSomeTurns(t *testing.T) {
	l := newLab(t).script("fail=server;status=0@1:key")
	for _, want := range []int{0, 1} {
		if o := l.run(Claude, "p", argv(Claude)...); o.status != want {
			t.Errorf("status %d, want %d", o.status, want)
		}
	}
}

func TestTwoWayAgentsHaveFaults(t *testing.T) {
	l := newLab(t).script("invalid-utf8;repeat-result;status=3")
	cmd := l.command(Claude, `{"type":"user","message":{"role":"user","content":"go"}}`+"\n", talking()...)
	out, err := cmd.Output()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 3 || strings.Count(string(out), `"type":"result"`) != 2 || !strings.Contains(string(out), "\xC3(") {
		t.Errorf("claude: %v, %s", err, out)
	}
	dir, err := json.Marshal(l.dir)
	if err != nil {
		t.Fatal(err)
	}
	c := &rpcClient{peer: l.talk("opencode", "acp"), version: "2.0"}
	c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":%s}}`, dir))
	id := get(t, c.next(), "result.sessionId")
	c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"go"}]}}`, id))
	ends := 0
	rest, status := c.rest()
	for _, v := range rest {
		if v["id"] == 2.0 {
			ends++
		}
	}
	if ends != 2 || status != 3 {
		t.Errorf("acp: %d ends, status %d: %v", ends, status, rest)
	}
}

func TestDyingByASignal(t *testing.T) {
	for script, want := range map[string]syscall.Signal{
		"crash": syscall.SIGSEGV, "crash=KILL": syscall.SIGKILL, "crash=sigabrt": syscall.SIGABRT, "crash=11": syscall.SIGSEGV,
	} {
		cmd := newLab(t).script(script).command(Codex, "p", argv(Codex)...)
		out, _ := cmd.Output() // the status says it
		if got := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal(); got != want || !strings.Contains(string(out), "I am working on it.") {
			t.Errorf("%s: %v, %s", script, cmd.ProcessState, out)
		}
	}
}

// Only SIGKILL ends a deaf agent before its time.
func TestDeafAgents(t *testing.T) {
	for _, agent := range vendors() {
		first, _ := firstAndLast(agent)
		l := newLab(t).script("deaf;stall=1h")
		cmd, _, wait := started(t, l, agent, first, argv(agent)...)
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL} {
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		if status := wait(); status.Signal() != syscall.SIGKILL {
			t.Errorf("%s: status %v", agent, status)
		}
	}
}

// A holder keeps standard output open and a daemon does not; both outlive the agent.
func TestProcessesLeftBehind(t *testing.T) {
	for _, kind := range []string{faultHolder, faultDaemon} {
		l := newLab(t).script(kind + "=97531s")
		cmd := l.command(Gemini, "p", argv(Gemini)...)
		out, err := os.Create(l.dir + "/out")
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		cmd.Stdout = out
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		pids := holding(t, l.home)
		if len(pids) != 1 {
			t.Fatalf("%s: processes %v are left", kind, pids)
		}
		target, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/1", pids[0]))
		if err != nil {
			t.Fatal(err)
		}
		session, err := unix.Getsid(pids[0])
		if err != nil {
			t.Fatal(err)
		}
		own, err := unix.Getsid(0)
		if err != nil {
			t.Fatal(err)
		}
		if (target == out.Name()) != (kind == faultHolder) || (session == own) != (kind == faultHolder) {
			t.Errorf("%s: its output is %s, its session %d, ours %d", kind, target, session, own)
		}
		if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// holding are the processes whose sessions are kept in home.
func holding(t *testing.T, home string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil || pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && strings.Contains(string(environ), EnvHome+"="+home) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "7": 7, "2K": 2048, "3M": 3 << 20, "1G": 1 << 30} {
		if got, err := parseSize(in); got != want || err != nil {
			t.Errorf("%s: %d, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "-1", "1T", "KM", "M", "1M2", "99999999999"} {
		if got, err := parseSize(in); err == nil {
			t.Errorf("%q is taken for %d", in, got)
		}
	}
}
