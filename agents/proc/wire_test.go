package proc

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func messages() map[byte]message {
	return map[byte]message{
		kindStart: &start{
			Label: "build.1", Program: "/bin/sh", Argv: []string{"sh", "-c", ""}, Env: []string{"A=\x80\n", ""},
			Dir: "/", Stdin: "/i", Stdout: "/o", Stderr: "/e",
			Shim: []string{"flow", "flow:sandbox", "/\xff"}, Limits: limits{MaxOutput: 1, Head: 2, StdoutBegan: 3, StderrBegan: 4}, Namespace: UserNamespace,
		},
		kindSignal: &order{Label: "ü", Signal: syscall.SIGINT, Group: true},
		kindHello:  &hello{Trouble: "no /proc"},
		kindExit: &exit{
			Label: "x", Failed: failure{File: "/f", Sandbox: "s", Errno: syscall.EMFILE}, Code: -1, Signal: 9, Started: 1 << 62,
			Elapsed: time.Hour, User: 1, System: 2, MaxRSS: 3, Leftovers: []string{"sleep"}, Overflow: true,
		},
	}
}

// blank is a message of the kind to parse into.
func blank(kind byte) message {
	switch kind {
	case kindStart:
		return &start{}
	case kindExit:
		return &exit{}
	case kindHello:
		return &hello{}
	}
	return &order{}
}

func TestWireRoundTrip(t *testing.T) {
	var stream []byte
	for _, kind := range []byte{kindStart, kindSignal, kindHello, kindExit} {
		stream = appendFrame(stream, kind, messages()[kind])
	}
	r := bufio.NewReader(iotestOneByte{bytes.NewReader(stream)})
	for range messages() {
		kind, body, err := readFrame(r)
		if err != nil {
			t.Fatal(err)
		}
		got := blank(kind)
		if err := parse(body, got); err != nil {
			t.Fatalf("kind %q: %v", kind, err)
		}
		if d := cmp.Diff(messages()[kind], got, cmp.AllowUnexported(exit{})); d != "" {
			t.Errorf("kind %q: %s", kind, d)
		}
	}
	if _, _, err := readFrame(r); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

// iotestOneByte returns one byte a read, as a socket may.
type iotestOneByte struct{ r io.Reader }

func (o iotestOneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

func TestWireTruncated(t *testing.T) {
	for kind, m := range messages() {
		frame := appendFrame(nil, kind, m)
		for size := 1; size < len(frame); size++ {
			_, _, err := readFrame(bufio.NewReader(bytes.NewReader(frame[:size])))
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("kind %q cut at %d: %v", kind, size, err)
			}
		}
		body := string(frame[headerSize:])
		for size := range body {
			if err := parse(body[:size], blank(kind)); !errors.Is(err, errFrame) {
				t.Fatalf("kind %q, fields cut at %d: %v", kind, size, err)
			}
		}
		if err := parse(body+"x", blank(kind)); !errors.Is(err, errFrame) {
			t.Fatalf("kind %q with more: %v", kind, err)
		}
	}
}

// FuzzParse: whatever comes in, parse neither panics nor allocates by what a
// length claims, and what it accepts is written and read back the same.
func FuzzParse(f *testing.F) {
	for kind, m := range messages() {
		f.Add(kind, string(appendFrame(nil, kind, m)[headerSize:]))
	}
	f.Fuzz(func(t *testing.T, kind byte, body string) {
		m := blank(kind)
		if parse(body, m) != nil {
			return
		}
		again := blank(kind)
		if err := parse(string(appendFrame(nil, kind, m)[headerSize:]), again); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(m, again, cmp.AllowUnexported(exit{})); d != "" {
			t.Fatal(d)
		}
	})
}
