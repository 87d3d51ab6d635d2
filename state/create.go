package state

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"flow/state/disk"
	"flow/state/failpoint"
)

// createdData is what the first record of a journal says.
type createdData struct {
	ID     string `json:"id"`
	Format int    `json:"format"`
}

// Create begins a run. Its header and files appear under its id all at once, and
// durably, with the run's lock held; Close releases that. A run of the same id
// makes it fail with ErrExists, and leaves that run as it is.
func (s *Store) Create(h Header, files map[string][]byte) (*Run, error) {
	if err := checkCreate(h.ID, files); err != nil {
		return nil, err
	}
	h.Format = Format
	if h.Created.IsZero() {
		h.Created = time.Now()
	}
	h.Created = h.Created.UTC().Round(0)
	lock, err := s.build(h, files)
	if err != nil {
		return nil, s.createError(h.ID, err)
	}
	v, err := ReadRun(s.path(runsDir, h.ID))
	if err == nil {
		return s.start(v, lock)
	}
	return nil, errors.Join(err, unlockRun(lock))
}

func checkCreate(id string, files map[string][]byte) error {
	if err := CheckID(id); err != nil {
		return err
	}
	for name := range files {
		if err := checkFile(name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) createError(id string, err error) error {
	if errors.Is(err, ErrExists) {
		return &Error{Path: s.path(runsDir, id), Msg: id, Hint: "choose another id", Err: ErrExists}
	}
	return &Error{Path: s.path(runsDir, id), Msg: "cannot create the run", Hint: hintThen(err, "begin it again"), Err: err}
}

// build makes the run's directory aside and moves it to its place. It returns the
// lock, held.
func (s *Store) build(h Header, files map[string][]byte) (*disk.File, error) {
	temp := s.path(tempDir, tempName(h.ID+"."))
	lock, err := s.reserve(temp, h.ID)
	if err != nil {
		return nil, errors.Join(err, disk.RemoveAll(temp))
	}
	failpoint.Reach("run-reserved")
	err = fill(temp, h, files)
	if err == nil {
		failpoint.Reach("run-filled")
		err = s.publish(temp, h)
	}
	if err != nil {
		return nil, errors.Join(err, disk.RemoveAll(temp), lock.Close())
	}
	return lock, nil
}

// reserve makes the temporary directory with its lock held, so that no sweep takes
// it for one that a crash left. It is that of the run id, or of none.
func (s *Store) reserve(temp, id string) (*disk.File, error) {
	unlock, err := s.lock(unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if id != "" && exists(s.path(runsDir, id)) {
		return nil, ErrExists
	}
	if err := mkdir(temp); err != nil {
		return nil, err
	}
	return lockRun(context.Background(), temp, id)
}

// fill writes the files of a new run, all durable.
func fill(dir string, h Header, files map[string][]byte) error {
	header, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return err
	}
	first, err := firstRecord(h)
	if err != nil {
		return err
	}
	files = maps.Clone(files)
	if files == nil {
		files = map[string][]byte{}
	}
	files[headerFile] = append(header, '\n')
	files[journalFile] = first
	files[eventsFile] = nil
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := writeFile(filepath.Join(dir, name), files[name]); err != nil {
			return err
		}
	}
	for _, name := range []string{attemptsDir, blobsDir} {
		if err := mkdir(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return disk.SyncDir(dir)
}

// firstRecord returns the line with which the journal of a run begins.
func firstRecord(h Header) ([]byte, error) {
	data, err := encodeData(createdData{ID: h.ID, Format: h.Format})
	if err != nil {
		return nil, err
	}
	return encodeRecord(Record{Seq: 1, Time: h.Created, Type: typeCreated, Data: data}), nil
}

// publish gives a complete run its name. The index comes first: an entry without a
// directory is ignored, a directory without an entry would be missed.
func (s *Store) publish(temp string, h Header) error {
	unlock, err := s.lock(unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	place := s.path(runsDir, h.ID)
	if exists(place) {
		return ErrExists
	}
	if err := s.appendIndex(h.entry()); err != nil {
		return err
	}
	if err := disk.Rename(temp, place); err != nil {
		return err
	}
	failpoint.Reach("run-renamed")
	return disk.SyncDir(s.path(runsDir))
}

func tempName(prefix string) string {
	return fmt.Sprintf("%s%s", prefix, rand.Text()[:12])
}
