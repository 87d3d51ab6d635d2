package steps

import (
	"encoding/json"
	"strconv"
	"strings"

	"flow/pipeline/dag"
	"flow/state"
)

// Begun are the attempts that a journal tells of. What else has an event or a file belongs
// to attempts whose records were lost: they will be numbered the same when they are made
// again, and the two must not be mixed up.
type Begun struct {
	attempts map[attemptKey]bool
	ended    map[attemptKey]bool // those that left a result
}

// NewBegun reads the attempts from the records of a run.
func NewBegun(records []state.Record) (Begun, error) {
	b := Begun{attempts: map[attemptKey]bool{}, ended: map[attemptKey]bool{}}
	for f, err := range Facts(records) {
		if err != nil {
			return b, err
		}
		if f.Kind == dag.Started {
			b.attempts[attemptKey{f.Path, f.Attempt}] = true
		} else if len(f.Result) > 0 {
			b.ended[attemptKey{f.Path, f.Attempt}] = true
		}
	}
	return b, nil
}

// Event reports whether an event, one JSON object, is of such an attempt, or of none.
func (b Begun) Event(line []byte) bool {
	var e struct {
		Step    string `json:"step"`
		Attempt int    `json:"attempt"`
	}
	if json.Unmarshal(line, &e) != nil {
		return false
	}
	return e.Attempt == 0 || b.attempts[attemptKey{e.Step, e.Attempt}]
}

// File reports the same of a file or directory in attempts/, by its name. Of very long paths
// the name has only a hash: such files are not taken for known.
func (b Begun) File(name string) bool { return fileIn(b.attempts, name) }

// Ended reports whether the attempt of a file in attempts/ left a result, by the file's name.
// What an attempt printed is durable by then, and not before.
func (b Begun) Ended(name string) bool { return fileIn(b.ended, name) }

func fileIn(attempts map[attemptKey]bool, name string) bool {
	fields := strings.Split(name, ".")
	n := len(fields) - 3 // attempt, turn, extension
	if n < 1 || strings.HasPrefix(name, "notify-") {
		return !strings.Contains(name, "==")
	}
	attempt, err := strconv.Atoi(fields[n])
	if err != nil || !isNumber(fields[n+1]) {
		return true
	}
	path := strings.Join(fields[:n], ".")
	return attempts[attemptKey{path, attempt}] || attempts[attemptKey{strings.TrimSuffix(path, "-setup"), attempt}]
}
