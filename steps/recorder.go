package steps

import (
	"sync"

	"flow/agents"
)

// storedMax is the longest text of an event, in bytes, that is stored with it. The
// native line, which the event points to, has it whole.
const storedMax = 32 << 10

// A recorder masks a run's events, numbers them, stores them and passes them on, in one order.
// It may be used concurrently.
type recorder struct {
	append  func(lines []byte) error
	observe func(agents.Event) // called under the recorder's lock, in order
	deltas  *deltas

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
	events := r.deltas.masked(e)
	r.buf = r.buf[:0]
	for i := range events { // together, so that a crash leaves all of them or none
		r.seq++
		events[i] = events[i].Numbered(r.seq)
		r.note(e.Step, r.seq)
		r.buf = append(events[i].Bounded(storedMax).AppendJSON(r.buf), '\n')
	}
	if err := r.append(r.buf); err != nil && r.broken == nil {
		r.broken = err
	}
	for _, e := range events {
		if r.observe != nil {
			r.observe(e)
		}
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

// skip takes in an event that was recorded by an earlier process.
func (r *recorder) skip(e agents.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deltas.masked(e)
}

// err is the first failure to store an event.
func (r *recorder) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}
