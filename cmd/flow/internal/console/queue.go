package console

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	// Patience is how long flow waits for a reader that takes nothing: a terminal that was
	// stopped by Ctrl-S, or a program that does something else.
	Patience = 10 * time.Second
	// backlog is how much may wait to be written before a writer waits, in bytes.
	backlog = 1 << 20
)

// A Queue lets flow write what it does not want to wait for. A slow reader slows flow down,
// as ever; one that takes nothing for [Patience] has flow go on without it: then the oldest
// lines give way to new ones, and a line tells how many, should it read again. It may be used
// concurrently.
type Queue struct {
	to io.Writer

	mu      sync.Mutex
	waiting [][]byte
	size    int           // bytes waiting
	lost    int           // lines that gave way, and nobody was told
	moved   chan struct{} // closed when the reader takes something; nil: nothing is being written
	stopped bool          // the reader has taken nothing for too long
}

// NewQueue returns a Queue for to, whose errors are left out.
func NewQueue(to io.Writer) *Queue { return &Queue{to: to} }

// Write keeps p until the reader takes it. It never fails.
func (q *Queue) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting, q.size = append(q.waiting, bytes.Clone(p)), q.size+len(p)
	if q.moved == nil {
		q.moved = make(chan struct{})
		go q.pass() // ends when nothing waits; a reader that never comes back keeps it until flow ends
	}
	for q.size > backlog && q.await() {
	}
	for q.size > backlog {
		q.drop()
	}
	return len(p), nil
}

// Drain waits until all is written, or the reader has stopped.
func (q *Queue) Drain() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.moved != nil && q.await() {
	}
}

// await waits for the reader to take something. It is false if it does not. The lock is not
// held meanwhile.
func (q *Queue) await() bool {
	if q.stopped {
		return false
	}
	moved := q.moved
	q.mu.Unlock()
	inTime := within(Patience, moved)
	q.mu.Lock()
	if !inTime && q.moved == moved {
		q.stopped = true
	}
	return !q.stopped
}

// within reports whether the channel is closed before that much time has passed.
func within(d time.Duration, done <-chan struct{}) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-done:
		return true
	case <-late.C:
		return false
	}
}

// drop lets the oldest lines go.
func (q *Queue) drop() {
	oldest := q.waiting[0]
	q.waiting, q.size = q.waiting[1:], q.size-len(oldest)
	q.lost += bytes.Count(oldest, []byte("\n"))
}

// pass writes what waits, until nothing does.
func (q *Queue) pass() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 {
		text := q.next()
		q.mu.Unlock()
		_, _ = q.to.Write(text)
		q.mu.Lock()
		close(q.moved)
		q.moved, q.stopped = make(chan struct{}), false
	}
	close(q.moved)
	q.moved = nil
}

// next takes what is to be written next.
func (q *Queue) next() []byte {
	if n := q.lost; n > 0 {
		q.lost = 0
		return fmt.Appendf(nil, "flow: %d lines are left out here: nobody read for %s\n", n, Patience)
	}
	text := q.waiting[0]
	q.waiting, q.size = q.waiting[1:], q.size-len(text)
	return text
}
