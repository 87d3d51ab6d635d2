package proc

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

const (
	bufferSize = 64 << 10
	// sweepSize is how much of one stream is read before the next has its turn.
	sweepSize = 1 << 20
)

// A tailer reads the output files of all running processes in one goroutine, on a
// tick. The goroutine exists only while there is something to read.
type tailer struct {
	tick    time.Duration
	buffers sync.Pool // of *[bufferSize]byte
	group   sync.WaitGroup

	mu      sync.Mutex
	tails   []*tail
	running bool
}

func newTailer(tick time.Duration) *tailer {
	return &tailer{tick: tick, buffers: sync.Pool{New: func() any { return new([bufferSize]byte) }}}
}

// add has x read from now on.
func (t *tailer) add(x *tail) {
	if len(x.streams) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tails = append(t.tails, x)
	if !t.running {
		t.running = true
		t.group.Go(t.loop)
	}
}

// finish takes x out and delivers the rest of its files.
func (t *tailer) finish(x *tail) error {
	if len(x.streams) == 0 {
		return nil
	}
	t.mu.Lock()
	for i := range t.tails {
		if t.tails[i] == x {
			last := len(t.tails) - 1
			t.tails[i], t.tails[last] = t.tails[last], nil
			t.tails = t.tails[:last]
			break
		}
	}
	t.mu.Unlock()
	buf := t.buffers.Get().(*[bufferSize]byte)
	defer t.buffers.Put(buf)
	return x.finish(buf[:])
}

func (t *tailer) loop() {
	buf := t.buffers.Get().(*[bufferSize]byte)
	defer t.buffers.Put(buf)
	ticker := time.NewTicker(t.tick)
	defer ticker.Stop()
	var batch []*tail
	for range ticker.C {
		for more := true; more; {
			if batch = t.batch(batch[:0]); len(batch) == 0 {
				return
			}
			more = false
			for _, x := range batch {
				more = x.sweep(buf[:]) || more
			}
		}
		clear(batch) // keep no finished tail alive
	}
}

// batch is what there is to read now. If nothing is, the loop must end.
func (t *tailer) batch(into []*tail) []*tail {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = len(t.tails) > 0
	return append(into, t.tails...)
}

// A tail delivers the lines of one process. mu is held while it does.
type tail struct {
	streams []*stream // those somebody listens to
	growing func()    // called when a stream has grown beyond what is delivered now
	stop    func()    // called once when delivering fails

	mu     sync.Mutex
	failed error
	closed bool
}

// openTail prepares the streams of m that sink listens to. What the files hold
// already is not delivered.
func openTail(m start, sink Sink, maxLine int64) (*tail, error) {
	x := &tail{growing: sink.Growing}
	for _, f := range []struct {
		path    string
		deliver func(Line)
		end     int64
	}{{m.Stdout, sink.Stdout, 0}, {m.Stderr, sink.Stderr, m.Limits.headEnd()}} {
		if f.deliver == nil || f.path == "" {
			continue
		}
		s, err := openStream(f.path, f.deliver, maxLine)
		if err != nil {
			x.close()
			return nil, err
		}
		s.end = f.end
		x.streams = append(x.streams, s)
	}
	return x, nil
}

// sweep delivers what is new, up to a limit, and reports whether there is more.
func (x *tail) sweep(buf []byte) (more bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed || x.failed != nil {
		return false
	}
	x.try(func() error {
		for _, s := range x.streams {
			again, grown, err := s.sweep(buf)
			if err != nil {
				return err
			}
			if grown && x.growing != nil {
				x.growing()
			}
			more = more || again
		}
		return nil
	})
	return more && x.failed == nil
}

// finish delivers what the files hold now; a descendant that got away may go on
// writing. It closes the files and returns why delivering failed.
func (x *tail) finish(buf []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.failed == nil {
		x.try(func() error {
			for _, s := range x.streams {
				if err := s.drain(buf); err != nil {
					return err
				}
			}
			return nil
		})
	}
	x.close()
	return x.failed
}

// try does what may panic: a sink is the caller's code, and other processes must
// not suffer from it.
func (x *tail) try(do func() error) {
	defer func() {
		if r := recover(); r != nil {
			x.failed = fmt.Errorf("a sink panicked: %v\n%s", r, debug.Stack())
		}
		if x.failed != nil && x.stop != nil {
			x.stop()
		}
	}()
	x.failed = do()
}

func (x *tail) close() {
	x.closed = true
	for _, s := range x.streams {
		s.file.Close()
	}
}
