package disk

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// An observer sees operations one by one.
type observer struct {
	mu  sync.Mutex
	see func(Op)
}

//nolint:gochecknoglobals // set once, by a test, before the first operation
var current atomic.Pointer[observer]

// Observe has see called with every operation of this process that succeeds, and with every
// write for the bytes that were written. They are done one after the other from then on, and
// see is called before the next one begins; it must not use this package. It is for tests,
// and must be called before any file is opened.
func Observe(see func(Op)) { current.Store(&observer{see: see}) }

func observing() bool { return current.Load() != nil }

// observed does an operation and shows it.
func observed(op Op, really func(*Op) error) error {
	o := current.Load()
	if o == nil {
		return really(&op)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	err := really(&op)
	if err == nil || len(op.Data) > 0 {
		o.see(op)
	}
	return err
}

// inodeOf is the number by which the file system knows an open file. Nobody but an observer
// asks for it.
func inodeOf(f *os.File) uint64 {
	if !observing() {
		return 0
	}
	info, err := f.Stat()
	if err != nil {
		return 0
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
