package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	"flow/agents"
	"flow/pipeline/dag"
	"flow/state"
)

// A comparison says how a replay compares with the run that it plays.
type comparison struct {
	Run  string `json:"run"`  // that was played
	Same bool   `json:"same"` // nothing differs
	// Steps counts those that were compared, and Unfinished those that had not ended in
	// the recorded run: there is nothing to compare them with.
	Steps       int          `json:"steps"`
	Unfinished  int          `json:"unfinished,omitempty"`
	Differences []difference `json:"differences,omitempty"` // the first of each step
}

// A difference is the first one of a step, or of the outputs.
type difference struct {
	Step     string `json:"step,omitempty"` // "": of the run
	Field    string `json:"field"`
	Recorded string `json:"recorded"`
	Replayed string `json:"replayed"`
}

func (d difference) String() string {
	what := "the run's"
	if d.Step != "" {
		what = "step " + d.Step + ":"
	}
	return fmt.Sprintf("%s %s differs: recorded %s, replayed %s", what, d.Field, oneLine(d.Recorded, 200), oneLine(d.Replayed, 200))
}

// compare finds where the replay came to something else than the recorded run.
func (e *engine) compare(from *state.View, now *report) (*comparison, error) {
	before, err := readReport(from)
	if err != nil {
		return nil, err
	}
	c := &comparison{Run: from.Header().ID}
	d := &differ{from: from, now: e.run, both: c}
	if err := d.steps(before, now); err != nil {
		return nil, err
	}
	if before.Status == now.Status && !alike(before.Outputs, now.Outputs) {
		c.Differences = append(c.Differences, difference{"", "outputs", text(before.Outputs), text(now.Outputs)})
	}
	if err := d.events(e.recording.Processes()); err != nil {
		return nil, err
	}
	c.Same = len(c.Differences) == 0
	return c, nil
}

// replayEnd tells what came of the comparison, and is the exit status as an error.
func (e *engine) replayEnd(c *comparison) error {
	if !e.quiet && c.Unfinished > 0 {
		fmt.Fprintf(e.stderr, "replay: %s had not ended in run %s, and could not be compared\n", plural(c.Unfinished, "step"), c.Run)
	}
	if c.Same {
		if !e.quiet {
			fmt.Fprintf(e.stderr, "replay: %s came to the same as in run %s\n", plural(c.Steps, "step"), c.Run)
		}
		return nil
	}
	const most = 20
	for _, d := range c.Differences[:min(most, len(c.Differences))] {
		fmt.Fprintf(e.stderr, "replay: %s\n", d.String())
	}
	if more := len(c.Differences) - most; more > 0 {
		fmt.Fprintf(e.stderr, "replay: %d more differ\n", more)
	}
	fmt.Fprintf(e.stderr, "hint: compare `flow events %s` and `flow events %s`\n", c.Run, e.run.Header().ID)
	return exitError{exitFailed}
}

// A differ compares two runs.
type differ struct {
	from *state.View
	now  *state.Run
	both *comparison
}

// steps compares how the steps ended.
func (d *differ) steps(before, now *report) error {
	recorded := map[string]stepReport{}
	for _, s := range before.Steps {
		recorded[s.path] = s
	}
	for _, s := range now.Steps {
		was, known := recorded[s.path]
		delete(recorded, s.path)
		switch {
		case !known:
			d.add(difference{s.path, "place", "no such step", s.Status})
		case was.Status == s.Status && !endedItself(was):
			d.both.Steps++
		case !endedItself(was):
			d.both.Unfinished++
		default:
			d.both.Steps++
			if err := d.step(was, s); err != nil {
				return err
			}
		}
	}
	for _, s := range before.Steps {
		if _, left := recorded[s.path]; left {
			d.add(difference{s.path, "place", s.Status, "no such step"})
		}
	}
	return nil
}

// endedItself reports whether a step came to an end by itself.
func endedItself(s stepReport) bool {
	return slices.Contains([]string{string(dag.OK), string(dag.Failure), string(dag.SkippedStep)}, s.Status)
}

func (d *differ) add(found difference) { d.both.Differences = append(d.both.Differences, found) }

// step compares one step. What it used counts only where no attempt of it was lost.
func (d *differ) step(was, is stepReport) error {
	was, err := was.loaded(d.from)
	if err != nil {
		return err
	}
	if is, err = is.loaded(d.now); err != nil {
		return err
	}
	fields := []struct {
		name     string
		was, now any
	}{
		{"status", was.Status, is.Status},
		{"cause", was.Cause, is.Cause},
		{"error", d.plain(was), d.plain(is)},
		{"exit status", was.Exit, is.Exit},
		{"text", was.Text, is.Text},
		{"output", was.Output, is.Output},
		{"agent", was.Agent, is.Agent},
		{"model", was.Model, is.Model},
	}
	if was.Attempts == is.Attempts {
		fields = append(fields, []struct {
			name     string
			was, now any
		}{{"usage", was.Usage, is.Usage}, {"cost", was.CostUSD, is.CostUSD}}...)
	}
	for _, f := range fields {
		if !alike(f.was, f.now) {
			d.add(difference{was.path, f.name, text(f.was), text(f.now)})
			return nil
		}
	}
	return nil
}

// plain is why a step failed, without what differs from run to run: its names, and the
// time of a limit.
func (d *differ) plain(s stepReport) *string {
	if cause := agents.Cause(deref(s.Cause)); cause == agents.CauseUsageLimit || cause == agents.CauseRateLimit {
		return nil
	}
	why := strings.NewReplacer(
		d.from.Dir(), "DIR", d.now.Dir(), "DIR", d.from.Header().ID, "RUN", d.now.Header().ID, "RUN",
	).Replace(deref(s.Error))
	return &why
}

// alike compares two values by their JSON.
func alike(x, y any) bool { return text(x) == text(y) }

// text is a value as JSON, with the keys of objects in order.
func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// events compares what the agents' lines were read as, process by process.
func (d *differ) events(processes map[string]string) error {
	files := map[string]string{} // the recorded files, by those of the replay
	for label, recorded := range processes {
		for _, ext := range []string{"stdout", "stderr"} {
			files[d.now.AttemptPath(label, ext)] = d.from.AttemptPath(recorded, ext)
		}
	}
	seed := maphash.MakeSeed()
	was, err := readings(seed, d.from.Events)
	if err != nil {
		return err
	}
	now, err := readings(seed, d.now.Events)
	if err != nil {
		return err
	}
	var wrong []string
	for file, recorded := range files {
		if !slices.Equal(was[recorded], now[file]) {
			wrong = append(wrong, file)
		}
	}
	slices.Sort(wrong)
	for _, file := range wrong {
		if err := d.event(files[file], file, firstDifference(was[files[file]], now[file])); err != nil {
			return err
		}
	}
	return nil
}

// firstDifference is where two lists differ.
func firstDifference(x, y []uint64) int {
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return i
		}
	}
	return min(len(x), len(y))
}

var errFound = errors.New("found")

// event adds the difference between the nth events, from 0, that two files were read as.
func (d *differ) event(recorded, file string, nth int) error {
	was, err := nthReading(d.from.Events, recorded, nth)
	if err != nil {
		return err
	}
	now, err := nthReading(d.now.Events, file, nth)
	if err != nil {
		return err
	}
	step := was.step
	if step == "" {
		step = now.step
	}
	d.add(difference{step, fmt.Sprintf("event %d of %s", nth+1, recorded), was.String(), now.String()})
	return nil
}
