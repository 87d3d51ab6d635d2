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
	spans  map[string]eventSpan // by step
	broken error                // the first failure to store an event
}

// An eventSpan is the numbers of the first and the last event of a step.
type eventSpan struct{ first, last int64 }

// record returns the first failure to store an event, of this one or before.
func (r *recorder) record(e agents.Event) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	e = e.Numbered(r.seq)
	r.note(e.Step, r.seq)
	r.buf = append(e.Bounded(storedMax).AppendJSON(r.buf[:0]), '\n')
	if err := r.append(r.buf); err != nil && r.broken == nil {
		r.broken = err
	}
	if r.observe != nil {
		r.observe(e)
	}
	return r.broken
}

// note takes in that an event is the latest of a step. mu is held, or nothing else goes on.
func (r *recorder) note(step string, seq int64) {
	s, known := r.spans[step]
	if !known {
		s.first = seq
	}
	s.last = seq
	r.spans[step] = s
}

// span tells where the events of a step are; it is false if there are none.
func (r *recorder) span(step string) (eventSpan, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.spans[step]
	return s, ok
}

// err is the first failure to store an event.
func (r *recorder) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}
