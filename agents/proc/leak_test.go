package proc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// TestNothingLeaks: after a thousand processes, some of them with an input, some cancelled,
// some that could not start and some that left others behind, flow and its guardian have
// what they had after the first ones. It is not parallel, as it counts what is the process's.
func TestNothingLeaks(t *testing.T) {
	s := newSupervisor(t, Options{})
	dir := t.TempDir()
	round := func(from, to int) {
		var group errgroup.Group
		group.SetLimit(8)
		for i := from; i < to; i++ {
			group.Go(func() error { return oneOfMany(t.Context(), s, dir, i) })
		}
		if err := group.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	round(0, 50)
	guardian := guardianOf(t, s)
	settled := func() [4]int {
		return [4]int{descriptors(t, os.Getpid()), descriptors(t, guardian), runtime.NumGoroutine(), children(t, os.Getpid(), guardian)}
	}
	// The goroutine that reads outputs ends a tick after the last process, and pooled files
	// with the next collection.
	before := settled()
	eventually(t, "it has come to rest", func() bool {
		runtime.GC()
		now := settled()
		same := now == before && !isReading(s.tailer)
		before = now
		return same
	})
	round(50, 1050)
	after := before
	eventually(t, "no more is open than before", func() bool {
		runtime.GC()
		after = settled()
		for i := range after {
			if after[i] > before[i] {
				return false
			}
		}
		return true
	})
	t.Logf("descriptors of flow and of the guardian, goroutines, children: %v, before: %v", after, before)
}

// oneOfMany runs the i-th process of the test.
func oneOfMany(ctx context.Context, s *Supervisor, dir string, i int) error {
	spec := Spec{
		Label: fmt.Sprintf("%s.%d", filepath.Base(dir), i), Path: "/bin/sh", Env: os.Environ(), Dir: dir,
		Stdout: filepath.Join(dir, fmt.Sprint(i)), Stderr: filepath.Join(dir, fmt.Sprint(i, ".err")),
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sink := Sink{Stdout: func(Line) {}}
	switch i % 5 {
	case 0:
		spec.Args = []string{"-c", "exit 0"}
	case 1:
		spec.Args, spec.Input = []string{"-c", "read x; echo $x"}, NewInput()
		spec.Input.Line([]byte("hello"))
	case 2:
		spec.Args = []string{"-c", "echo; exec sleep 1000"}
		sink.Stdout = func(Line) { cancel() }
	case 3:
		spec.Path = "/nonexistent"
	case 4:
		spec.Args = []string{"-c", "sleep 1000 & setsid sleep 1000 & exit 0"}
	}
	_, err := s.Run(ctx, spec, sink)
	return err
}

func descriptors(t *testing.T, pid int) int {
	t.Helper()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

// isReading reports whether the tailer's goroutine runs.
func isReading(t *tailer) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.running
}

// children counts the children of processes, zombies too.
func children(t *testing.T, pids ...int) int {
	t.Helper()
	table, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, pid := range pids {
		count += len(table.children[pid])
	}
	return count
}

// TestChildrenGetTheOriginalLimit: Go raises its own limit of open files; what flow starts
// gets the one that flow was started with.
func TestChildrenGetTheOriginalLimit(t *testing.T) {
	self := executablePath(t)
	cmd, out := child(t, "child:limited", self)
	text := make([]byte, 64)
	n, err := out.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(text[:n])); got != "77" {
		t.Errorf("the soft limit of a child is %s, that of flow was 77", got)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// limitedChild starts this program anew with a low soft limit of open files, as `ulimit -Sn`
// in a shell does, and there a process that prints its own.
func limitedChild(args []string) {
	if len(args) > 0 {
		var l unix.Rlimit
		check(unix.Getrlimit(unix.RLIMIT_NOFILE, &l))
		l.Cur = 77
		check(unix.Setrlimit(unix.RLIMIT_NOFILE, &l))
		check(unix.Exec(args[0], []string{args[0], "child:limited"}, os.Environ()))
	}
	s := New(Options{})
	dir, err := os.MkdirTemp("", "limited")
	check(err)
	defer os.RemoveAll(dir)
	_, err = s.Run(context.Background(), Spec{
		Label: "limited", Path: "/bin/sh", Args: []string{"-c", "ulimit -Sn"}, Env: os.Environ(), Stdout: filepath.Join(dir, "out"),
	}, Sink{Stdout: func(l Line) { os.Stdout.Write(append(l.Data, '\n')) }})
	check(err)
	check(s.Close())
}
