// Package sessions finds and reads the files in which the agents' CLIs keep their sessions.
// What stands in them is for the adapters to say; this package does what they may not,
// reading.
//
// The stores belong to others: nothing is written, no lock is taken, and nothing in them is
// trusted. Symbolic links out of a store, pipes, endless lines and files that are being
// written are all met sooner or later.
package sessions

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"flow/agents"
)

// A Store is a directory in which the CLI of an agent keeps sessions.
type Store struct {
	Agent  string // its name, as in `use`
	Dir    string
	Keeper agents.SessionKeeper
}

// A File is the file of one session.
type File struct {
	Store
	Name     string // within Dir, with slashes
	ID       string // the session's id, or its beginning
	Modified time.Time
	Size     int64
}

// List returns the files of the stores, those last written first. A store that is not there
// is empty. The error says what could not be read; the files that could are returned
// beside it.
func List(stores []Store) ([]File, error) {
	var all []File
	var problems []error
	for _, s := range stores {
		files, err := s.files()
		all, problems = append(all, files...), append(problems, err)
	}
	slices.SortStableFunc(all, func(a, b File) int {
		return cmp.Or(b.Modified.Compare(a.Modified), strings.Compare(a.Name, b.Name))
	})
	return all, errors.Join(problems...)
}

func (s Store) files() ([]File, error) {
	root, err := os.OpenRoot(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("the sessions of %s: %w", s.Agent, err)
	}
	defer root.Close()
	kept := s.Keeper.Sessions()
	var files []File
	for _, pattern := range kept.Patterns {
		names, err := fs.Glob(root.FS(), pattern) // a directory that cannot be read is left out
		if err != nil {
			return nil, fmt.Errorf("the sessions of %s: %w", s.Agent, err)
		}
		for _, name := range names {
			info, err := root.Lstat(name)
			if id := kept.ID(name); id != "" && err == nil && info.Mode().IsRegular() {
				files = append(files, File{Store: s, Name: name, ID: id, Modified: info.ModTime(), Size: info.Size()})
			}
		}
	}
	return files, nil
}

// Named returns the files whose sessions may have an id that begins with prefix: a name can
// hold less of the id than that.
func Named(files []File, prefix string) []File {
	return slices.DeleteFunc(slices.Clone(files), func(f File) bool {
		return !strings.HasPrefix(f.ID, prefix) && !strings.HasPrefix(prefix, f.ID)
	})
}
