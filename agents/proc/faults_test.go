package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// startRun runs a spec in the background and waits for its first output.
func startRun(ctx context.Context, t *testing.T, s *Supervisor, spec Spec, sink Sink) <-chan Result {
	t.Helper()
	done := make(chan Result, 1)
	go func() {
		r, err := s.Run(ctx, spec, sink)
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		done <- r
	}()
	eventually(t, "it has printed something", func() bool { return fileSize(spec.Stdout) > 0 })
	return done
}

func TestCancel(t *testing.T) {
	short := []Rung{{syscall.SIGINT, 100 * time.Millisecond}, {syscall.SIGTERM, 100 * time.Millisecond}}
	tests := []struct {
		name, script string
		ladder       []Rung
		group        bool
		code         int
		signal       string
	}{
		{"dies of SIGINT", "echo; exec sleep 1000", nil, false, -1, "INT"},
		{"handles SIGINT", "trap 'exit 5' INT; echo; while :; do sleep 0.01; done", nil, false, 5, ""},
		{"ignores SIGINT", "trap '' INT; echo; exec sleep 1000", short, false, -1, "TERM"},
		{"ignores both", "trap '' INT TERM; echo; while :; do sleep 0.01; done", short, false, -1, "KILL"},
		{"is stopped", "echo; kill -STOP $$", short, false, -1, "KILL"},
		{"waits for its child", "trap 'exit 6' INT; sleep 1000 & " + untilSleeps + "; echo; wait; exit 7", nil, true, 6, ""},
	}
	s := newSupervisor(t, Options{})
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			spec := sh(t, test.script)
			spec.Label, spec.Ladder, spec.Group = label(t, i), test.ladder, test.group
			ctx, cancel := context.WithCancel(t.Context())
			done := startRun(ctx, t, s, spec, Sink{})
			cancel()
			r := <-done
			if r.Code != test.code || r.Signal != test.signal || r.Err != nil {
				t.Errorf("%+v", r)
			}
			if left := labelled(t, spec.Label); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestKillAll(t *testing.T) {
	s := newSupervisor(t, Options{})
	var done []<-chan Result
	for i := range 3 {
		spec := sh(t, "trap '' INT TERM; sleep 1000 & setsid sleep 1000 & echo; while :; do sleep 0.01; done")
		spec.Label = label(t, i)
		done = append(done, startRun(t.Context(), t, s, spec, Sink{}))
	}
	s.KillAll()
	for _, d := range done {
		if r := <-d; r.Signal != "KILL" || len(r.Leftovers) > 0 {
			t.Errorf("%+v", r)
		}
	}
	if left := labelled(t, t.Name()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if r := mustRun(t, s, sh(t, "exit 3"), Sink{}); r.Code != 3 {
		t.Errorf("afterwards: %+v", r)
	}
}

// untilSleeps waits until the shell's last child has become sleep.
const untilSleeps = `until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done`

func TestLeftovers(t *testing.T) {
	tests := []struct {
		name, script string
		want         []string
	}{
		{"none", "sleep 0 & wait", nil},
		{"a child that holds stdout", "sleep 1000 & " + untilSleeps, []string{"sleep"}},
		{"a session of its own", "setsid sleep 1000 & " + untilSleeps, []string{"sleep"}},
		{"a chain", "sh -c 'sh -c \"sleep 1000; :\"; :' & while [ -z \"$(pgrep -s 0 -x sleep)\" ]; do :; done", []string{"sh", "sh", "sleep"}},
	}
	s := newSupervisor(t, Options{})
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			spec := sh(t, test.script)
			spec.Label = label(t, i)
			r := mustRun(t, s, spec, Sink{Stdout: func(Line) {}})
			slices.Sort(r.Leftovers)
			if r.Code != 0 || !slices.Equal(r.Leftovers, test.want) {
				t.Errorf("%+v, want %q", r, test.want)
			}
			if left := labelled(t, spec.Label); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestManyLeftoversAreCounted(t *testing.T) {
	s := newSupervisor(t, Options{})
	r := mustRun(t, s, sh(t, "for i in $(seq 40); do sleep 1000 & done"), Sink{})
	if len(r.Leftovers) != maxLeftovers+1 || r.Leftovers[maxLeftovers] != "and 8 more" {
		t.Errorf("%q", r.Leftovers)
	}
}

// TestDaemon: a daemon in a session of its own, that ignores signals and holds the
// standard output. The others have hidden their label too.
func TestDaemon(t *testing.T) {
	s := newSupervisor(t, Options{})
	for i, arg := range []string{"inherited", "A=B", "FLOW_ATTEMPT=of-a-flow-within"} {
		t.Run(arg, func(t *testing.T) {
			spec := self(t, "daemon", "", arg)
			spec.Label = label(t, i)
			pidFile := filepath.Join(spec.Dir, "pid")
			spec.Args[1] = pidFile
			r := mustRun(t, s, spec, Sink{Stdout: func(Line) {}})
			if r.Code != 0 || len(r.Leftovers) != 1 {
				t.Errorf("%+v", r)
			}
			if alive(pidOf(t, pidFile)) {
				t.Error("the daemon lives")
			}
		})
	}
}

// TestHiddenDaemonBesideAnother: while another process runs, nobody can say whose
// it is. It is spared, and killed by the end.
func TestHiddenDaemonBesideAnother(t *testing.T) {
	s := New(Options{})
	ctx, cancel := context.WithCancel(t.Context())
	other := sh(t, "echo; exec sleep 1000")
	other.Label = label(t, 1)
	done := startRun(ctx, t, s, other, Sink{})
	spec := self(t, "daemon", "", "A=B")
	pidFile := filepath.Join(spec.Dir, "pid")
	spec.Args[1] = pidFile
	if r := mustRun(t, s, spec, Sink{}); r.Code != 0 || len(r.Leftovers) != 0 {
		t.Errorf("%+v", r)
	}
	daemon := pidOf(t, pidFile)
	if !alive(daemon) {
		t.Error("the daemon was killed on no evidence")
	}
	cancel()
	<-done
	if err := s.Close(); err != nil || alive(daemon) {
		t.Errorf("%v; alive: %v", err, alive(daemon))
	}
}

func TestOthersAreSpared(t *testing.T) {
	s := newSupervisor(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	long := sh(t, "(setsid sleep 1000 & echo $! >pid); sleep 1000 & echo; while :; do sleep 0.01; done")
	long.Label = label(t, 1)
	done := startRun(ctx, t, s, long, Sink{})
	for i := range 20 {
		spec := sh(t, "sleep 1000 & exit 0")
		spec.Label = label(t, 10+i)
		if r := mustRun(t, s, spec, Sink{}); len(r.Leftovers) != 1 {
			t.Errorf("%+v", r)
		}
	}
	if daemon := pidOf(t, filepath.Join(long.Dir, "pid")); !alive(daemon) {
		t.Error("another process's orphan was killed")
	}
	cancel()
	if r := <-done; len(r.Leftovers) < 2 {
		t.Errorf("%+v", r)
	}
}

func pidOf(t *testing.T, file string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// limit sets the guardian's soft limit of open files and returns the old one.
func limit(t *testing.T, s *Supervisor, soft uint64) uint64 {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(guardianOf(t, s), unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(guardianOf(t, s), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: soft, Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
	return old.Cur
}

func TestNoDescriptorsLeft(t *testing.T) {
	retried := make(chan struct{}, 100)
	s := newSupervisor(t, Options{Logger: noticing(retried), Patience: time.Second})
	old := limit(t, s, 4)
	r := mustRun(t, s, sh(t, "exit 3"), Sink{})
	if !errors.Is(r.Err, syscall.EMFILE) {
		t.Errorf("while there are none: %+v", r)
	}
	for len(retried) > 0 {
		<-retried
	}
	go func() {
		<-retried
		limit(t, s, old)
	}()
	if r := mustRun(t, s, sh(t, "exit 3"), Sink{}); r.Code != 3 || r.Err != nil {
		t.Errorf("when there are some again: %+v", r)
	}
}

// TestNoProcessesLeft needs a user that is not root, as root has no such limit. It
// takes one nobody else uses, as all processes of a user count.
func TestNoProcessesLeft(t *testing.T) {
	self, err := os.Open(executablePath(t))
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3", "child:crowded") // its directory may be closed to that user
	cmd.Env, cmd.Dir, cmd.ExtraFiles = os.Environ(), "/", []*os.File{self}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	}
	out, err := cmd.CombinedOutput()
	if string(out) != "true -1\nfalse 3\n" || err != nil {
		t.Errorf("%s%v", out, err)
	}
}

func TestTemporary(t *testing.T) {
	for err, want := range map[error]bool{
		syscall.EMFILE: true, syscall.ENFILE: true, syscall.EAGAIN: true, syscall.ENOMEM: true, syscall.ETXTBSY: true,
		syscall.ENOENT: false, syscall.EACCES: false, context.Canceled: false,
	} {
		if got := temporary(fmt.Errorf("cannot start: %w", err)); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
	if temporary(nil) {
		t.Error("no error is none")
	}
}
