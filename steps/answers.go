package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"flow/state/disk"
	"flow/state/failpoint"
)

// answersDir is where answers are left, in the run's directory: NAME.json by `flow
// approve`, and NAME.taken-ATTEMPT.json once an attempt has taken it, NAME being that of
// the step's path. The two steps of taking it, the name and then the fact, let no answer
// get lost, and none count twice.
const answersDir = "answers"

// answersPoll is how often answers are looked for.
const answersPoll = 250 * time.Millisecond

// ErrAnswered is the error of PutAnswer when there is an answer that has not been taken yet.
var ErrAnswered = errors.New("there is an answer already")

// A runDir is the part of a run's record that says where files are; *state.View is one.
type runDir interface {
	Dir() string
	AttemptPath(label, ext string) string
}

// PutAnswer leaves an answer to the question of that key (Question.Key) of a run, whether the run is under
// way or not. It is there as a whole or not at all, and durable when PutAnswer returns.
func PutAnswer(run runDir, key string, a Answer) error {
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	for range 3 {
		if err = putAnswer(run, answerFile(run, key, "json"), data); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		// A resume that begins at this moment took the file for one that a kill left.
	}
	return err
}

func putAnswer(run runDir, name string, data []byte) error {
	if err := disk.MkdirAllDurably(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	temp, err := createScratch(scratchOf(run.Dir()))
	if err != nil {
		return err
	}
	defer func() { _ = disk.Remove(temp.Name()) }()
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return err
	}
	// A link, and not a rename, which would replace an answer that is there.
	if err := disk.Link(temp.Name(), name); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return ErrAnswered
		}
		return err
	}
	failpoint.Reach("answer-linked")
	return disk.SyncDir(filepath.Dir(name))
}

// Answered reports whether an answer to the question of that key is there that has not
// been taken.
func Answered(run runDir, key string) bool {
	_, err := disk.Lstat(answerFile(run, key, "json"))
	return err == nil
}

func answerFile(run runDir, path, ext string) string {
	return filepath.Join(run.Dir(), answersDir, filepath.Base(run.AttemptPath(path, ext)))
}

// answers finds the answers that are left for questions. While questions wait, one
// goroutine looks for all of them; otherwise there is none.
type answers struct {
	run  runDir
	log  hclog.Logger
	seal func(file string) error // masks an answer that was taken; nil: none is

	mu      sync.Mutex
	unused  map[string]int           // the attempts that asked about calls and had no ruling when flow died, by key
	waiting map[string]chan struct{} // by file name
	stop    chan struct{}            // of the goroutine
}

func newAnswers(run runDir, log hclog.Logger) *answers {
	return &answers{run: run, log: log, unused: map[string]int{}, waiting: map[string]chan struct{}{}}
}

// restore takes in which calls wait for an answer since flow died.
func (w *answers) restore(pending []Question) {
	for _, q := range pending {
		w.unused[q.Key()] = q.Attempt
	}
}

// permit takes the answer to a question about a call, if there is one: a new one, or one
// that a lost attempt took and did not rule by. An answer is for one call.
func (w *answers) permit(q Question, lost []int) (Answer, bool) {
	w.mu.Lock()
	from, unused := w.unused[q.Key()]
	delete(w.unused, q.Key())
	w.mu.Unlock()
	return w.found(q, slices.DeleteFunc(slices.Clone(lost), func(attempt int) bool { return !unused || attempt < from }))
}

// watch returns a channel that gets a value when there is an answer of that key, and a
// function that ends the watch. A key has one watch at a time.
func (w *answers) watch(key string) (<-chan struct{}, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name, seen := answerFile(w.run, key, "json"), make(chan struct{}, 1)
	w.waiting[name] = seen
	if len(w.waiting) == 1 {
		w.stop = make(chan struct{})
		go w.poll(w.stop)
	}
	return seen, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if delete(w.waiting, name); len(w.waiting) == 0 {
			close(w.stop)
		}
	}
}

func (w *answers) poll(stop <-chan struct{}) {
	tick := time.NewTicker(answersPoll)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		w.look()
	}
}

// look tells those who wait for an answer that is there.
func (w *answers) look() {
	dir := filepath.Join(w.run.Dir(), answersDir)
	entries, err := disk.ReadDir(dir)
	if err != nil { // nobody has answered anything yet
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range entries {
		if seen := w.waiting[filepath.Join(dir, e.Name())]; seen != nil {
			select {
			case seen <- struct{}{}:
			default:
			}
		}
	}
}

// found takes the answer to q, if there is one: for this attempt, or taken by one of the
// lost attempts, which came to nothing. One that cannot be read is put aside.
func (w *answers) found(q Question, lost []int) (Answer, bool) {
	for _, attempt := range lost {
		if a, err := readAnswer(answerFile(w.run, q.Key(), taken(attempt))); err == nil && q.Check(a) == nil {
			return a, true
		}
	}
	name := answerFile(w.run, q.Key(), taken(q.Attempt))
	err := disk.Rename(answerFile(w.run, q.Key(), "json"), name)
	if errors.Is(err, fs.ErrNotExist) {
		return Answer{}, false
	}
	failpoint.Reach("answer-taken")
	if err == nil {
		err = disk.SyncDir(filepath.Dir(name))
	}
	a, readErr := readAnswer(name)
	if w.seal != nil {
		err = errors.Join(err, w.seal(name))
	}
	if err = errors.Join(err, readErr); err != nil {
		w.log.Warn("an answer cannot be read", "step", q.Path, "error", err)
		return Answer{}, false
	}
	return a, true
}

// taken is the ending of an answer's file once an attempt has taken it. No path of a
// step has a hyphen, nor has a key the word.
func taken(attempt int) string { return fmt.Sprintf("taken-%d.json", attempt) }

func readAnswer(name string) (a Answer, err error) {
	data, err := disk.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	return a, err
}
