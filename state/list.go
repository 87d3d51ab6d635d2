package state

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"flow/state/disk"
)

// errIndex means that the index must be rebuilt.
var errIndex = errors.New("the index is missing or damaged")

// Runs lists the newest runs, at most limit of them, or all if limit is 0. It reads
// only as much of the index as that takes, and rebuilds it if need be.
func (s *Store) Runs(limit int) ([]Summary, error) {
	limit = max(limit, 0)
	list, err := s.list(limit, true)
	if errors.Is(err, errIndex) {
		if err := s.Reindex(); err != nil {
			return nil, err
		}
		list, err = s.list(limit, false)
	}
	return list, wrap(s.path(indexFile), "cannot list the runs", err)
}

// list reads the index. When it reads all of it, it can also tell whether a run is
// missing there, and with complete it insists that none is.
func (s *Store) list(limit int, complete bool) ([]Summary, error) {
	if limit > 0 {
		list, err := s.scan(limit, func(id string) bool { return exists(s.path(runsDir, id)) })
		if err != nil || len(list) == limit {
			return list, err
		}
	}
	names, err := s.names() // before the index: Create writes that first
	if err != nil {
		return nil, err
	}
	list, err := s.scan(limit, func(id string) bool {
		_, found := slices.BinarySearch(names, id)
		return found
	})
	missing := len(list) < len(names) && (limit == 0 || len(list) < limit)
	if err == nil && missing && complete {
		err = errIndex
	}
	return list, err
}

// IDs returns the ids of all runs, sorted, from the directories.
func (s *Store) IDs() ([]string, error) {
	names, err := s.names()
	return names, wrap(s.path(runsDir), "cannot list the runs", err)
}

// names returns the ids of all runs, sorted, from the directory.
func (s *Store) names() ([]string, error) {
	entries, err := disk.ReadDir(s.path(runsDir))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if e.IsDir() && CheckID(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// scan reads the index from its end until it has found limit runs that are there.
func (s *Store) scan(limit int, there func(id string) bool) ([]Summary, error) {
	f, err := openFile(s.path(indexFile), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errIndex
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	l := lister{store: s, there: there, words: map[string]entry{}}
	lines := newBackward(f, fi.Size())
	for err == nil && (limit == 0 || len(l.list) < limit) {
		var line []byte
		if line, err = lines.next(); err == nil {
			err = l.add(line)
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return l.list, nil
}

// lister makes summaries from the entries of an index, newest first.
type lister struct {
	store *Store
	there func(id string) bool
	words map[string]entry // the newest entry of each run that was met
	list  []Summary
}

func (l *lister) add(line []byte) error {
	var e entry
	if json.Unmarshal(line, &e) != nil || CheckID(e.ID) != nil {
		return errIndex
	}
	word, met := l.words[e.ID]
	if !met {
		word = e
		l.words[e.ID] = e
	}
	if e.Type != entryCreated || word.Type == entryListed || !l.there(e.ID) {
		return nil
	}
	l.words[e.ID] = entry{Type: entryListed}
	l.list = append(l.list, summarise(e, word).live(l.store.path(runsDir, e.ID)))
	return nil
}

// entryListed marks, in a lister, a run that is in the list. An older entry of the
// same id was of a run that is gone.
const entryListed = "listed"

func summarise(created, word entry) Summary {
	s := Summary{
		ID: created.ID, Name: created.Name, File: created.File, Status: StatusRunning,
		Created: created.Time, Steps: created.Steps, Simulated: created.Simulated,
	}
	if created.Status != "" {
		s.Status = created.Status
	}
	if word.Type == entryFinished {
		s.Status, s.Ended = word.Status, word.Time
	}
	return s
}

// Resolve returns the id that a user means by an id, by the beginning of one that no
// other run shares, or by "last" or "latest".
func (s *Store) Resolve(prefix string) (string, error) {
	if prefix == "last" || prefix == "latest" {
		return s.newest()
	}
	names, err := s.names()
	if err != nil {
		return "", wrap(s.dir, "cannot list the runs", err)
	}
	if _, found := slices.BinarySearch(names, prefix); found {
		return prefix, nil
	}
	names = slices.DeleteFunc(names, func(id string) bool { return !strings.HasPrefix(id, prefix) })
	switch {
	case len(names) == 0 || prefix == "":
		return "", s.notFound(prefix)
	case len(names) > 1:
		return "", &Error{Path: s.dir, Msg: prefix + " may mean " + candidates(names), Hint: "give more of the id", Err: ErrAmbiguous}
	}
	return names[0], nil
}

func (s *Store) newest() (string, error) {
	list, err := s.Runs(1)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", s.notFound("there is no run yet")
	}
	return list[0].ID, nil
}

func candidates(ids []string) string {
	const show = 5
	if len(ids) <= show {
		return strings.Join(ids, ", ")
	}
	return strings.Join(ids[:show], ", ") + ", …"
}
