package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"flow/agents/proc"
	"flow/agents/replay"
	"flow/pipeline/dag"
	"flow/state"
)

// A Recording is what a run stored, to be played again as another run: which attempts came
// to an end and in what order, what their processes printed, what people answered. An
// attempt that flow died in, or that a resume made again, is no part of it: played is the
// run as it would have been without that.
//
// It is for one goroutine, and for one playing.
type Recording struct {
	run      *state.View
	complete bool // all steps had ended
	nodes    map[string]*recordedNode
	said     map[string][]agentEnd // by path: how the agents' processes ended, as events tell
	// rulings are the decisions on calls that agents asked about, in order.
	rulings map[rulingKey][]recordedRuling
	played  map[string]string // labels of the recorded processes, by those of the playing
}

// A recordedNode is what is on record of the node at one path, in the order of the journal.
type recordedNode struct {
	known   bool       // there is any fact of it
	open    []int      // attempts that began and have not ended
	ends    []recorded // of attempts, rounds and what it grew
	current int        // of ends: the one that comes next
}

// A recorded is how an attempt ended, or what became of a node.
type recorded struct {
	fact   dag.Fact
	order  int      // its place in the journal
	labels []string // of the processes that the attempt ran, in order
}

// NewRecording reads what a run stored. complete says that all its steps had ended.
func NewRecording(run *state.View, complete bool) (*Recording, error) {
	r := &Recording{run: run, complete: complete, nodes: map[string]*recordedNode{}, said: map[string][]agentEnd{}, rulings: map[rulingKey][]recordedRuling{}, played: map[string]string{}}
	records, err := Effective(run.Records())
	if err != nil {
		return nil, err
	}
	order := 0
	for f, err := range Facts(records) {
		if err != nil {
			return nil, err
		}
		order += 2 // see won
		if err := r.note(f, order); err != nil {
			return nil, err
		}
	}
	return r, run.Events(r.event)
}

func (r *Recording) node(path string) *recordedNode {
	n := r.nodes[path]
	if n == nil {
		n = &recordedNode{}
		r.nodes[path] = n
	}
	return n
}

// note takes in a fact.
func (r *Recording) note(f dag.Fact, order int) (err error) {
	n := r.node(f.Path)
	n.known = true
	end := recorded{fact: f, order: order}
	switch f.Kind {
	case dag.Started:
		n.open = append(n.open, f.Attempt)
	case dag.Reopened: // what it had come to counts no more
		n.ends, n.open = nil, nil
	case dag.Stopped:
		n.open = nil
	case dag.Succeeded, dag.Failed:
		if slices.Contains(n.open, f.Attempt) {
			end.labels, err = r.processes(f.Path, n.open)
			n.open = nil
		}
		n.ends = append(n.ends, end)
		return errors.Join(err, r.won(f))
	case dag.Opened, dag.Continued, dag.Skipped:
		n.ends = append(n.ends, end)
	case dag.Lost, dag.Suspended, dag.Updated:
	}
	return err
}

// won has the winner of a race end before the others. Candidates may end at the same time:
// then their facts are stored in any order, and only the race's own says who won.
func (r *Recording) won(f dag.Fact) error {
	result, err := DecodeResult(f.Result)
	if err != nil || result.Winner == nil {
		return err
	}
	winner := r.node(fmt.Sprintf("%s.%d", f.Path, *result.Winner))
	if len(winner.ends) == 0 {
		return nil
	}
	last := &winner.ends[len(winner.ends)-1]
	for path, n := range r.nodes {
		number, inside := strings.CutPrefix(path, f.Path+".")
		if !inside || !isNumber(number) {
			continue
		}
		for _, other := range n.ends {
			if other.fact.Kind == dag.Succeeded && other.order < last.order {
				last.order = other.order - 1
			}
		}
	}
	return nil
}

// processes are the labels of the processes that the last of some attempts ran, together
// with those of lost ones before it that it took over: an agent that had done the step's
// task when flow died is not asked again, and what mends its work comes after it.
func (r *Recording) processes(path string, attempts []int) ([]string, error) {
	var all []string
	task := -1 // in all: the last process that an agent did the task itself in
	for i, attempt := range attempts {
		for turn := 1; ; turn++ {
			name := label(path, attempt, turn)
			if there, err := r.has(name, "stdout"); err != nil {
				return nil, err
			} else if !there {
				break
			}
			launch, isAgent, err := r.launch(name)
			if err != nil {
				return nil, err
			}
			lost := i < len(attempts)-1
			if ended, err := r.has(name, exitExt); err != nil {
				return nil, err
			} else if lost && !isAgent && !ended { // a script under way when flow died
				continue
			}
			if isAgent && launch.For == forTask {
				task = len(all)
			}
			all = append(all, name)
		}
	}
	if task < 0 { // of scripts
		return all[max(0, len(all)-1):], nil
	}
	return all[task:], nil
}

// has reports whether a file of a process is there.
func (r *Recording) has(name, ext string) (bool, error) {
	f, err := r.run.Open(r.run.AttemptPath(name, ext))
	if absent(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// absent reports whether err says that a file is not there, or is no file of a run.
func absent(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// launch reads how a process of an agent was started; false for one of a script.
func (r *Recording) launch(name string) (l Launch, ok bool, err error) {
	data, err := r.run.File(r.run.AttemptPath(name, launchExt))
	if absent(err) {
		return l, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	if err != nil {
		return l, false, fmt.Errorf("how %s was started cannot be read: %w", name, err)
	}
	return l, true, nil
}

// next is what is on record of how the node at path ends next, nil if nothing is.
func (r *Recording) next(path string) *recorded {
	n := r.nodes[path]
	if n == nil || n.current >= len(n.ends) {
		return nil
	}
	return &n.ends[n.current]
}

// Next picks the task that ended first: a Recording is a local.Order. What is not on record
// comes last; in a run that had not come to its end it is not done at all, and the playing
// ends there as well.
func (r *Recording) Next(tasks []dag.Task) int {
	first, unknown := -1, -1
	var order int
	for i, t := range tasks {
		switch end := r.next(t.Path); {
		case end != nil && (first < 0 || end.order < order):
			first, order = i, end.order
		case end == nil && unknown < 0 && r.complete:
			unknown = i
		}
	}
	if first < 0 {
		return unknown
	}
	return first
}

// Ends reports whether t came to an end.
func (r *Recording) Ends(t dag.Task) bool { return r.next(t.Path) != nil }

// advance takes in that a task of the node at path has been done.
func (r *Recording) advance(path string) {
	if n := r.nodes[path]; n != nil {
		n.current++
	}
}

// resolve finds the recorded process that stands for one of the playing: of a step's
// attempt, the one that has the same place among the attempt's.
func (r *Recording) resolve(name string) (string, bool) {
	if known, ok := r.played[name]; ok {
		return known, true
	}
	path, turn, ok := cutLabel(name)
	end := r.next(path)
	if !ok || end == nil || turn > len(end.labels) {
		return "", false
	}
	r.played[name] = end.labels[turn-1]
	return end.labels[turn-1], true
}

// cutLabel is the reverse of label, without the attempt.
func cutLabel(name string) (path string, turn int, ok bool) {
	fields := strings.Split(name, ".")
	if len(fields) < 3 {
		return "", 0, false
	}
	turn, err := strconv.Atoi(fields[len(fields)-1])
	return strings.Join(fields[:len(fields)-2], "."), turn, err == nil && turn > 0
}

// Processes returns the labels of the recorded processes that were played, by those that
// played them.
func (r *Recording) Processes() map[string]string { return r.played }

// Tape is what a process of the playing plays. It is for replay.Launcher.
func (r *Recording) Tape(name string) (t replay.Tape, err error) {
	known, ok := r.resolve(name)
	if !ok {
		return t, fmt.Errorf("process %s is not on record, and nothing is started in a replay", name)
	}
	if t.Stdout, err = r.stream(known, "stdout"); err != nil {
		return t, err
	}
	if t.Stderr, err = r.stream(known, "stderr"); err != nil {
		return t, err
	}
	e := r.exit(name)
	t.Result = proc.Result{Code: e.Code, Signal: e.Signal, Leftovers: e.Leftovers}
	if e.Error != "" {
		t.Result.Err = errors.New(e.Error)
	}
	return t, nil
}

func (r *Recording) stream(name, ext string) (io.ReadCloser, error) {
	f, err := r.run.Open(r.run.AttemptPath(name, ext))
	if absent(err) {
		return nil, nil //nolint:nilnil // a process need not print anything
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}
