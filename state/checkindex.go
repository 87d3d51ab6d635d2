package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"flow/state/disk"
)

// reindexHint sets right whatever is wrong with the index.
const reindexHint = "flow state reindex writes the index anew"

// Check looks for what is wrong with the state directory itself: with what stands beside the
// runs, and with the index. It changes nothing. The error says that it could not look.
func (s *Store) Check() ([]Finding, error) {
	unlock, err := s.lock(unix.LOCK_SH)
	if err != nil {
		return nil, wrap(s.dir, "cannot lock the state directory", err)
	}
	defer unlock()
	found, err := s.checkNames()
	if err != nil {
		return nil, wrap(s.dir, "cannot list the runs", err)
	}
	more, err := s.checkIndex()
	return append(found, more...), wrap(s.path(indexFile), "cannot read", err)
}

// checkNames judges the state directory's own files, and what is no run in the directory of
// the runs.
func (s *Store) checkNames() ([]Finding, error) {
	var found []Finding
	for _, name := range []string{runsDir, tempDir, indexFile} {
		fi, err := disk.Lstat(s.path(name))
		if err != nil {
			continue // Open has made the directories, and the index may be missing
		}
		if f, ok := judgeFile(s.path(name), fi); !ok {
			found = append(found, f)
		}
	}
	entries, err := disk.ReadDir(s.path(runsDir))
	for _, e := range entries {
		if e.IsDir() && CheckID(e.Name()) == nil {
			continue
		}
		f := Finding{Path: s.path(runsDir, e.Name()), What: "this is no run", Hint: "move it elsewhere"}
		if e.Type()&fs.ModeSymlink != 0 {
			f.What = "a symbolic link, which flow does not take for a run"
		}
		found = append(found, f)
	}
	return found, err
}

// checkIndex compares the index with the runs.
func (s *Store) checkIndex() ([]Finding, error) {
	f, err := openFile(s.path(indexFile), os.O_RDONLY)
	names, listErr := s.names()
	switch {
	case listErr != nil:
		return nil, listErr
	case errors.Is(err, fs.ErrNotExist) && len(names) == 0:
		return nil, nil
	case err != nil:
		return []Finding{{Path: s.path(indexFile), What: err.Error(), Hint: reindexHint}}, nil
	}
	defer f.Close()
	words := map[string]entry{}
	var found []Finding
	_, err = eachWhole(f, func(line []byte, offset int64) {
		var e entry
		if json.Unmarshal(line, &e) != nil || CheckID(e.ID) != nil {
			bad := CorruptError{Offset: offset, Reason: "the line is no entry of a run"}
			found = append(found, Finding{Path: s.path(indexFile), What: bad.Error(), Hint: reindexHint})
			return
		}
		words[e.ID] = e
	})
	for _, id := range names {
		if f, ok := s.agrees(id, words); !ok {
			found = append(found, f)
		}
	}
	return found, err
}

// agrees compares what the index says of a run with the run. Of one that is under way or
// cannot be read nothing is expected.
func (s *Store) agrees(id string, words map[string]entry) (Finding, bool) {
	f := Finding{Path: s.path(indexFile), Hint: reindexHint}
	word, listed := words[id]
	if !listed {
		f.What = "run " + id + " is missing in it"
		return f, false
	}
	entries := s.entries(id)
	want := entries[len(entries)-1]
	if want.Type == entryCreated && want.Status != "" || lockHeld(s.path(runsDir, id)) {
		return f, true
	}
	says, is := ended(word), ended(want)
	switch {
	case says == is:
		return f, true
	case says == "": // flow was killed between the journal and the index
		f.What, f.Harmless = fmt.Sprintf("it does not know yet that run %s is %s", id, is), true
	case is == "":
		f.What = fmt.Sprintf("it says that run %s is %s, but its journal has no such end", id, says)
		f.Hint = "the journal may have lost its last records: restore it, or go on with what is there (" + reindexHint + ")"
	default:
		f.What = fmt.Sprintf("it says that run %s is %s, but its journal says %s", id, says, is)
	}
	return f, false
}

// ended is the status with which a run ended, by its newest entry.
func ended(e entry) string {
	if e.Type != entryFinished {
		return ""
	}
	return e.Status
}
