package console_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"flow/cmd/flow/internal/console"
)

// A fullOnce fails at its first write, and takes all others.
type fullOnce struct {
	strings.Builder
	failed bool
}

func (f *fullOnce) Write(p []byte) (int, error) {
	if !f.failed {
		f.failed = true
		return 0, syscall.ENOSPC
	}
	return f.Builder.Write(p)
}

// After an error nothing more is written, by writers of any kind: there would be a hole.
func TestNothingIsWrittenBehindAHole(t *testing.T) {
	var to fullOnce
	w := console.As(&to, console.Text)
	for _, w := range []io.Writer{w, w, console.As(w, console.JSON), console.As(w, console.Exact)} {
		var failed *console.Error
		if _, err := io.WriteString(w, "text\n"); !errors.As(err, &failed) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v", err)
		}
	}
	if err := console.Flush(w); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("the end says %v", err)
	}
	if to.Len() > 0 {
		t.Errorf("%q was written behind the hole", to.String())
	}
}

// What was written to standard error first comes first where both streams lead to one place.
func TestStreamsKeepTheirOrder(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	stdout, stderr := console.Standard(w, w)
	var want strings.Builder
	for i := range 200 {
		for _, to := range []io.Writer{stderr, stdout} {
			fmt.Fprintf(to, "%d\n", i)
			fmt.Fprintf(&want, "%d\n", i)
		}
	}
	if err := errors.Join(console.Flush(stdout), console.Flush(stderr), w.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); string(got) != want.String() {
		t.Errorf("%v %q", err, got)
	}
}

// A marker is a filter that says what came through it, when it is flushed too.
type marker struct {
	to   io.Writer
	mark string
}

func (m marker) Write(p []byte) (int, error) {
	_, err := fmt.Fprintf(m.to, "%s(%s)", m.mark, p)
	return len(p), err
}

func (m marker) Flush() error {
	_, err := fmt.Fprintf(m.to, "%s.", m.mark)
	return err
}

// JSON has a filter of its own, and each of several filters sees what the last one wrote.
func TestThrough(t *testing.T) {
	var to strings.Builder
	w := console.As(&to, console.Text)
	with := func(mark string) func(io.Writer) console.Filter {
		return func(to io.Writer) console.Filter { return marker{to, mark} }
	}
	write := func() {
		for _, kind := range []console.Kind{console.Text, console.JSON, console.Exact} {
			fmt.Fprint(console.As(w, kind), "x")
		}
	}
	console.Through(w, with("a"), with("b"))
	write()
	console.Through(w, with("c"), with("d"))
	write()
	if err := console.Flush(w); err != nil {
		t.Fatal(err)
	}
	if want := "a(x)b(x)a(x)" + "a(c(x))b(d(x))a(c(x))" + "b(d.)a(c.)b.a."; to.String() != want {
		t.Errorf("%q, not %q", to.String(), want)
	}
	console.Through(&to, with("e"), with("e")) // is left as it is
}
