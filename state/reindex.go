package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"flow/state/disk"
	"flow/state/failpoint"
)

// Reindex writes the index anew from the runs themselves. Runs that cannot be read
// are listed as damaged.
func (s *Store) Reindex() error {
	unlock, err := s.lock(unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	return wrap(s.path(indexFile), "cannot rebuild the index", s.reindex())
}

func (s *Store) reindex() error {
	names, err := s.names()
	if err != nil {
		return err
	}
	var entries []entry
	for _, id := range names {
		entries = append(entries, s.entries(id)...)
	}
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID))
	})
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, e := range entries {
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	return s.replaceIndex(b.Bytes())
}

func (s *Store) replaceIndex(data []byte) error {
	temp := s.path(tempDir, tempName("index-"))
	err := writeFile(temp, data)
	if err == nil {
		failpoint.Reach("index-rebuilt")
		err = disk.Rename(temp, s.path(indexFile))
	}
	if err != nil {
		return errors.Join(err, removeTemp(temp))
	}
	return disk.SyncDir(s.dir)
}

// entries returns what the index should say about a run.
func (s *Store) entries(id string) []entry {
	dir := s.path(runsDir, id)
	h, err := readHeader(dir)
	if err == nil && h.ID != id {
		err = errIndex
	}
	if err != nil {
		return []entry{unreadable(dir, id, err)}
	}
	rec, err := readLastRecord(dir)
	if err != nil {
		return []entry{unreadable(dir, id, err)}
	}
	list := []entry{h.entry()}
	if status, ended := finishedStatus(rec); status != StatusRunning {
		list = append(list, finishedEntry(id, status, ended))
	}
	return list
}

// unreadable describes a run by the little that its directory tells.
func unreadable(dir, id string, err error) entry {
	e := entry{ID: id, Type: entryCreated, Status: StatusDamaged}
	if errors.Is(err, ErrNewer) {
		e.Status = StatusNewer
	}
	if fi, err := disk.Stat(dir); err == nil {
		e.Time = fi.ModTime().UTC().Truncate(time.Second)
	}
	return e
}

func readLastRecord(dir string) (Record, error) {
	f, err := openFile(filepath.Join(dir, journalFile), os.O_RDONLY)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	return lastRecord(f)
}
