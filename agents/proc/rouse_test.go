package proc

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"
)

// A guardian that somebody stops goes on: the end of a process is seen, a process can be
// ended, and Close returns.
func TestStoppedGuardian(t *testing.T) {
	t.Parallel()
	s := New(Options{})
	guardian := guardianOf(t, s)
	stop := func() {
		kill(guardian, unix.SIGSTOP)
		eventually(t, "the guardian has stopped", func() bool { return isStopped(guardian) })
	}
	stop()
	if r := mustRun(t, s, sh(t, "exit 3"), Sink{}); r.Code != 3 {
		t.Errorf("started meanwhile: %+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	spec := sh(t, "echo; exec sleep 1000")
	done := startRun(ctx, t, s, spec, Sink{})
	stop()
	cancel()
	if r := <-done; r.Signal != "INT" {
		t.Errorf("ended meanwhile: %+v", r)
	}
	stop()
	if err := s.Close(); err != nil {
		t.Errorf("closed meanwhile: %v", err)
	}
}
