package failpoint

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMain passes some points when the test started this process for that.
func TestMain(m *testing.M) {
	if os.Getenv("FAILPOINT_PROGRAM") == "" {
		os.Exit(m.Run())
	}
	for range 3 {
		Reach("run-ready")
		if err := Fail("disk-write"); err != nil {
			_, _ = os.Stdout.WriteString(err.Error() + "\n")
		}
	}
	_, _ = os.Stdout.WriteString("done\n")
}

func TestPoints(t *testing.T) {
	for _, tt := range []struct {
		points, out string
		signal      syscall.Signal
		code        int
	}{
		{points: "", out: "done\n"},
		{points: "run-concluded:1,run-ready:4", out: "done\n"},
		{points: "run-ready:1", signal: syscall.SIGKILL, code: -1},
		{points: "disk-write:2=ENOSPC", out: "no space left on device\ndone\n"},
		{points: "disk-write:2+=EIO", out: "input/output error\ninput/output error\ndone\n"},
		{points: "disk-write:2=EIO,run-ready:3", out: "input/output error\n", signal: syscall.SIGKILL, code: -1},
		{points: "run-ready:2=panic", code: 2},
		{points: "run-ready", code: 2},
		{points: "run-ready:0", code: 2},
		{points: "run-ready:1=later", code: 2},
		{points: ":1", code: 2},
		{points: "run-redy:1", code: 2},
		{points: "run-ready:1=panic,disk-wr:1=EIO", code: 2},
	} {
		t.Run(tt.points, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "log")
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "FAILPOINT_PROGRAM=1", Variable+"="+tt.points, LogVariable+"="+log)
			out, err := cmd.Output()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !ok || cmd.ProcessState.ExitCode() != tt.code || tt.signal != 0 && status.Signal() != tt.signal {
				t.Errorf("it ended with %v, want the code %d, the signal %v", cmd.ProcessState, tt.code, tt.signal)
			}
			if string(out) != tt.out {
				t.Errorf("it printed %q, want %q", out, tt.out)
			}
			if (Check(tt.points) != nil) != (tt.code == 2 && !strings.HasSuffix(tt.points, "panic")) {
				t.Errorf("Check: %v", Check(tt.points))
			}
		})
	}
}

func TestLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FAILPOINT_PROGRAM=1", LogVariable+"="+log)
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var reached []string
	for line := range strings.Lines(string(data)) {
		_, point, _ := strings.Cut(strings.TrimSpace(line), " ")
		reached = append(reached, point)
	}
	if got, want := strings.Join(reached, ", "), "run-ready 1, disk-write 1, run-ready 2, disk-write 2, run-ready 3, disk-write 3"; got != want {
		t.Errorf("reached %s, want %s", got, want)
	}
}

func BenchmarkReach(b *testing.B) {
	for b.Loop() {
		Reach("run-ready")
	}
}
