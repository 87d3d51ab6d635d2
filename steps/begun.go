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
	// forgotten is how many turns of an attempt are older than its record.
	forgotten map[attemptKey]int
}

// NewBegun reads the attempts from the records of a run.
func NewBegun(records []state.Record) (Begun, error) {
	b := Begun{attempts: map[attemptKey]bool{}, ended: map[attemptKey]bool{}, forgotten: map[attemptKey]int{}}
	for f, err := range Facts(records) {
		if err != nil {
			return b, err
		}
		if f.Kind == dag.Started {
			b.attempts[attemptKey{f.Path, f.Attempt}] = true
			r, err := DecodeResult(f.Result)
			if err != nil {
				return b, err
			}
			b.forgotten[attemptKey{f.Path, f.Attempt}] = r.Forgotten
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
func (b Begun) File(name string) bool {
	f, ok := readFileName(name)
	if !ok {
		return f.known
	}
	return b.attempts[f.attemptKey] || b.attempts[f.around()]
}

// Ended reports whether the attempt of a file in attempts/ left a result, by the file's name.
// What its processes printed is durable by then, and not before.
func (b Begun) Ended(name string) bool {
	f, ok := readFileName(name)
	if !ok {
		return f.known
	}
	key := f.around()
	return b.ended[key] && (key != f.attemptKey || f.turn > b.forgotten[key])
}

// A fileName says what a file in attempts/ is of.
type fileName struct {
	attemptKey
	turn  int
	known bool // of one that is of no attempt: no record is needed to know it
}

// around is the attempt of a step, of one to set up its workspace.
func (f fileName) around() attemptKey {
	return attemptKey{strings.TrimSuffix(f.step, "-setup"), f.attempt}
}

// readFileName is false for what is of no attempt of a step.
func readFileName(name string) (f fileName, ok bool) {
	fields := strings.Split(name, ".")
	n := len(fields) - 3 // attempt, turn, extension
	if n < 1 || strings.HasPrefix(name, "notify-") {
		return fileName{known: !strings.Contains(name, "==")}, false
	}
	attempt, err := strconv.Atoi(fields[n])
	turn, turnErr := strconv.Atoi(fields[n+1])
	if err != nil || turnErr != nil {
		return fileName{known: true}, false
	}
	return fileName{attemptKey: attemptKey{strings.Join(fields[:n], "."), attempt}, turn: turn}, true
}
