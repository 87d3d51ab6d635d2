package proc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"flow/state/failpoint"
)

// A Record is how one process ended in a run whose flow died, as the guardian
// wrote it down: one JSON object a line.
type Record struct {
	Label string `json:"label"`
	PID   int    `json:"pid"`
	// Code is the exit code, or -1 if Signal ended the process.
	Code   int    `json:"code"`
	Signal string `json:"signal,omitempty"`
	// EndedByGuardian says that the process did not end by itself: it was still running
	// when flow died, or flow had asked for its end before.
	EndedByGuardian bool      `json:"endedByGuardian"`
	Time            time.Time `json:"time"`
}

// ReadRecords reads the records of a file, oldest first. An absent file has none.
// A line that is no record, which is what a crash in mid-write leaves, is skipped.
func ReadRecords(path string) ([]Record, error) {
	if err := failpoint.Fail("exits-read"); err != nil {
		return nil, fmt.Errorf("cannot read the exit records; check the file's owner and mode: %w", err)
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the exit records; check the file's owner and mode: %w", err)
	}
	var records []Record
	for line := range bytes.Lines(data) {
		var r Record
		if json.Unmarshal(line, &r) == nil && r.Label != "" {
			records = append(records, r)
		}
	}
	return records, nil
}

// appendRecords writes records behind what a file holds and syncs it. A torn line
// at its end is closed first.
func appendRecords(path string, records []Record) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	torn, err := isTorn(f)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if torn {
		b.WriteByte('\n')
	}
	enc := json.NewEncoder(&b)
	for _, r := range records {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	if _, err := f.Write(b.Bytes()); err != nil {
		return err
	}
	failpoint.Reach("exits-written")
	return f.Sync()
}

// isTorn reports whether the last line of f lacks its newline.
func isTorn(f *os.File) (bool, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return false, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], size-1)
	return last[0] != '\n', err
}
