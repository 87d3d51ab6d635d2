package state

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// auditFile is the audit log of a run: one JSON object a line for every decision about
// what an agent may do. A run without such decisions has none.
const auditFile = "audit.jsonl"

// An auditLog is opened when there is something to write.
type auditLog struct {
	mu  sync.Mutex
	log appendFile
}

// AppendAudit adds one whole line, which survives the end of this process when AppendAudit
// returns. It becomes durable when the run is closed.
func (r *Run) AppendAudit(line []byte) error {
	if !bytes.HasSuffix(line, []byte("\n")) {
		return errors.New("a line of the audit log must end with a newline")
	}
	return r.whileOpen(func() error { return r.audit.write(r.dir, line) })
}

func (a *auditLog) write(dir string, line []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.log.f == nil {
		if err := a.open(dir); err != nil {
			return wrap(filepath.Join(dir, auditFile), "cannot open the audit log", err)
		}
	}
	return a.log.write(line)
}

// open cuts what a crash left of a last line.
func (a *auditLog) open(dir string) error {
	f, err := openFile(filepath.Join(dir, auditFile), os.O_RDWR|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	size, err := cutTail(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	a.log = appendFile{f: f, size: size}
	return nil
}

// close makes the log durable.
func (a *auditLog) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.log.f == nil {
		return nil
	}
	return errors.Join(a.log.f.Datasync(), a.log.f.Close())
}
