package steps

import (
	"sync"

	"flow/agents"
)

// storedMax is the longest text of an event, in bytes, that is stored with it. The
// native line, which the event points to, has it whole.
const storedMax = 32 << 10

// A recorder numbers a run's events, stores them and passes them on, in one order.
// It may be used concurrently.
type recorder struct {
	append  func(lines []byte) error
	observe func(agents.Event) // called under the recorder's lock, in order

	mu     sync.Mutex
	seq    int64
	buf    []byte
	broken error // the first failure to store an event
}

// record returns the first failure to store an event, of this one or before.
func (r *recorder) record(e agents.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	e = e.Numbered(r.seq)
	r.buf = append(e.Bounded(storedMax).AppendJSON(r.buf[:0]), '\n')
	if err := r.append(r.buf); err != nil && r.broken == nil {
		r.broken = err
	}
	if r.observe != nil {
		r.observe(e)
	}
	return r.broken
}

// err is the first failure to store an event.
func (r *recorder) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}
