package state

import (
	"encoding/json"
	"errors"
	"os"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"flow/state/disk"
	"flow/state/failpoint"
)

// The statuses of runs that no process has finished. All others are the words given
// to Finish.
const (
	StatusRunning     = "running"
	StatusInterrupted = "interrupted" // not finished, and nobody works on it
	StatusDamaged     = "damaged"     // its files cannot be trusted
	StatusNewer       = "newer"       // written by a newer flow
)

func derivedStatuses() []string {
	return []string{StatusRunning, StatusInterrupted, StatusDamaged, StatusNewer}
}

// Summary is a run's line in a list.
type Summary struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	File      string    `json:"file"` // long ones lose their beginning
	Status    string    `json:"status"`
	Created   time.Time `json:"created"`
	Ended     time.Time `json:"ended,omitzero"` // zero while it is not finished
	Steps     int       `json:"steps,omitempty"`
	Simulated bool      `json:"simulated,omitempty"`
}

// finishedData is what the last record of a finished run says.
type finishedData struct {
	Status string `json:"status"`
}

// finishedStatus returns what a journal's last record says about the run's end.
func finishedStatus(last Record) (status string, ended time.Time) {
	var data finishedData
	if last.Type != typeFinished || json.Unmarshal(last.Data, &data) != nil {
		return StatusRunning, time.Time{}
	}
	return data.Status, last.Time
}

// live corrects the status of a run that was not said to be finished: nobody may
// work on it any more, or its end may not have reached the index.
func (s Summary) live(dir string) Summary {
	if s.Status != StatusRunning || lockHeld(dir) {
		return s
	}
	if rec, err := readLastRecord(dir); err == nil {
		s.Status, s.Ended = finishedStatus(rec)
	}
	if s.Status == StatusRunning {
		s.Status = StatusInterrupted
	}
	return s
}

func (h Header) summary() Summary {
	return Summary{
		ID: h.ID, Name: h.Name, File: h.File, Status: StatusRunning,
		Created: h.Created, Steps: h.Steps, Simulated: h.Simulated,
	}
}

// The types of index entries.
const (
	entryCreated  = "created"
	entryResumed  = "resumed"
	entryFinished = "finished"
)

// entry is a line of the index.
type entry struct {
	ID        string    `json:"id"`
	Type      string    `json:"type"`
	Time      time.Time `json:"time"`
	Status    string    `json:"status,omitempty"` // of finished; of created only if the run cannot be read
	Name      string    `json:"name,omitempty"`   // the rest: of created
	File      string    `json:"file,omitempty"`
	Steps     int       `json:"steps,omitempty"`
	Simulated bool      `json:"simulated,omitempty"`
}

func (h Header) entry() entry {
	return entry{
		ID: h.ID, Type: entryCreated, Time: h.Created,
		Name: tailOf(h.Name), File: tailOf(h.File), Steps: h.Steps, Simulated: h.Simulated,
	}
}

// tailOf keeps the end of a long text, so that the lines of the index stay small.
func tailOf(s string) string {
	const limit = 200
	if len(s) <= limit {
		return s
	}
	cut := len(s) - limit
	for cut < len(s) && !utf8.RuneStart(s[cut]) {
		cut++
	}
	return "…" + s[cut:]
}

func finishedEntry(id, status string, at time.Time) entry {
	return entry{ID: id, Type: entryFinished, Time: at, Status: status}
}

// relist tells the index how a run ended, should it not know: flow, or the disk, failed
// between the journal and the index.
func (s *Store) relist(v *View) error {
	status, at := finishedStatus(v.records[len(v.records)-1])
	if status == StatusRunning {
		return nil
	}
	newest, err := s.newestEntry(v.header.ID)
	if err != nil || newest.Type == entryFinished {
		return err
	}
	return s.addIndex(finishedEntry(v.header.ID, status, at))
}

// newestEntry is what the index says last of a run.
func (s *Store) newestEntry(id string) (entry, error) {
	f, err := openFile(s.path(indexFile), os.O_RDONLY)
	if err != nil {
		return entry{}, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return entry{}, err
	}
	for lines := newBackward(f, fi.Size()); ; {
		line, err := lines.next()
		if err != nil {
			return entry{}, err
		}
		var e entry
		if json.Unmarshal(line, &e) == nil && e.ID == id {
			return e, nil
		}
	}
}

// addIndex appends an entry.
func (s *Store) addIndex(e entry) error {
	unlock, err := s.lock(unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer unlock()
	return wrap(s.path(indexFile), "cannot append", s.appendIndex(e))
}

// appendIndex appends an entry, durably, under the lock of the state directory.
func (s *Store) appendIndex(e entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	isNew := !exists(s.path(indexFile))
	f, err := openFile(s.path(indexFile), os.O_RDWR|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	_, err = cutTail(f)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
	}
	if err == nil {
		failpoint.Reach("index-written")
		err = f.Datasync()
	}
	if err == nil && isNew {
		err = disk.SyncDir(s.dir)
	}
	return errors.Join(err, f.Close())
}
