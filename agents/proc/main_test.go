package proc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	GuardianMain()
	// The race detector sleeps for a second when a process exits, unless it is told.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	if child := childNamed(os.Args); child != nil {
		child(os.Args[2:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childNamed is what this test binary does when it was started as "child:NAME".
func childNamed(args []string) func([]string) {
	if len(args) < 2 {
		return nil
	}
	return map[string]func([]string){
		"child:flow":    flowChild,
		"child:guarded": guardedChild,
		"child:daemon":  daemonChild,
		"child:daemon2": daemon2Child,
		"child:crowded": crowdedChild,
		"child:limited": limitedChild,
		"child:line":    lineChild,
		"child:lines":   linesChild,
		"child:chatty":  chattyChild,

		"child:boxed":    boxedChild,
		"child:dial":     dialChild,
		"child:loopback": loopbackChild,
	}[args[1]]
}

// check ends a child that cannot do its work.
func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(99)
	}
}

func newSupervisor(t testing.TB, o Options) *Supervisor {
	t.Helper()
	s := New(o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// guardianOf is the pid of a Supervisor's guardian, which is started if need be.
func guardianOf(t testing.TB, s *Supervisor) int {
	t.Helper()
	c, err := s.guardian()
	if err != nil {
		t.Fatal(err)
	}
	return c.cmd.Process.Pid
}

// label is unique to a test and round.
func label(t testing.TB, n int) string {
	t.Helper()
	return fmt.Sprintf("%s.%d.%d", t.Name(), os.Getpid(), n)
}

// sh is a spec for a shell script that writes to files in a new directory.
func sh(t testing.TB, script string) Spec {
	t.Helper()
	dir := t.TempDir()
	return Spec{
		Label: label(t, 0), Path: "/bin/sh", Args: []string{"-c", script}, Env: os.Environ(), Dir: dir,
		Stdout: filepath.Join(dir, "stdout"), Stderr: filepath.Join(dir, "stderr"),
	}
}

// self is a spec for this test binary as a child.
func self(t testing.TB, name string, args ...string) Spec {
	t.Helper()
	spec := sh(t, "")
	spec.Path, spec.Args = executablePath(t), append([]string{"child:" + name}, args...)
	return spec
}

func executablePath(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func mustRun(t testing.TB, s *Supervisor, spec Spec, sink Sink) Result {
	t.Helper()
	r, err := s.Run(context.Background(), spec, sink)
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return r
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 20 s in vain: %s", what)
		}
	}
}

// labelled are the processes whose label begins with prefix, zombies aside.
func labelled(t testing.TB, prefix string) []int {
	t.Helper()
	table, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for pid, p := range table.byPID {
		if !p.zombie && strings.HasPrefix(labelOf(pid), prefix) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func read(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// lines collects what a sink gets; Data is copied.
type lines []Line

func (l *lines) add(line Line) {
	line.Data = append([]byte(nil), line.Data...)
	*l = append(*l, line)
}

func (l *lines) texts() []string {
	texts := []string{}
	for _, line := range *l {
		texts = append(texts, string(line.Data))
	}
	return texts
}

func alive(pid int) bool { return unix.Kill(pid, 0) == nil }
