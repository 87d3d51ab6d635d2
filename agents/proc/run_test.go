package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestHowProcessesEnd(t *testing.T) {
	s := newSupervisor(t, Options{})
	tests := []struct {
		script string
		code   int
		signal string
	}{
		{"exit 0", 0, ""},
		{"exit 7", 7, ""},
		{"exit 143", 143, ""},
		{"kill -SEGV $$", -1, "SEGV"},
		{"kill -9 $$", -1, "KILL"},
	}
	for i, test := range tests {
		t.Run(test.script, func(t *testing.T) {
			spec := sh(t, "echo out; echo oops >&2; "+test.script)
			spec.Label = label(t, i)
			r := mustRun(t, s, spec, Sink{})
			if r.Err != nil || r.Code != test.code || r.Signal != test.signal || len(r.Leftovers) > 0 {
				t.Errorf("%+v", r)
			}
			if r.StderrTail != "oops\n" || read(t, spec.Stdout) != "out\n" {
				t.Errorf("stderr %q, stdout %q", r.StderrTail, read(t, spec.Stdout))
			}
			if r.Ended.Before(r.Started) || r.MaxRSS <= 0 || r.UserTime+r.SystemTime <= 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestWhatAProcessGets(t *testing.T) {
	s := newSupervisor(t, Options{})
	spec := sh(t, `cat; echo "$0 $1|$A|$FLOW_ATTEMPT|$HOME"; pwd; ls /proc/self/fd | wc -l; grep -E 'SigIgn|SigBlk' /proc/self/status; ulimit -Sn; cut -d' ' -f6 /proc/$$/stat; echo $$; echo >/dev/tty`)
	spec.Args = append(spec.Args, "arg0", "a b")
	spec.Env = []string{"A=1", "FLOW_ATTEMPT=outer", "PATH=/usr/bin:/bin"}
	spec.Stdin = filepath.Join(spec.Dir, "stdin")
	prompt := strings.Repeat("prompt ", 5<<20/7)
	if err := os.WriteFile(spec.Stdin, []byte(prompt), 0o600); err != nil {
		t.Fatal(err)
	}
	r := mustRun(t, s, spec, Sink{})
	text, ok := strings.CutPrefix(read(t, spec.Stdout), prompt)
	if !ok {
		t.Fatal("standard input did not come through")
	}
	got := strings.Split(strings.TrimSpace(text), "\n")
	want := []string{
		"arg0 a b|1|" + spec.Label + "|", spec.Dir, "4", // and the directory ls reads
		"SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000", shellSoftLimit(t),
	}
	if d := cmp.Diff(want, got[:len(want)]); d != "" {
		t.Error(d)
	}
	if session, pid := got[6], got[7]; session != pid {
		t.Errorf("session %s of process %s", session, pid)
	}
	if !strings.Contains(r.StderrTail, "/dev/tty") {
		t.Errorf("there is a terminal: %q", r.StderrTail)
	}
	if info, err := os.Stat(spec.Stdout); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// shellSoftLimit is the limit of open files this test was started with.
func shellSoftLimit(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("/bin/sh", "-c", "ulimit -Sn").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestWithoutFiles(t *testing.T) {
	s := newSupervisor(t, Options{})
	spec := sh(t, "cat; readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 >seen")
	spec.Stdout, spec.Stderr, spec.Dir = "", "", ""
	t.Chdir(t.TempDir()) // the guardian runs already or will, elsewhere
	mustRun(t, s, spec, Sink{Stdout: func(Line) { t.Error("a line from /dev/null") }})
	if got := read(t, "seen"); !strings.HasPrefix(got, "/dev/null\n") || !strings.HasSuffix(got, "/dev/null\n") {
		t.Errorf("%q", got)
	}
}

func TestCannotStart(t *testing.T) {
	s := newSupervisor(t, Options{})
	dir := t.TempDir()
	write := func(name, text string, mode fs.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := write("plain", "#!/bin/sh\n", 0o600)
	lost := write("lost", "#!/no/such/interpreter\n", 0o700)
	text := write("text", "hello\n", 0o700)
	tests := []struct {
		name   string
		change func(*Spec)
		want   string
		is     error
	}{
		{"not on PATH", func(s *Spec) { s.Path = "no-such-agent" }, `executable not found: "no-such-agent"`, exec.ErrNotFound},
		{"no such file", func(s *Spec) { s.Path = "/no/agent" }, `executable not found: "/no/agent"`, exec.ErrNotFound},
		{"not executable", func(s *Spec) { s.Path = plain }, `plain" is not executable`, fs.ErrPermission},
		{"not executable on PATH", func(s *Spec) { s.Path, s.Env = "plain", []string{"PATH=/nope:" + dir} }, `plain" is not executable`, fs.ErrPermission},
		{"a directory", func(s *Spec) { s.Path = dir }, `is not executable`, fs.ErrPermission},
		{"no interpreter", func(s *Spec) { s.Path = lost }, "the interpreter of its #! line is missing", fs.ErrNotExist},
		{"no #! line", func(s *Spec) { s.Path = text }, "is no program for this machine", syscall.ENOEXEC},
		{"no directory", func(s *Spec) { s.Dir = filepath.Join(dir, "gone") }, `gone" is not there`, fs.ErrNotExist},
		{"no stdin", func(s *Spec) { s.Stdin = filepath.Join(dir, "none") }, "cannot open " + filepath.Join(dir, "none"), fs.ErrNotExist},
		{"no place for stdout", func(s *Spec) { s.Stdout = filepath.Join(dir, "no", "out") }, "cannot open", fs.ErrNotExist},
		{"argument too long", func(s *Spec) { s.Args = []string{strings.Repeat("x", 131072)} }, "128 KiB", syscall.E2BIG},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			spec := sh(t, "exit 0")
			spec.Label = label(t, i)
			test.change(&spec)
			r := mustRun(t, s, spec, Sink{})
			if r.Err == nil || !strings.Contains(r.Err.Error(), test.want) || !errors.Is(r.Err, test.is) || r.Code != -1 {
				t.Errorf("%+v", r)
			}
			// The label is free again.
			if r := mustRun(t, s, withLabelOf(sh(t, "exit 0"), spec), Sink{}); r.Err != nil || r.Code != 0 {
				t.Errorf("afterwards: %+v", r)
			}
		})
	}
}

func withLabelOf(spec, other Spec) Spec {
	spec.Label = other.Label
	return spec
}

func TestRefused(t *testing.T) {
	s := newSupervisor(t, Options{})
	for _, bad := range []string{"", "a\x00b"} {
		if _, err := s.Run(t.Context(), Spec{Label: bad, Path: "/bin/true"}, Sink{}); err == nil {
			t.Errorf("label %q was accepted", bad)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	spec := sh(t, "echo here; exec sleep 1000")
	done := make(chan error, 1)
	go func() {
		_, err := s.Run(ctx, spec, Sink{})
		done <- err
	}()
	eventually(t, "it runs", func() bool { return fileSize(spec.Stdout) > 0 })
	if _, err := s.Run(t.Context(), spec, Sink{}); err == nil || !strings.Contains(err.Error(), "unique") {
		t.Errorf("a label twice: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	r := func() Result {
		r, err := s.Run(ctx, sh(t, "touch started"), Sink{})
		if err != nil {
			t.Error(err)
		}
		return r
	}()
	if !errors.Is(r.Err, context.Canceled) {
		t.Errorf("with a context that is done: %+v", r)
	}
}

func TestProgramsAreFoundAsTheyShould(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\necho \"$0\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path, pathVar, want string
	}{
		{"tool", "/nope:" + dir, dir + "/tool"},
		{"./tool", "", dir + "/tool"},
		{dir + "/tool", "", dir + "/tool"},
		{"tool", ".", ""},
		{"tool", "", ""},
	}
	for _, test := range tests {
		got, err := findProgram(test.path, dir, []string{"PATH=" + test.pathVar, "PATH=" + dir})
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%q on %q: %q, %v", test.path, test.pathVar, got, err)
		}
	}
}

func TestLinesComeInOrderWithTheirOffsets(t *testing.T) {
	s := newSupervisor(t, Options{Tick: time.Millisecond})
	spec := self(t, "lines", "5000")
	var got lines
	mustRun(t, s, spec, Sink{Stdout: got.add})
	want := model([]byte(read(t, spec.Stdout)), 1<<20)
	if len(want) != 5000 {
		t.Fatalf("%d lines in the file", len(want))
	}
	same(t, got, want)
}

func TestLinesComeWhileTheProcessRuns(t *testing.T) {
	s := newSupervisor(t, Options{})
	spec := sh(t, `echo hello; echo warning >&2; while [ ! -e go ]; do sleep 0.01; done; printf bye`)
	var out, errs lines
	mustRun(t, s, spec, Sink{
		Stdout: out.add,
		Stderr: func(l Line) {
			errs.add(l)
			if err := os.WriteFile(filepath.Join(spec.Dir, "go"), nil, 0o600); err != nil {
				t.Error(err)
			}
		},
	})
	if d := cmp.Diff([]string{"hello", "bye"}, out.texts()); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"warning"}, errs.texts()); d != "" {
		t.Error(d)
	}
}

func TestSlowSinkLosesNothing(t *testing.T) {
	s := newSupervisor(t, Options{Tick: time.Millisecond})
	spec := self(t, "lines", "3000")
	var got lines
	mustRun(t, s, spec, Sink{Stdout: func(l Line) {
		if len(got) == 0 {
			eventually(t, "the process is far ahead", func() bool { return fileSize(spec.Stdout) > 400_000 })
		}
		got.add(l)
	}})
	same(t, got, model([]byte(read(t, spec.Stdout)), 1<<20))
}

func TestLongLineInLittleMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector has memory of its own")
	}
	s := newSupervisor(t, Options{})
	var got lines
	before, _ := resident(t)
	mustRun(t, s, self(t, "line", "100"), Sink{Stdout: got.add})
	if _, most := resident(t); most-before > 64<<20 {
		t.Errorf("%d MB more", (most-before)>>20)
	}
	if len(got) != 2 || !got[0].Oversized || got[0].Length != 100<<20 || len(got[0].Data) != bufferSize {
		t.Fatalf("%d lines; the first %v, %d bytes of %d", len(got), got[0].Oversized, len(got[0].Data), got[0].Length)
	}
	if want := (Line{Data: []byte("next"), Offset: 100<<20 + 1, Length: 4}); cmp.Diff(want, got[1]) != "" {
		t.Error(cmp.Diff(want, got[1]))
	}
}

// resident is how many bytes of memory this process has now, and the most it had
// since the last call.
func resident(t *testing.T) (now, most int64) {
	t.Helper()
	status := read(t, "/proc/self/status")
	for field, n := range map[string]*int64{"VmRSS:": &now, "VmHWM:": &most} {
		_, rest, _ := strings.Cut(status, field)
		kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		*n = kb << 10
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Skip("cannot reset the high water mark:", err)
	}
	return now, most
}

func TestHugeStderrLeavesItsTail(t *testing.T) {
	s := newSupervisor(t, Options{})
	spec := sh(t, `head -c 50000000 /dev/zero >&2; printf 'the end' >&2`)
	r := mustRun(t, s, spec, Sink{})
	if len(r.StderrTail) != bufferSize || !strings.HasSuffix(r.StderrTail, "\x00the end") {
		t.Errorf("%d bytes, %q", len(r.StderrTail), r.StderrTail[max(0, len(r.StderrTail)-10):])
	}
}

func TestPanickingSink(t *testing.T) {
	s := newSupervisor(t, Options{})
	other := make(chan Result, 1)
	spec := sh(t, "while [ ! -e go ]; do sleep 0.01; done; echo fine")
	spec.Label = label(t, 1)
	var got lines
	go func() { other <- mustRun(t, s, spec, Sink{Stdout: got.add}) }()
	_, err := s.Run(t.Context(), sh(t, "echo boo; exec sleep 1000"), Sink{Stdout: func(l Line) { panic("at " + string(l.Data)) }})
	if err == nil || !strings.Contains(err.Error(), "a sink panicked: at boo") {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(filepath.Join(spec.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := <-other; r.Code != 0 || !cmp.Equal(got.texts(), []string{"fine"}) {
		t.Errorf("the other process: %+v, %q", r, got.texts())
	}
}

func TestManyAtOnce(t *testing.T) {
	s := newSupervisor(t, Options{Tick: time.Millisecond})
	dir := t.TempDir()
	var group sync.WaitGroup
	for worker := range 2 {
		group.Go(func() {
			for i := range 200 {
				name := fmt.Sprintf("%d.%d", worker, i)
				var got lines
				r, err := s.Run(t.Context(), Spec{
					Label: label(t, worker) + "." + name, Path: "/bin/echo", Args: []string{name},
					Stdout: filepath.Join(dir, name),
				}, Sink{Stdout: got.add})
				if err != nil || r.Err != nil || r.Code != 0 || !cmp.Equal(got.texts(), []string{name}) {
					t.Errorf("%s: %+v, %v, %q", name, r, err, got.texts())
				}
			}
		})
	}
	group.Wait()
}

func TestClose(t *testing.T) {
	t.Run("closed before use", func(t *testing.T) {
		s := New(Options{})
		if err := errors.Join(s.Close(), s.Close()); err != nil {
			t.Error(err)
		}
		s.KillAll()
		if _, err := s.Run(t.Context(), Spec{Label: "x", Path: "/bin/true"}, Sink{}); !errors.Is(err, errClosed) {
			t.Error(err)
		}
	})
	t.Run("Close ends what runs", func(t *testing.T) {
		s := New(Options{})
		spec := sh(t, "echo; exec sleep 1000")
		done := make(chan Result, 1)
		go func() { done <- mustRun(t, s, spec, Sink{}) }()
		eventually(t, "it runs", func() bool { return fileSize(spec.Stdout) > 0 })
		guardian := guardianOf(t, s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if r := <-done; r.Signal != "KILL" || alive(guardian) {
			t.Errorf("%+v", r)
		}
	})
}

func TestOutputIsAppended(t *testing.T) {
	s := newSupervisor(t, Options{})
	spec := sh(t, "echo out; echo err >&2")
	for i := range 2 {
		spec.Label = label(t, i)
		var got lines
		r := mustRun(t, s, spec, Sink{Stdout: got.add})
		same(t, got, lines{{Data: []byte("out"), Offset: int64(4 * i), Length: 3}})
		if r.StderrTail != "err\n" {
			t.Errorf("%q", r.StderrTail)
		}
	}
	if read(t, spec.Stdout) != "out\nout\n" {
		t.Errorf("%q", read(t, spec.Stdout))
	}
}

func TestStdinThatNobodyWrites(t *testing.T) {
	s := newSupervisor(t, Options{})
	spec := sh(t, "exit 4")
	spec.Stdin = filepath.Join(spec.Dir, "pipe")
	if err := unix.Mkfifo(spec.Stdin, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := mustRun(t, s, spec, Sink{}); r.Code != 4 {
		t.Errorf("%+v", r)
	}
}

func TestBinaryOutput(t *testing.T) {
	s := newSupervisor(t, Options{})
	spec := sh(t, `printf 'a\000b\n\377\376\n\357\273\277{}\n'`)
	var got lines
	mustRun(t, s, spec, Sink{Stdout: got.add})
	if want := [][]byte{[]byte("a\x00b"), {0xff, 0xfe}, []byte("\xef\xbb\xbf{}")}; len(got) != 3 ||
		!bytes.Equal(got[0].Data, want[0]) || !bytes.Equal(got[1].Data, want[1]) || !bytes.Equal(got[2].Data, want[2]) {
		t.Errorf("%q", got.texts())
	}
}
