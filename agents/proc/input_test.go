package proc

import (
	"context"
	"strings"
	"testing"
)

func TestInput(t *testing.T) {
	s := newSupervisor(t, Options{})
	spec := sh(t, `while read -r line; do echo "got $line"; done; echo end`)
	spec.Input = NewInput()
	spec.Input.Line([]byte("before it starts"))
	said := 0
	r := mustRun(t, s, spec, Sink{Stdout: func(Line) {
		if said++; said < 4 {
			spec.Input.Line([]byte(strings.Repeat("x", said)))
			return
		}
		spec.Input.Close()
		spec.Input.Line([]byte("too late"))
	}})
	want := "got before it starts\ngot x\ngot xx\ngot xxx\nend\n"
	if got := read(t, spec.Stdout); r.Code != 0 || got != want {
		t.Errorf("exit %d, it read %q, want %q", r.Code, got, want)
	}
}

func TestInputLongLine(t *testing.T) {
	s := newSupervisor(t, Options{})
	spec := sh(t, `cat`)
	spec.Input = NewInput()
	long := strings.Repeat("0123456789", 1<<19)
	spec.Input.Line([]byte(long))
	spec.Input.Close()
	mustRun(t, s, spec, Sink{})
	if got := read(t, spec.Stdout); got != long+"\n" {
		t.Errorf("%d bytes came through, want %d", len(got), len(long)+1)
	}
}

// A process that does not read what it is told holds nobody up, in life and in death.
func TestInputUnread(t *testing.T) {
	s := newSupervisor(t, Options{})
	spec := sh(t, `echo up; sleep 1000`)
	spec.Input = NewInput()
	spec.Input.Line(make([]byte, 1<<20))
	spec.Ladder = []Rung{}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := s.Run(ctx, spec, Sink{Stdout: func(Line) { cancel() }})
	if err != nil || r.Signal != "KILL" {
		t.Errorf("%+v, %v", r, err)
	}
}

// A process that closes its standard input is told no more, and that is all.
func TestInputClosed(t *testing.T) {
	s := newSupervisor(t, Options{})
	spec := sh(t, `exec <&-; exit 3`)
	spec.Input = NewInput()
	spec.Input.Line([]byte("unheard"))
	if r := mustRun(t, s, spec, Sink{}); r.Code != 3 {
		t.Errorf("%+v", r)
	}
	spec.Input.Line([]byte("nobody is there"))
	spec.Input.Close()
}
