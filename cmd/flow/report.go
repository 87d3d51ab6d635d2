package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"flow/agents"
	"flow/cmd/flow/internal/console"
	"flow/pipeline/dag"
	"flow/state"
	"flow/steps"
)

// reportSchema is the version of the object that `-o json` prints. Keys are added
// without a new version; none changes its meaning or goes.
const reportSchema = 1

// A report is what `run`, `resume` and `show` print: the state of a run.
type report struct {
	Schema  int            `json:"schema"`
	Run     string         `json:"run"`
	Name    string         `json:"name"`
	Status  string         `json:"status"`
	Error   string         `json:"error,omitempty"` // what is wrong with the run as a whole
	Outputs map[string]any `json:"outputs"`
	Steps   stepReports    `json:"steps"`
	// Asks are the calls that agents want to make and that a person is to decide on.
	Asks []steps.Question `json:"asks,omitempty"`
	// Replay says, of a replay, how it compares with the run that it plays.
	Replay *comparison `json:"replay,omitempty"`

	hint  string // what to do about Error
	blobs blobs  // that texts and outputs are in
}

// stepReport is one step. Text, output and the like are null when there are none.
// Those two are loaded only when they are printed: all together may be too much for the
// memory.
type stepReport struct {
	Status     string          `json:"status"`
	Agent      *string         `json:"agent"`
	Model      *string         `json:"model"`
	Session    *string         `json:"session"`
	Text       *string         `json:"text"`
	Output     json.RawMessage `json:"output"`
	Error      *string         `json:"error"`
	Cause      *string         `json:"cause"`
	Hint       *string         `json:"hint,omitempty"`
	Stderr     *string         `json:"stderr,omitempty"` // of an agent that failed: its last lines
	Exit       *int            `json:"exit,omitempty"`
	Attempts   int             `json:"attempts"`
	Cached     bool            `json:"cached,omitempty"`   // the result was taken from the cache
	Question   *steps.Question `json:"question,omitempty"` // that the step waits with
	Usage      *agents.Usage   `json:"usage"`
	CostUSD    *float64        `json:"costUsd"`
	DurationMS int64           `json:"durationMs"`

	path      string
	root      string // of a skipped step: the step whose failure is the cause
	tolerated bool   // continue-on-error, of the step or of one around it
	form      dag.Form
	cut       bool            // Text is the beginning of a longer one
	result    json.RawMessage // that Text and Output are loaded from
}

// stepReports are in the order of the pipeline.
type stepReports []stepReport

type blobs interface {
	Blob(ref string) ([]byte, error)
}

func newReport(h state.Header, m *dag.Machine, status string, b blobs) *report {
	r := &report{Schema: reportSchema, Run: h.ID, Name: h.Name, Status: status, Outputs: map[string]any{}, blobs: b}
	tolerated := map[string]bool{}
	all := m.Steps()
	r.Steps = make(stepReports, 0, len(all))
	for _, s := range all {
		step, err := newStepReport(s)
		if _, loadErr := step.loaded(b); err == nil {
			err = loadErr
		}
		if err != nil {
			r.Error = fmt.Sprintf("step %s: %v", s.Path, err)
		}
		step.Status = standing(s.Status, status)
		step.tolerated = s.Step.ContinueOnError || tolerated[s.Path[:max(0, strings.LastIndexByte(s.Path, '.'))]]
		tolerated[s.Path] = step.tolerated
		r.Steps = append(r.Steps, step)
	}
	return r
}

// standing is how a step stands. What holds others seems to run for as long as they have
// not ended; in a run that was interrupted or waits for a person, nothing of it lives.
func standing(step dag.Status, run string) string {
	if step == dag.Running && (run == state.StatusInterrupted || run == string(dag.Waiting)) {
		return run
	}
	return string(step)
}

func newStepReport(s dag.StepState) (stepReport, error) {
	res, err := steps.DecodeResult(s.Result)
	if err != nil {
		return stepReport{path: s.Path, Status: string(s.Status)}, err
	}
	out := stepReport{
		path: s.Path, root: s.Root, form: s.Form, Status: string(s.Status), Attempts: s.Attempts, result: s.Result,
		Agent: some(cmp.Or(res.Agent, s.Step.Agent)), Model: some(res.Model), Session: some(res.Session),
		Error: some(s.Reason), Cause: some(s.Cause), Hint: some(res.Hint), Exit: res.Exit, Question: res.Question,
		Usage: res.Usage, CostUSD: res.CostUSD, DurationMS: res.DurationMS, Cached: res.Cached,
	}
	if res.Use != "" {
		out.Stderr = some(res.Stderr)
	}
	if s.Status == dag.OK {
		out.Error, out.Cause, out.Hint, out.Stderr = nil, nil, nil, nil
	}
	return out, nil
}

// loaded returns the step with its text and its output.
func (s stepReport) loaded(b blobs) (stepReport, error) {
	res, err := steps.DecodeResult(s.result)
	if err != nil {
		return s, err
	}
	content := res.Text
	if res.Exit != nil {
		content = res.Stdout
	}
	output, err := res.Output.Load(b)
	if err != nil {
		return s, err
	}
	if output != "" {
		s.Output = json.RawMessage(output)
	}
	text, err := content.Load(b)
	if res.Exit != nil {
		text = strings.TrimRight(text, "\n") // as templates see it
	}
	s.cut = content.Cut
	if !content.IsZero() || s.Status == string(dag.OK) && s.form == dag.Single {
		s.Text = &text
	}
	return s, err
}

func some(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// only reports whether the run failed, and every step that failed it did for this cause.
func (r *report) only(cause agents.Cause) bool {
	count := 0
	for _, s := range r.Steps {
		if !s.failed() || s.tolerated {
			continue
		}
		if deref(s.Cause) != string(cause) {
			return false
		}
		count++
	}
	return count > 0
}

// why is what the run as a whole or the first step that counts failed for, "" if nothing did.
func (r *report) why() string {
	if r.Error != "" {
		return r.Error
	}
	for _, s := range r.Steps {
		if s.failed() && !s.tolerated {
			return "step " + s.path + ": " + deref(s.Error)
		}
	}
	return ""
}

// placed is how the message of a mistake begins that a pipeline's templates make: with its
// file, line and column.
var placed = regexp.MustCompile(`^.+?:\d+:\d+: `)

// goOn says how a run that has not succeeded goes on. What is wrong with the pipeline itself
// would come out the same again.
func (r *report) goOn() string {
	mistaken := placed.MatchString(r.Error)
	for _, s := range r.Steps {
		own := s.failed() && !s.tolerated && deref(s.Cause) == string(agents.CauseConfig)
		mistaken = mistaken || own && placed.MatchString(deref(s.Error))
	}
	if mistaken {
		return "mend the pipeline, then: flow resume " + r.Run + " --update"
	}
	return "flow resume " + r.Run
}

// failed reports whether the step itself failed, and not only a step within it.
func (s stepReport) failed() bool {
	return s.Status == string(dag.Failure) && (s.form == dag.Single || s.root == "" && s.Cause != nil)
}

// print writes the report as JSON, or its outputs as YAML for people.
func (r *report) print(w io.Writer, format string) error {
	if format == "json" {
		return r.printJSON(w)
	}
	if len(r.Outputs) == 0 {
		return nil
	}
	var doc yaml.Node
	if err := doc.Encode(r.Outputs); err != nil {
		return err
	}
	quoteUnclean(&doc)
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return err
	}
	_, err := b.WriteTo(w)
	return err
}

// quoteUnclean puts texts that are not printed as they are into double quotes, where the
// escapes that they are printed with mean the same.
func quoteUnclean(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && console.Clean(n.Value) != n.Value {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, in := range n.Content {
		quoteUnclean(in)
	}
}

// printJSON writes the report as JSON, the steps one after the other.
func (r *report) printJSON(w io.Writer) error {
	const atOnce = 64 << 10 // bytes
	var b bytes.Buffer
	frame := struct {
		report
		Steps struct{} `json:"steps"`
	}{report: *r}
	if err := printJSON(&b, frame); err != nil || len(r.Steps) == 0 {
		_, writeErr := b.WriteTo(w)
		return errors.Join(err, writeErr)
	}
	b.Truncate(b.Len() - len("}\n}\n")) // the ends of the steps and of the report
	for i, step := range r.Steps {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := r.appendStep(&b, step); err != nil {
			return err
		}
		if b.Len() < atOnce {
			continue
		}
		if _, err := b.WriteTo(w); err != nil {
			return err
		}
	}
	b.WriteString("\n  }\n}\n")
	_, err := b.WriteTo(w)
	return err
}

// appendStep writes a step as printJSON does it, with its key.
func (r *report) appendStep(b *bytes.Buffer, s stepReport) error {
	s, err := s.loaded(r.blobs)
	if err != nil && r.Error == "" { // newReport has said it otherwise
		return err
	}
	b.WriteString("\n    ")
	b.Write(agents.AppendString(nil, s.path))
	b.WriteString(": ")
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("    ", "  ")
	if err := enc.Encode(s); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // the newline
	return nil
}

// printJSON writes v as one indented JSON document.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
