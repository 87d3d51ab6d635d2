package state

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"flow/state/disk"
)

// The names in a run's directory. docs/state.md specifies them.
const (
	headerFile  = "run.json"
	journalFile = "journal.jsonl"
	eventsFile  = "events.jsonl"
	lockFile    = "lock"
	exitsFile   = "exits.jsonl"
	attemptsDir = "attempts"
	blobsDir    = "blobs"
)

// Header is what is known of a run when it begins. It never changes.
type Header struct {
	Format      int       `json:"format"` // set by Create
	ID          string    `json:"id"`
	Name        string    `json:"name"` // of the pipeline
	File        string    `json:"file"` // the pipeline's file as the user named it
	Workspace   string    `json:"workspace"`
	FlowVersion string    `json:"flowVersion"`
	Created     time.Time `json:"created"` // zero: set by Create
	Simulated   bool      `json:"simulated,omitempty"`
	Steps       int       `json:"steps,omitempty"` // how many the plan has, for lists
	// Replays is the run that this one plays again, without starting anything.
	Replays string `json:"replays,omitempty"`
}

// A View is a run as it stood when it was read. Its methods may be called
// concurrently, and while the run goes on.
type View struct {
	dir     string
	header  Header
	records []Record
	end     int64 // of the journal's last record
}

// ReadRun reads the run in dir, wherever that is: in a state directory, or a copy
// from elsewhere. It takes no lock and writes nothing.
func ReadRun(dir string) (*View, error) {
	h, err := readHeader(dir)
	if err != nil {
		return nil, err
	}
	v := &View{dir: dir, header: h}
	// A reader can meet a journal between the cut of a torn tail and the next
	// append. Damage that is real is there the second time too.
	if err = v.readJournal(); err != nil {
		err = v.readJournal()
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

func readHeader(dir string) (Header, error) {
	name := filepath.Join(dir, headerFile)
	var h Header
	data, err := readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return h, corrupt(name, 0, "the file is missing")
	}
	if err != nil {
		return h, wrap(name, "cannot read", err)
	}
	err = json.Unmarshal(data, &h)
	return h, checkHeader(name, h, err)
}

// checkHeader judges a header and the error of decoding it.
func checkHeader(name string, h Header, err error) error {
	if h.Format > Format { // then the other fields need not be what they were
		return &Error{
			Path: name, Err: ErrNewer,
			Msg:  fmt.Sprintf("written by flow ≥ %s (format %d > %d)", h.FlowVersion, h.Format, Format),
			Hint: "use that version of flow",
		}
	}
	if err != nil {
		return corrupt(name, 0, err.Error())
	}
	if h.Format < 1 || CheckID(h.ID) != nil {
		return corrupt(name, 0, fmt.Sprintf("format %d, id %q", h.Format, h.ID))
	}
	return nil
}

// readJournal fills in the records.
func (v *View) readJournal() error {
	name := filepath.Join(v.dir, journalFile)
	data, err := readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return corrupt(name, 0, "the file is missing")
	}
	if err != nil {
		return wrap(name, "cannot read", err)
	}
	return v.parseJournal(name, data)
}

func (v *View) parseJournal(name string, data []byte) error {
	recs, end, err := scanJournal(data)
	if bad, ok := errors.AsType[*CorruptError](err); ok {
		return corrupt(name, bad.Offset, bad.Reason)
	}
	if len(recs) == 0 || !v.begins(recs[0]) {
		return corrupt(name, 0, "the first record must be that of the creation of run "+v.header.ID)
	}
	v.records, v.end = recs, end
	return nil
}

// begins says whether r is the record that Create writes. Without it an empty
// journal would pass for that of a new run.
func (v *View) begins(r Record) bool {
	var data createdData
	err := json.Unmarshal(r.Data, &data)
	return err == nil && r.Type == typeCreated && data.ID == v.header.ID
}

// Header returns what was known when the run began.
func (v *View) Header() Header { return v.header }

// Dir returns the run's directory.
func (v *View) Dir() string { return v.dir }

// Records returns the journal, oldest first. The first is of the type "created",
// and the one that Finish wrote of the type "finished"; the others are the
// caller's. The slice is shared: it must not be changed.
func (v *View) Records() []Record { return v.records }

// File returns a file of the run by its path in the run's directory, with slashes.
// The path cannot leave that directory, not by a symbolic link either.
func (v *View) File(name string) ([]byte, error) {
	f, err := v.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readOpened(f)
}

// Open is File for what need not fit into memory.
func (v *View) Open(name string) (*disk.File, error) {
	root, err := disk.OpenRoot(v.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|safeOpen, 0)
	if err != nil {
		return nil, err
	}
	if err := checkOpened(f, false); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// AttemptPath returns where a file of an attempt goes, relative to the run's
// directory: attempts/<label>.<ext>. What is not safe in a file's name (all but
// letters, digits, '-', '_' and inner dots) is written as '=' and two hexadecimal
// digits, and the end of a very long label as a hash, so that different labels
// never share a file.
func (v *View) AttemptPath(label, ext string) string {
	return path.Join(attemptsDir, escapeName(label)+"."+escapeName(ext))
}

func escapeName(s string) string {
	const limit, keep = 200, 150 // a file's name has at most 255 bytes
	var b []byte
	for i := range len(s) {
		if c := s[i]; isWord(c) || c == '.' && i > 0 {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "=%02x", c)
		}
	}
	if len(b) > limit {
		sum := sha256.Sum256([]byte(s))
		b = fmt.Appendf(b[:keep], "==%x", sum[:8])
	}
	return string(b)
}

// Audit calls fn with each line of the audit log, as Events does with those of the event
// log.
func (v *View) Audit(fn func(line []byte) error) error {
	f, err := openFile(filepath.Join(v.dir, auditFile), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	t := lineTail{f: f}
	return t.drain(fn)
}

// Summary returns the run's line in a list.
func (v *View) Summary() Summary {
	last := v.records[len(v.records)-1]
	s := v.header.summary()
	s.Status, s.Ended = finishedStatus(last)
	return s.live(v.dir)
}
