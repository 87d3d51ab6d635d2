package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// A signalled error is the cause of a turn that a signal ended.
type signalled struct{ signal syscall.Signal }

func (s signalled) Error() string { return "signal: " + s.signal.String() }

// errClosed is the cause of a turn that ended since nobody reads its output.
var errClosed = errors.New("standard output is closed")

// watch returns a context that SIGINT, SIGTERM or SIGHUP ends with a signalled
// cause, and a function that stops watching.
func watch() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	arrived := make(chan os.Signal, 4)
	// SIGPIPE is caught for the write to return an error instead of being fatal.
	signal.Notify(arrived, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case s := <-arrived:
				if s != syscall.SIGPIPE {
					cancel(signalled{s.(syscall.Signal)})
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(arrived)
		cancel(nil)
		<-done
	}
}

// dieBy ends the process by a signal it does not handle.
func dieBy(s syscall.Signal) int {
	signal.Reset(s)
	_ = syscall.Kill(os.Getpid(), s)
	<-time.After(time.Minute) // the signal is on its way
	return 128 + int(s)
}

// crash ends the process by a signal. The Go runtime catches some, SIGSEGV among them, to
// report a panic, whoever sent it, so a shell takes the process's place and dies of it.
func crash(s syscall.Signal) int {
	script := fmt.Sprintf("ulimit -c 0; kill -%d $$", int(s))
	_ = syscall.Exec("/bin/sh", []string{"sh", "-c", script}, os.Environ())
	return dieBy(syscall.SIGKILL)
}
