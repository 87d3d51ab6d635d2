package proc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// testHead is how much of the beginning of standard error the tests here keep.
const testHead = 1 << 20

// flooding prints the numbers from 1 to 8,000,000 on standard error, 62 MB.
const (
	flooding  = "seq 8000000 >&2"
	floodSize = 62888896
)

// checkTrimmed is that a file has the beginning and the end of flooding, and tells how much
// is missing.
func checkTrimmed(t *testing.T, text string) {
	t.Helper()
	head, rest := text[:testHead], text[testHead:]
	var want strings.Builder
	for i := 1; want.Len() < testHead; i++ {
		fmt.Fprintln(&want, i)
	}
	if head != want.String()[:testHead] {
		t.Error("the beginning is not what was printed")
	}
	m := regexp.MustCompile(`^(\n?)\[flow: (\d+) bytes of standard error were dropped here\]\n((?s:.*))$`).FindStringSubmatch(rest)
	if m == nil {
		t.Fatalf("nothing says what was dropped: %.200q", rest)
	}
	if !regexp.MustCompile(`[^\n]\n$`).MatchString(head + m[1]) {
		t.Errorf("%q and %q: the line about what is missing stands in another one, or behind an empty one", head[len(head)-10:], m[1])
	}
	tail := m[3]
	if dropped, err := strconv.Atoi(m[2]); err != nil || dropped+testHead+len(tail) != floodSize {
		t.Errorf("%s dropped, and %d kept, of %d (%v)", m[2], testHead+len(tail), floodSize, err)
	}
	if !strings.HasSuffix(tail, "7999999\n8000000\n") || len(tail) > tailSize || len(tail) < tailSize-100 {
		t.Errorf("an end of %d bytes, …%q", len(tail), tail[max(0, len(tail)-30):])
	}
	first, _, _ := strings.Cut(tail, "\n")
	if len(first) != 7 {
		t.Errorf("the end begins within a line: %q", first)
	}
}

// TestStderrFlood: the disk takes little while the process runs, and afterwards file and
// lines are the same.
func TestStderrFlood(t *testing.T) {
	s := newSupervisor(t, Options{MaxStderr: testHead})
	spec := sh(t, flooding+"; echo; exec sleep 1000")
	var got bytes.Buffer
	signs := 0
	ctx, cancel := context.WithCancel(t.Context())
	done := startRun(ctx, t, s, spec, Sink{
		Stderr:  func(l Line) { fmt.Fprintf(&got, "%s\n", l.Data) },
		Growing: func() { signs++ },
	})
	eventually(t, "the middle is no more on the disk", func() bool { return diskSize(spec.Stderr) < testHead+4*tailSize+2<<20 })
	if size := fileSize(spec.Stderr); size != floodSize {
		t.Errorf("while it runs the file has %d bytes", size)
	}
	cancel()
	r := <-done
	if r.Signal != "INT" || r.Overflow || !strings.HasSuffix(r.StderrTail, "8000000\n") {
		t.Errorf("%s, overflow %v, …%q", r.Signal, r.Overflow, r.StderrTail[max(0, len(r.StderrTail)-20):])
	}
	text := read(t, spec.Stderr)
	checkTrimmed(t, text)
	if got.String() != text {
		t.Errorf("the lines have %d bytes, the file has %d", got.Len(), len(text))
	}
	if signs == 0 {
		t.Error("nothing said that it was alive")
	}
}

// Holes are made again and again as the file grows, at any byte: between two of them no
// block is left.
func TestHolesMeet(t *testing.T) {
	o := outputs{limits: limits{MaxOutput: defaultMaxOutput, Head: 4 << 10}, stderr: filepath.Join(t.TempDir(), "stderr")}
	f, err := os.OpenFile(o.stderr, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 100 {
		if _, err := f.Write(bytes.Repeat([]byte("x"), 200_001)); err != nil {
			t.Fatal(err)
		}
		if o.bound() {
			t.Fatal("that was too much")
		}
	}
	if err := f.Sync(); err != nil { // until then blocks are only reserved, and more of them
		t.Fatal(err)
	}
	const blocks = 4 * 4 << 10 // those at the borders
	if size := diskSize(o.stderr); size > o.Head+tailSize+blocks {
		t.Errorf("the file takes %d bytes of the disk", size)
	}
}

// What is not much more than the limit stays as it is.
func TestLittleStderrIsWhole(t *testing.T) {
	s := newSupervisor(t, Options{MaxStderr: testHead})
	spec := sh(t, fmt.Sprintf("head -c %d /dev/zero >&2", testHead+2*tailSize))
	count := int64(0)
	mustRun(t, s, spec, Sink{Stderr: func(l Line) { count += l.Length }})
	if size := fileSize(spec.Stderr); size != testHead+2*tailSize || count != size {
		t.Errorf("%d bytes are left, %d delivered", size, count)
	}
}

func TestTooMuchOutput(t *testing.T) {
	s := newSupervisor(t, Options{MaxOutput: 4 << 20})
	for i, script := range []string{"yes | tr -d '\\n'", "trap '' INT TERM; setsid yes & yes"} {
		spec := sh(t, script)
		spec.Label = label(t, i)
		r := mustRun(t, s, spec, Sink{Stdout: func(Line) {}})
		if !r.Overflow || r.Signal != "KILL" {
			t.Errorf("%s: %+v", script, r)
		}
		if left := labelled(t, spec.Label); len(left) > 0 {
			t.Errorf("%s: left: %v", script, left)
		}
	}
	if r := mustRun(t, s, sh(t, "yes | head -c 1000000"), Sink{}); r.Overflow || r.Code != 0 {
		t.Errorf("less than the limit: %+v", r)
	}
}

// TestStderrFloodWithoutHoles: where files cannot have holes, there is a limit all the same.
func TestStderrFloodWithoutHoles(t *testing.T) {
	t.Setenv("FLOW_FAILPOINT", "stderr-hole:1+=EPERM") // the guardian reads it
	s := newSupervisor(t, Options{MaxStderr: testHead, MaxOutput: 4 << 20})
	spec := sh(t, "yes >&2")
	if r := mustRun(t, s, spec, Sink{}); !r.Overflow || fileSize(spec.Stderr) > testHead+2*tailSize {
		t.Errorf("%+v, %d bytes", r, fileSize(spec.Stderr))
	}
}

// TestStderrFloodAndNobodyThere: when flow is killed the guardian shortens the file, and when
// the guardian is, flow does.
func TestStderrFloodAndNobodyThere(t *testing.T) {
	t.Run("flow", func(t *testing.T) {
		dir := t.TempDir()
		flow, out := child(t, "child:flow", dir, label(t, 0), flooding+"; echo; exec sleep 1000")
		if _, err := io.ReadFull(out, make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		flow.Process.Kill()
		awaitLock(t, dir)
		checkTrimmed(t, read(t, filepath.Join(dir, "0.err")))
	})
	t.Run("guardian", func(t *testing.T) {
		s := New(Options{MaxStderr: testHead})
		guardian := guardianOf(t, s)
		spec := sh(t, flooding+"; echo; exec sleep 1000")
		ended := make(chan error, 1)
		go func() {
			_, err := s.Run(t.Context(), spec, Sink{})
			ended <- err
		}()
		eventually(t, "it has printed everything", func() bool { return fileSize(spec.Stdout) > 0 })
		kill(guardian, unix.SIGKILL)
		if err := <-ended; err == nil {
			t.Error("nobody has noticed")
		}
		checkTrimmed(t, read(t, spec.Stderr))
		if s.Close() == nil {
			t.Error("nobody has noticed at the end")
		}
	})
}

// A file that cannot be shortened stays readable: nothing of it is lost.
func TestStderrThatCannotBeShortened(t *testing.T) {
	t.Setenv("FLOW_FAILPOINT", "stderr-trim:1+=EIO,stderr-hole:1+=EIO")
	s := newSupervisor(t, Options{MaxStderr: testHead})
	spec := sh(t, flooding)
	if r := mustRun(t, s, spec, Sink{}); r.Code != 0 || fileSize(spec.Stderr) != floodSize {
		t.Errorf("%+v, %d bytes", r, fileSize(spec.Stderr))
	}
}

func TestTrim(t *testing.T) {
	const began, head = 7, 1000
	l := limits{StderrBegan: began, Head: head}
	for _, size := range []int{0, head, began + head + 2*tailSize, began + head + 2*tailSize + 1, 1 << 20} {
		for _, text := range []string{"x", "line\n", "\n"} {
			path := filepath.Join(t.TempDir(), "err")
			whole := strings.Repeat(text, size/len(text)+1)[:size]
			if err := os.WriteFile(path, []byte(whole), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time there is nothing to do
				if err := l.trim(path); err != nil {
					t.Fatal(err)
				}
			}
			got := read(t, path)
			if size <= began+head+2*tailSize {
				if got != whole {
					t.Errorf("%d bytes of %q are changed", size, text)
				}
				continue
			}
			if !strings.HasPrefix(got, whole[:began+head]) || len(got) > began+head+2*tailSize || strings.Count(got, "[flow: ") != 1 {
				t.Errorf("%d bytes of %q: %d are left", size, text, len(got))
			}
		}
	}
}
