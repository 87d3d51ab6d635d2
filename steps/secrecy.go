package steps

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"flow/agents"
	"flow/agents/policy"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/steps/mask"
)

// What leaves a step is masked at these places, and nowhere else: facts (masked, by Exec and
// start), texts and lists of a result (keepText), events (recorder), records, blobs and the
// audit log (maskedStore), prompts (turn), questions to a person (permission), and the files of
// processes (seal). Inside of an attempt, and towards its agent, texts are what they are.

// secretEndings are how the names of variables end that vendors pass keys in.
//
//nolint:gochecknoglobals // a table
var secretEndings = []string{"_KEY", "_TOKEN", "_SECRET", "_PASSWORD"}

// Masker returns the masker of a run: of the secrets that its plan declares, by name, and of
// the keys in environ that reach agents. The warnings say which of the former stay as they are.
func Masker(secrets map[string]string, environ []string, adapters map[string]agents.Adapter) (*mask.Masker, []mask.Warning) {
	m, warnings := mask.New(secrets)
	for _, v := range environ {
		if name, value, _ := strings.Cut(v, "="); isKey(name, adapters) {
			m.Add(name, value)
		}
	}
	return m, warnings
}

// isKey reports whether a variable logs an agent in.
func isKey(name string, adapters map[string]agents.Adapter) bool {
	if hasPrefix(name, vendorPrefixes) && slices.ContainsFunc(secretEndings, func(end string) bool { return strings.HasSuffix(name, end) }) {
		return true
	}
	for _, a := range adapters {
		if slices.Contains(a.Info().KeyVariables, name) {
			return true
		}
	}
	return false
}

// learn has the values of variables masked that a template makes of secrets, and of keys that
// env sets. visible is what the same template gives without the secrets.
func (x *Executor) learn(name, value string, visible any) {
	switch {
	case x.Mask == nil || visible == value && !isKey(name, x.Adapters):
	case len(x.Mask.Names([]byte(value))) == 0: // else what is secret in it is masked already
		x.Mask.Add(name, value)
	}
}

// learnAll learns the secrets that the `env` of steps makes, but for those that need what
// other steps came to.
func (x *Executor) learnAll() {
	x.Plan.Walk(func(_ string, s *pipeline.Step) {
		_, _, _ = x.environment(x.root, s, x.runData(x.root)) // the step itself says what is wrong with it
	})
}

// masked is a fact without secrets.
func (x *Executor) masked(f dag.Fact) dag.Fact {
	f.Reason, f.Result = x.Mask.Text(f.Reason), x.Mask.Record(f.Result, flowsOwn)
	return f
}

// ownKeys are the keys of records whose texts flow made itself, or knows steps, sessions and
// workspaces by. A secret may have the value of one ("deploy"): masked, the run could not go on.
//
//nolint:gochecknoglobals // a table
var ownKeys = []string{
	"agent", "argsSha256", "at", "blob", "branch", "by", "cause", "commit", "decision", "files", "id", "kind", "label", "lookup",
	"mode", "name", "path", "requestId", "risk", "root", "run", "session", "sessionId", "settled", "status", "step", "tool", "toolId",
	"tree", "ts", "use", "where", "workspace",
}

// flowsOwn reports whether a key or a text of a record is flow's own: all keys are, and the
// texts of ownKeys, but for what is an agent's or a person's JSON.
func flowsOwn(keys []string, key bool) bool {
	around, last := keys[:len(keys)-1], keys[len(keys)-1]
	for i, k := range around {
		switch {
		case k == "form": // a schema of the pipeline's, by which an answer is judged
			return true
		case k == "arguments", k == "answer" && slices.Contains(around[:i], "answer"):
			return false
		}
	}
	return key || slices.Contains(ownKeys, last)
}

// maskedCall is a call without secrets, to be shown.
func (x *Executor) maskedCall(c policy.Call) policy.Call {
	c.Native, c.Target, c.Arguments = x.Mask.Text(c.Native), x.Mask.Text(c.Target), x.Mask.JSON(c.Arguments)
	return c
}

// maskedResult is how a process ended, without secrets: of what it said last only ends are
// kept, and half a secret would not be known for one.
func (x *Executor) maskedResult(r proc.Result) proc.Result {
	if x.Mask.Empty() {
		return r
	}
	r.StderrTail = x.Mask.Part(r.StderrTail)
	for i, l := range r.Leftovers {
		r.Leftovers[i] = x.Mask.Text(l)
	}
	return r
}

// maskedValues are values of templates without secrets.
func (x *Executor) maskedValues(values map[string]any) (map[string]any, error) {
	if x.Mask.Empty() || len(values) == 0 {
		return values, nil
	}
	raw, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	v, err := pipeline.DecodeJSON(x.Mask.JSON(raw))
	if err != nil {
		return nil, err
	}
	return v.(map[string]any), nil
}

// A maskedStore keeps nothing with a secret in it. Events come to it masked: see recorder.
// What PutBlobFrom is given was looked through: see harvest.
type maskedStore struct {
	Store
	mask *mask.Masker
}

func (s maskedStore) Append(ctx context.Context, typ string, data any, sync bool) error {
	if s.mask.Empty() {
		return s.Store.Append(ctx, typ, data, sync)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	return s.Store.Append(ctx, typ, s.mask.Record(raw, flowsOwn), sync)
}

func (s maskedStore) AppendAudit(line []byte) error {
	return s.Store.AppendAudit(append(s.mask.Record(bytes.TrimSuffix(line, []byte("\n")), flowsOwn), '\n'))
}

func (s maskedStore) PutBlob(data []byte) (string, error) {
	if s.mask.Empty() {
		return s.Store.PutBlob(data)
	}
	return s.Store.PutBlob([]byte(s.mask.Content(string(data))))
}
