package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"flow/state/disk"
	"flow/state/failpoint"
)

// A Run is a run that this process alone may write. Its methods may be called
// concurrently. The View in it shows the run as it was when it was opened.
type Run struct {
	View
	store    *Store
	lock     *disk.File
	journal  *journal
	audit    auditLog
	finished atomic.Bool // the last record is that of Finish

	life   sync.RWMutex // held for reading by those who write, so that Close waits for them
	closed bool
}

// OpenRun opens a run to go on with it. A live process that has it open makes it
// fail at once with a *LockedError. If that process has ended and only what it
// started still holds the lock, OpenRun waits for that, up to 10 s or until ctx
// ends. What an interrupted write left is cut; what was damaged is an *Error
// around a *CorruptError, and nothing is changed.
func (s *Store) OpenRun(ctx context.Context, id string) (*Run, error) {
	if err := s.checkRun(id); err != nil {
		return nil, err
	}
	dir := s.path(runsDir, id)
	h, err := readHeader(dir)
	if err != nil {
		return nil, err
	}
	v := &View{dir: dir, header: h}
	if err := checkPlace(v, id); err != nil {
		return nil, err
	}
	lock, err := lockRun(ctx, dir, id)
	if err != nil {
		return nil, wrap(dir, "cannot lock the run", err)
	}
	if err := v.readJournal(); err != nil {
		return nil, errors.Join(err, unlockRun(lock))
	}
	_ = s.relist(v) // a list that lacks an end is none the worse for it
	for _, name := range withPrefix(filepath.Join(dir, blobsDir), blobTemp) {
		_ = disk.Remove(name) // left by a crash; harmless, and it will be tried again
	}
	return s.start(v, lock)
}

// start opens the files of a run whose lock is held.
func (s *Store) start(v *View, lock *disk.File) (*Run, error) {
	log, events, err := openLogs(v)
	if err != nil {
		return nil, errors.Join(wrap(v.dir, "cannot open the run", err), unlockRun(lock))
	}
	r := &Run{View: *v, store: s, lock: lock}
	r.finished.Store(v.records[len(v.records)-1].Type == typeFinished)
	r.journal = newJournal(log, events, int64(len(v.records)))
	return r, nil
}

func openLogs(v *View) (log, events appendFile, err error) {
	if log.f, err = openFile(filepath.Join(v.dir, journalFile), os.O_RDWR|os.O_APPEND); err != nil {
		return log, events, err
	}
	if events.f, err = openFile(filepath.Join(v.dir, eventsFile), os.O_RDWR|os.O_APPEND); err != nil {
		return log, events, errors.Join(missing(v.dir, err), log.f.Close())
	}
	log.size = v.end
	if err = cutLogs(&log, &events); err != nil {
		err = errors.Join(err, log.f.Close(), events.f.Close())
	}
	return log, events, err
}

// missing is the error of a run whose event log cannot be opened. Every run begins with one:
// a new one would hide what is lost.
func missing(dir string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &Error{Path: filepath.Join(dir, eventsFile), Msg: "is missing", Hint: "restore the file, or keep what is whole: flow state repair RUN --to DIR"}
}

// cutLogs removes torn tails. It also makes the journal durable: its last records
// may be in memory only, and they are about to be acted on.
func cutLogs(log, events *appendFile) (err error) {
	if events.size, err = cutTail(events.f); err != nil {
		return err
	}
	fi, err := log.f.Stat()
	if err == nil && fi.Size() > log.size {
		err = log.f.Truncate(log.size)
	}
	if err != nil {
		return err
	}
	failpoint.Reach("tails-cut")
	return log.f.Datasync()
}

// LockFile returns the file whose lock makes the run ours. A child that inherits it
// keeps the run locked until it ends, even if this process dies.
func (r *Run) LockFile() *os.File { return r.lock.OS() }

var recordType = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,63}$`)

// Append adds a record to the journal. The record is written, in order, before
// Append returns; with sync, it is also durable then, and so are all records and
// events before it. Data must marshal to JSON. When ctx ends while Append waits
// for the disk, it returns the error of ctx, and the record stands.
//
// After an error of the disk, the journal is closed to writers: it keeps what was
// acknowledged, and every later Append fails with the same *Error.
func (r *Run) Append(ctx context.Context, typ string, data any, sync bool) error {
	if !recordType.MatchString(typ) || typ == typeCreated || typ == typeFinished {
		return fmt.Errorf("record type %q must match %s and be neither %q nor %q", typ, recordType, typeCreated, typeFinished)
	}
	encoded, err := encodeData(data)
	if err != nil {
		return err
	}
	return r.whileOpen(func() error {
		if err := r.reopen(); err != nil {
			return err
		}
		return r.journal.append(ctx, typ, encoded, sync)
	})
}

// reopen tells the index that a finished run goes on.
func (r *Run) reopen() error {
	if !r.finished.CompareAndSwap(true, false) {
		return nil
	}
	return r.store.addIndex(entry{ID: r.header.ID, Type: entryResumed, Time: time.Now().UTC()})
}

// AppendEvents adds whole lines to the event log with one write(2). They become
// durable with the next synced record.
func (r *Run) AppendEvents(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if !bytes.HasSuffix(p, []byte("\n")) {
		return errors.New("events must end with a newline")
	}
	return r.whileOpen(func() error { return r.journal.events.write(p) })
}

// PutBlob stores data durably and returns its reference, "sha256:" and the sum in
// hexadecimal. Data that is there already is not written again.
func (r *Run) PutBlob(data []byte) (ref string, err error) {
	err = r.whileOpen(func() error {
		ref, err = putBlob(r.dir, data)
		return err
	})
	return ref, err
}

// Finish records, durably, that the run ended with status, and tells the index. If
// only the latter fails, the error is ErrUnlisted and the run is finished
// nevertheless; OpenRun makes up for it. A run that is resumed may be finished again.
func (r *Run) Finish(status string) error {
	if !recordType.MatchString(status) || slices.Contains(derivedStatuses(), status) {
		return fmt.Errorf("status %q must match %s and be none of %q", status, recordType, derivedStatuses())
	}
	data, err := json.Marshal(finishedData{Status: status})
	if err != nil {
		return err
	}
	return r.whileOpen(func() error {
		if err := r.journal.append(context.Background(), typeFinished, data, true); err != nil {
			return err
		}
		r.finished.Store(true)
		failpoint.Reach("run-finished")
		if err := r.store.addIndex(finishedEntry(r.header.ID, status, time.Now().UTC())); err != nil {
			return fmt.Errorf("%w: %w", ErrUnlisted, err)
		}
		return nil
	})
}

// Close waits for the calls under way, makes what they wrote durable and gives the
// run free. Closing it again does nothing.
func (r *Run) Close() error {
	r.life.Lock()
	defer r.life.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	return errors.Join(r.journal.close(), r.audit.close(), unlockRun(r.lock))
}

func (r *Run) whileOpen(fn func() error) error {
	r.life.RLock()
	defer r.life.RUnlock()
	if r.closed {
		return &Error{Path: r.dir, Msg: r.header.ID, Err: ErrClosed}
	}
	return fn()
}
