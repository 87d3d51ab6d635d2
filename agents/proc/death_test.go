package proc

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// noticing is a logger that says on a channel that something was logged.
func noticing(c chan<- struct{}) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, Output: writerFunc(func(p []byte) (int, error) {
		c <- struct{}{}
		return len(p), nil
	})})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// child starts this test binary as a child of the given name. What it prints can
// be read from the result.
func child(t *testing.T, args ...string) (*exec.Cmd, io.Reader) {
	t.Helper()
	cmd := exec.Command(executablePath(t), args...)
	cmd.Env, cmd.Stderr = os.Environ(), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, out
}

// awaitLock waits until nobody holds the lock of a directory any more.
func awaitLock(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	eventually(t, "the lock is free", func() bool { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil })
}

const stubborn = "trap '' INT TERM HUP; setsid sleep 1000 & sleep 1000 & echo; while :; do sleep 0.01; done"

func TestFlowIsKilled(t *testing.T) {
	dir, name := t.TempDir(), label(t, 0)
	daemon := fmt.Sprintf("%s child:daemon %s/plain inherited & %s child:daemon %s/hidden A=B & wait; echo; exec sleep 1000",
		executablePath(t), dir, executablePath(t), dir)
	flow, out := child(t, "child:flow", dir, name, daemon, stubborn, "trap 'exit 7' TERM; echo; while :; do sleep 0.01; done")
	if _, err := io.ReadFull(out, make([]byte, 6)); err != nil { // each was started and has printed a line
		t.Fatal(err)
	}
	daemons := []int{pidOf(t, dir+"/plain"), pidOf(t, dir+"/hidden")}
	flow.Process.Kill()
	awaitLock(t, dir)
	// The lock is free only after all this.
	if left := labelled(t, name); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, pid := range daemons {
		if alive(pid) {
			t.Errorf("daemon %d lives", pid)
		}
	}
	checkRecords(t, dir, map[string]string{
		name + ".0.0": "-1 TERM true", name + ".1.0": "-1 KILL true", name + ".2.0": "7  true",
	})
}

func checkRecords(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	records, err := ReadRecords(filepath.Join(dir, "records"))
	if err != nil || len(records) != len(want) {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for _, r := range records {
		if got := fmt.Sprint(r.Code, " ", r.Signal, " ", r.EndedByGuardian); got != want[r.Label] || r.PID == 0 || r.Time.IsZero() {
			t.Errorf("%+v, want %q", r, want[r.Label])
		}
	}
}

func TestEndsBeforeAreRecordedToo(t *testing.T) {
	dir, name := t.TempDir(), label(t, 0)
	flow, out := child(t, "child:flow", dir, name, `if [ -e second ]; then echo; exec sleep 1000; fi; >second; exit 9`)
	if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	flow.Process.Kill()
	awaitLock(t, dir)
	checkRecords(t, dir, map[string]string{name + ".0.0": "9  false", name + ".0.1": "-1 TERM true"})
}

// TestFlowIsKilledAnywhere kills flow after a random number of events, while
// processes start and end.
func TestFlowIsKilledAnywhere(t *testing.T) {
	var group errgroup.Group
	group.SetLimit(8)
	for seed := range 60 {
		group.Go(func() error {
			t.Run(fmt.Sprint(seed), func(t *testing.T) { killAnywhere(t, seed) })
			return nil
		})
	}
	group.Wait()
}

func killAnywhere(t *testing.T, seed int) {
	random := rand.New(rand.NewPCG(uint64(seed), 1))
	dir, name := t.TempDir(), label(t, seed)
	scripts := []string{"exit 0", "sleep 1000 & setsid sleep 1000 & echo", "echo; echo"}
	if seed%2 == 0 {
		scripts = append(scripts, stubborn)
	}
	flow, out := child(t, append([]string{"child:flow", dir, name}, scripts...)...)
	if _, err := io.ReadFull(out, make([]byte, random.IntN(200))); err != nil {
		t.Fatal(err)
	}
	flow.Process.Kill()
	flow.Wait() // so that all it held is closed
	awaitLock(t, dir)
	if left := labelled(t, name); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	records, err := ReadRecords(filepath.Join(dir, "records"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range records {
		if seen[r.Label] {
			t.Errorf("two records of %s", r.Label)
		}
		seen[r.Label] = true
	}
}

func TestCleanEndLeavesNoRecord(t *testing.T) {
	record := filepath.Join(t.TempDir(), "records")
	s := New(Options{Record: record})
	mustRun(t, s, sh(t, "exit 1"), Sink{})
	if err := s.Close(); err != nil || exists(record) {
		t.Errorf("%v, record: %v", err, exists(record))
	}
}

// TestGuardianIsKilled: the process and all it started are gone when Run returns,
// and whoever asks is told.
func TestGuardianIsKilled(t *testing.T) {
	name, dir := label(t, 0), t.TempDir()
	script := fmt.Sprintf("%s child:daemon %s/plain inherited; %s child:daemon %s/hidden A=B; setsid sleep 1000 & >%s/ready; %s",
		executablePath(t), dir, executablePath(t), dir, dir, stubborn)
	_, out := child(t, "child:guarded", name, script)
	r := bufio.NewReader(out)
	var guardian int
	if _, err := fmt.Fscanln(r, &guardian); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all are started", func() bool { return exists(dir+"/ready") && len(labelled(t, name)) >= 5 })
	daemons := []int{pidOf(t, dir+"/plain"), pidOf(t, dir+"/hidden")}
	if err := unix.Kill(guardian, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"Run", "Close", "Run again"} {
		line, err := r.ReadString('\n')
		if err != nil || !strings.Contains(line, "the guardian died (signal: killed)") && what != "Run again" {
			t.Errorf("%s: %q, %v", what, line, err)
		}
		if what == "Run again" && !strings.Contains(line, errClosed.Error()) {
			t.Errorf("%s: %q", what, line)
		}
		if left := labelled(t, name); len(left) > 0 {
			t.Errorf("after %s: left %v", what, left)
		}
	}
	for _, pid := range daemons {
		if alive(pid) {
			t.Errorf("daemon %d lives", pid)
		}
	}
}

// TestSignalsOfTheTerminal: what a terminal sends to flow's group does not reach
// the guardian, and if someone signals it directly it goes on.
func TestSignalsOfTheTerminal(t *testing.T) {
	s := newSupervisor(t, Options{})
	guardian := guardianOf(t, s)
	if session, err := unix.Getsid(guardian); err != nil || session != guardian {
		t.Errorf("the guardian's session is %d, %v", session, err)
	}
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		if err := unix.Kill(guardian, sig); err != nil {
			t.Fatal(err)
		}
	}
	if r := mustRun(t, s, sh(t, "exit 8"), Sink{}); r.Code != 8 {
		t.Errorf("%+v", r)
	}
}
