package simulate

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// started runs an agent until it has printed a line that contains mark, and returns
// the process and what it goes on to print.
func started(t *testing.T, l *lab, agent, mark string, args ...string) (*exec.Cmd, *bytes.Buffer, func() syscall.WaitStatus) {
	t.Helper()
	cmd := l.command(agent, "p", args...)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	in := bufio.NewReader(io.TeeReader(pipe, &out))
	for {
		line, err := in.ReadString('\n')
		if strings.Contains(line, mark) {
			break
		}
		if err != nil {
			t.Fatalf("no line with %s: %v\n%s", mark, err, &out)
		}
	}
	return cmd, &out, func() syscall.WaitStatus {
		if _, err := io.Copy(io.Discard, in); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // the status says it
		return cmd.ProcessState.Sys().(syscall.WaitStatus)
	}
}

func TestSignalsDuringAStall(t *testing.T) {
	marks := map[string]string{Claude: `"subtype":"init"`, Codex: "turn.started", Gemini: `"role":"user"`}
	tests := []struct {
		agent  string
		signal syscall.Signal
		exit   int            // the exit status
		killed syscall.Signal // or the signal it died of
	}{
		{Claude, syscall.SIGINT, 0, 0},
		{Claude, syscall.SIGTERM, 143, 0},
		{Claude, syscall.SIGHUP, 129, 0},
		{Codex, syscall.SIGINT, 1, 0},
		{Codex, syscall.SIGTERM, 0, syscall.SIGTERM},
		{Codex, syscall.SIGHUP, 0, syscall.SIGHUP},
		{Gemini, syscall.SIGINT, 0, 0},
		{Gemini, syscall.SIGTERM, 0, 0},
		{Gemini, syscall.SIGHUP, 0, 0},
		{Claude, syscall.SIGKILL, 0, syscall.SIGKILL},
	}
	// Children would ignore what this process was started to ignore (nohup).
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGHUP, syscall.SIGINT)
	defer signal.Stop(heard)
	for _, tt := range tests {
		t.Run(tt.agent+" "+tt.signal.String(), func(t *testing.T) {
			l := newLab(t).script("stall=1h")
			cmd, out, wait := started(t, l, tt.agent, marks[tt.agent], argv(tt.agent)...)
			if err := cmd.Process.Signal(tt.signal); err != nil {
				t.Fatal(err)
			}
			status := wait()
			if tt.killed != 0 && (!status.Signaled() || status.Signal() != tt.killed) || tt.killed == 0 && status.ExitStatus() != tt.exit {
				t.Errorf("exit status %d, signal %v\n%s", status.ExitStatus(), status.Signal(), out)
			}
			result := strings.Contains(out.String(), `"type":"result"`)
			if want := tt.agent == Claude && tt.signal == syscall.SIGINT; result != want {
				t.Errorf("a result is %v, want %v", result, want)
			}
			if result && !strings.Contains(out.String(), "aborted_streaming") {
				t.Errorf("no aborted_streaming in %s", out)
			}
		})
	}
}

// An interrupted tool is killed by Claude and Codex, and goes on under Gemini.
func TestSignalsDuringACommand(t *testing.T) {
	marks := map[string]string{Claude: `"name":"Bash"`, Codex: "item.started", Gemini: "tool_use"}
	for _, agent := range vendors() {
		t.Run(agent, func(t *testing.T) {
			l := newLab(t)
			// The command waits on a FIFO, so its end can be told without waiting.
			fifo := filepath.Join(l.dir, "fifo")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			l = l.script("run=echo $$ > pid && read line < fifo && echo $line > done")
			cmd, out, wait := started(t, l, agent, marks[agent], argv(agent, writing(agent)...)...)
			// Opening the other end succeeds once the command has come to its own.
			end, err := os.OpenFile(fifo, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer end.Close()
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			wait()
			_, err = end.WriteString("hello\n")
			if alive := err == nil; alive != (agent == Gemini) {
				t.Errorf("the command is alive: %v", alive)
			}
			if agent == Claude && !strings.Contains(out.String(), "aborted_tools") {
				t.Errorf("no aborted_tools in %s", out)
			}
		})
	}
}

func TestCrashIsADeathBySignal(t *testing.T) {
	for _, agent := range vendors() {
		l := newLab(t).script("crash@1")
		cmd := l.command(agent, "p", argv(agent)...)
		out, err := cmd.Output()
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !status.Signaled() || status.Signal() != syscall.SIGSEGV {
			t.Errorf("%s: %v", agent, err)
		}
		if !bytes.Contains(out, []byte("I am working on it.")) {
			t.Errorf("%s dies before the middle of the stream: %s", agent, out)
		}
	}
}

func TestOrphanOutlivesTheAgent(t *testing.T) {
	l := newLab(t).script("orphan=1h")
	cmd := l.command(Claude, "p", argv(Claude)...)
	// The orphan's own environment tells it from others.
	const mark = "FLOW_TEST_ORPHAN_OF"
	cmd.Env = append(cmd.Env, mark+"="+l.home)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pid := findProcess(t, mark+"="+l.home)
	if pid == 0 {
		t.Fatal("nothing is left behind")
	}
	if sid, err := sessionID(pid); err != nil || sid != pid {
		t.Errorf("the orphan has no session of its own: %d, %v", sid, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

// findProcess returns the process whose environment has the entry, or 0.
func findProcess(t *testing.T, entry string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && bytes.Contains(data, []byte(entry+"\x00")) {
			pid, err := strconv.Atoi(strings.Split(file, "/")[2])
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	return 0
}

// sessionID reads field 6 of /proc/PID/stat.
func sessionID(pid int) (int, error) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return strconv.Atoi(strings.Fields(rest)[3])
}

// Whenever it is killed, a session can be read and gone on with.
func TestKillNeverDamagesASession(t *testing.T) {
	for _, agent := range vendors() {
		l := newLab(t).script("delay=1ms")
		for i := range 5 {
			cmd := l.command(agent, "p", argv(agent)...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if i%2 == 0 { // some are killed somewhere, some end
				_ = cmd.Process.Kill()
			}
			_ = cmd.Wait()
		}
		files, err := filepath.Glob(filepath.Join(l.home, agent, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no sessions (%v)", agent, err)
		}
		for _, file := range files {
			if !json.Valid([]byte(content(t, file))) {
				t.Errorf("%s is damaged", file)
			}
		}
	}
}

func TestCodexWaitsForTheNetworkUnlessBounded(t *testing.T) {
	l := newLab(t).script("fail=network")
	cmd, out, wait := started(t, l, Codex, "waiting for network", argv(Codex)...)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if status := wait(); status.ExitStatus() != 1 || strings.Contains(out.String(), "turn.failed") {
		t.Errorf("status %d\n%s", status.ExitStatus(), out)
	}
}

func TestClosedOutput(t *testing.T) {
	want := map[string]int{Claude: 0, Codex: 101, Gemini: 0}
	for _, agent := range vendors() {
		l := newLab(t)
		cmd := l.command(agent, "p", argv(agent)...)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout = w
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Run() // the status says it
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != want[agent] {
			t.Errorf("%s: %v, want %d", agent, cmd.ProcessState, want[agent])
		}
	}
}
