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
		Reach("here")
		if err := Fail("write"); err != nil {
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
		{points: "elsewhere:1,here:4", out: "done\n"},
		{points: "here:1", signal: syscall.SIGKILL, code: -1},
		{points: "write:2=ENOSPC", out: "no space left on device\ndone\n"},
		{points: "write:2+=EIO", out: "input/output error\ninput/output error\ndone\n"},
		{points: "write:2=EIO,here:3", out: "input/output error\n", signal: syscall.SIGKILL, code: -1},
		{points: "here:2=panic", code: 2},
		{points: "here", code: 2},
		{points: "here:0", code: 2},
		{points: "here:1=later", code: 2},
		{points: ":1", code: 2},
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
	if got, want := strings.Join(reached, ", "), "here 1, write 1, here 2, write 2, here 3, write 3"; got != want {
		t.Errorf("reached %s, want %s", got, want)
	}
}

func BenchmarkReach(b *testing.B) {
	for b.Loop() {
		Reach("here")
	}
}
