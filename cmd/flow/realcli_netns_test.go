package main

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A netns is a network namespace of its own, in which only loopback exists: what
// is started there can reach the scripted model and nothing else.
type netns struct{ work chan func() }

// newNetns returns a namespace, or one that is the test's own network where the
// system does not allow more (it takes root); the test's log says so.
func newNetns(t *testing.T) *netns {
	t.Helper()
	n := &netns{work: make(chan func())}
	ready := make(chan error)
	go func() {
		// The namespace is that of one thread, which is never unlocked: the runtime
		// ends it with the goroutine.
		runtime.LockOSThread()
		ready <- isolate()
		for f := range n.work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		t.Logf("no network namespace (%v): the agents could reach the network", err)
	}
	t.Cleanup(func() { close(n.work) })
	return n
}

// do calls f in the namespace. Sockets that f opens and processes that it starts
// belong to it.
func (n *netns) do(f func()) {
	done := make(chan struct{})
	n.work <- func() { defer close(done); f() }
	<-done
}

// isolate moves the calling thread into a network namespace with loopback up.
func isolate() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	loopback, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	loopback.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return os.NewSyscallError("ioctl", unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, loopback))
}
