package simulate

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"flow/agents"
)

// A session is the conversation that an agent keeps between processes.
type session struct {
	ID        string       `json:"id"`
	Parent    string       `json:"parent,omitempty"` // the session it was forked from
	Dir       string       `json:"dir"`              // where it began
	Model     string       `json:"model,omitempty"`
	Inherited int          `json:"inherited,omitempty"` // how many of the turns are the parent's
	Turns     []turnRecord `json:"turns"`
	Usage     agents.Usage `json:"usage"` // of all turns that were answered, the parent's included
}

// A turnRecord is one prompt and, once there is one, its answer.
type turnRecord struct {
	Prompt   string `json:"prompt"`
	Answer   string `json:"answer,omitempty"`
	Answered bool   `json:"answered"`
}

// turn is the number of the session's latest turn of its own, from 1.
func (s *session) turn() int { return len(s.Turns) - s.Inherited }

// A store is a directory with the sessions of one agent. Without a dir it keeps
// nothing.
type store struct {
	home, dir string
	saved     func(*session) error // is told of every session that was written, unless nil
}

// openStore returns the store of the process's agent, and makes its directory.
func (p *process) openStore() (store, error) {
	home := p.env(EnvHome)
	if home == "" {
		return store{}, fmt.Errorf("flow simulate: %s is not set: name a directory where sessions are kept", EnvHome)
	}
	s := store{home: home, dir: filepath.Join(home, p.name)}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return store{}, fmt.Errorf("flow simulate: cannot keep sessions, set %s to a directory that can be written: %w", EnvHome, err)
	}
	return s, nil
}

// path escapes the id: Gemini takes any string for one.
func (s store) path(id string) string { return filepath.Join(s.dir, url.PathEscape(id)+".json") }

// load returns the session, or an error that is fs.ErrNotExist.
func (s store) load(id string) (*session, error) {
	data, err := os.ReadFile(s.path(id))
	if err != nil {
		return nil, err
	}
	var out session
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("flow simulate: session %s is damaged, remove its file: %w", id, err)
	}
	return &out, nil
}

// create writes a session that must not exist yet: of two processes that choose
// the same id, one fails with fs.ErrExist.
func (s store) create(x *session) error {
	return s.write(x, os.Link)
}

// save replaces the session's file at once, so that a kill leaves the old one or
// the new one.
func (s store) save(x *session) error {
	return s.write(x, os.Rename)
}

func (s store) write(x *session, publish func(from, to string) error) error {
	if s.dir == "" {
		return nil
	}
	data, err := json.Marshal(x)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(s.dir, ".tmp-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // published by then, or of no use
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if err = publish(tmp.Name(), s.path(x.ID)); err != nil || s.saved == nil {
		return err
	}
	return s.saved(x)
}

// fork copies parent under a new id.
func fork(parent *session, id string) *session {
	child := *parent
	child.ID, child.Parent, child.Inherited = id, parent.ID, len(parent.Turns)
	return &child
}

// lock takes a session for this process until unlock is called; the kernel gives it back
// at its end. unlock is nil if another has it.
func (s store) lock(id string) (unlock func(), err error) {
	f, err := os.OpenFile(s.path(id)+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, nil
	}
	return func() { _ = f.Close() }, nil
}

// newest returns the session of dir that was used last, or nil.
func (s store) newest(dir string) (*session, error) {
	all, err := s.all()
	for _, x := range all {
		if x.Dir == dir {
			return x, err
		}
	}
	return nil, err
}

// all returns the sessions, those used last first.
func (s store) all() ([]*session, error) {
	files, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var out []*session
	used := map[*session]time.Time{}
	for _, file := range files {
		x, at, err := s.read(file)
		if err != nil {
			return nil, err
		}
		out, used[x] = append(out, x), at
	}
	slices.SortStableFunc(out, func(a, b *session) int { return used[b].Compare(used[a]) })
	return out, nil
}

func (s store) read(file string) (*session, time.Time, error) {
	id, err := url.PathUnescape(filepath.Base(file[:len(file)-len(".json")]))
	if err != nil {
		return nil, time.Time{}, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, time.Time{}, err
	}
	x, err := s.load(id)
	return x, info.ModTime(), err
}

// first reports whether this is one of the first n processes that ask under key.
// A marker file each is what makes the count right among concurrent processes.
func (s store) first(n int, key string) (bool, error) {
	dir, err := s.counter(key)
	if err != nil {
		return false, err
	}
	for i := range n {
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(i+1)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err == nil {
			return true, f.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return false, err
		}
	}
	return false, nil
}

// among reports whether the session is one of the first n that ask under key in dir. Asked
// again it says the same.
func (s store) among(n int, key, dir, session string) (bool, error) {
	counter, err := s.counter(fmt.Sprintf("%s=%x", key, sha256.Sum256([]byte(dir))))
	if err != nil {
		return false, err
	}
	for i := range n {
		marker := filepath.Join(counter, strconv.Itoa(i+1))
		if err := os.Symlink(url.PathEscape(session), marker); err == nil { // made and filled at once
			return true, nil
		} else if !errors.Is(err, fs.ErrExist) {
			return false, err
		}
		if owner, err := os.Readlink(marker); err != nil || owner == url.PathEscape(session) {
			return err == nil, err
		}
	}
	return false, nil
}

// counter makes the directory of the markers of key.
func (s store) counter(key string) (string, error) {
	dir := filepath.Join(s.home, "counters", url.PathEscape(key))
	return dir, os.MkdirAll(dir, 0o700)
}
