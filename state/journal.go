package state

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync"
	"syscall"
	"time"

	"flow/state/disk"
	"flow/state/failpoint"
)

// journal appends records to the journal of a run, and events to its event log.
// Its methods may be called concurrently.
//
// Records are written at once and in order. Making them durable is the work of one
// goroutine: those who wait for it form a group that shares one fdatasync(2), and
// while that runs the next group gathers on the channel.
type journal struct {
	fdatasync func(*disk.File) error
	waiters   chan chan error
	served    chan struct{} // closed when the goroutine has ended

	mu  sync.Mutex // guards log and seq
	log appendFile
	seq int64

	synced int64 // the size that is durable; only the goroutine uses it
	events eventLog
}

// eventLog is appended without waiting for the disk. It becomes durable with the
// journal's next sync.
type eventLog struct {
	mu    sync.Mutex
	log   appendFile
	dirty bool
}

// newJournal goes on after the record seq, which ends at log.size. All of that must
// be durable. The caller must call close.
func newJournal(log, events appendFile, seq int64) *journal {
	j := &journal{
		fdatasync: datasync,
		waiters:   make(chan chan error),
		served:    make(chan struct{}),
		log:       log,
		seq:       seq,
		synced:    log.size,
		// What an earlier process wrote may not be on the disk yet.
		events: eventLog{log: events, dirty: events.size > 0},
	}
	go j.serve()
	return j
}

// append writes a record and, if asked, waits until it survives a crash of the
// machine. When ctx ends that wait, the record stands all the same.
func (j *journal) append(ctx context.Context, typ string, data json.RawMessage, sync bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := j.write(typ, data); err != nil || !sync {
		return err
	}
	done := make(chan error, 1) // the goroutine must not wait for us
	select {
	case j.waiters <- done:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (j *journal) write(typ string, data json.RawMessage) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := encodeRecord(Record{Seq: j.seq + 1, Time: time.Now().UTC(), Type: typ, Data: data})
	if err := j.log.write(line); err != nil {
		return err
	}
	j.seq++
	failpoint.Reach("journal-written")
	return nil
}

// serve makes what was written durable, one group of waiters after the other.
func (j *journal) serve() {
	defer close(j.served)
	for first := range j.waiters {
		runtime.Gosched() // let those whom the last group released join: with 2 callers, half the syncs
		group := j.gather(first)
		err := j.sync()
		for _, done := range group {
			done <- err
		}
	}
}

// gather returns first and all who wait already.
func (j *journal) gather(first chan error) []chan error {
	group := []chan error{first}
	for {
		select {
		case done, ok := <-j.waiters:
			if !ok {
				return group
			}
			group = append(group, done)
		default:
			return group
		}
	}
}

// sync makes all events and records written so far durable. After an error the
// kernel may have dropped what it could not write, and a second fsync would not
// say so: what is not known to be durable is removed.
func (j *journal) sync() error {
	end, err := j.written()
	if err != nil {
		return err
	}
	eventsErr := j.events.sync(j.fdatasync)
	failpoint.Reach("events-synced")
	if err := j.fdatasync(j.log.f); err != nil {
		return j.fail(errors.Join(eventsErr, err))
	}
	failpoint.Reach("journal-synced")
	j.synced = end
	if eventsErr != nil { // nothing is acknowledged; what was recorded is kept, to be gone on from
		return j.fail(eventsErr)
	}
	return nil
}

func (j *journal) written() (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.log.err != nil {
		return 0, j.log.err
	}
	return j.log.size, nil
}

// datasync makes what is in f durable. A file that has lost its name keeps nothing.
func datasync(f *disk.File) error {
	if err := f.Datasync(); err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Nlink == 0 {
		return ErrGone
	}
	return nil
}

func (j *journal) fail(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.log.poison(j.synced, "cannot make the journal durable", err)
}

// close syncs what is left and closes the files. No other call may be under way.
func (j *journal) close() error {
	close(j.waiters)
	<-j.served
	var err error
	if j.log.size != j.synced || j.events.dirty {
		err = j.sync()
	}
	return errors.Join(err, j.log.f.Close(), j.events.log.f.Close())
}

func (e *eventLog) write(p []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dirty = true
	return e.log.write(p)
}

func (e *eventLog) sync(fdatasync func(*disk.File) error) error {
	if !e.takeDirty() {
		return nil
	}
	err := fdatasync(e.log.f)
	if err == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log.poison(e.log.size, "cannot make the events durable", err)
}

// takeDirty says whether there is something to sync. Writes after it belong to the
// next sync.
func (e *eventLog) takeDirty() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.dirty
	e.dirty = false
	return was
}
