package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"flow/cmd/flow/internal/console"
	"flow/steps"
	"flow/steps/mask"
)

// mask has what the engine prints masked from here on: the secrets that its pipeline declares,
// by name, and the keys of agents. It warns of those that cannot be.
func (e *engine) mask(secrets map[string]string) *mask.Masker {
	m, warnings := steps.Masker(secrets, e.environ(), adapters())
	for _, w := range warnings {
		fmt.Fprintf(e.stderr, "warning: %s\nhint: %s\n", w, w.Hint)
	}
	e.maskWith(m)
	return m
}

// maskWith has secrets taken out of what flow prints from here on. What comes from a run has
// none any more; this is for the rest: paths, arguments, errors.
func (a *app) maskWith(m *mask.Masker) {
	documents := func(to io.Writer) console.Filter { return m.Documents(to, vocabulary) }
	console.Through(a.stdout, func(to io.Writer) console.Filter { return m.Writer(to) }, documents)
	console.Through(a.stderr, func(to io.Writer) console.Filter { return prompting{m.Writer(to)} }, documents)
}

// The keys of the documents that flow prints whose texts are words of flow's own, or what it
// knows steps, runs and sessions by; and those behind which keys and texts are a user's or an
// agent's.
//
//nolint:gochecknoglobals // tables
var (
	ownWords = []string{
		"agent", "agentType", "argsSha256", "at", "by", "cause", "changeType", "decision", "field", "file", "id", "name", "path", "risk", "role",
		"run", "session", "sessionId", "status", "step", "stream", "timestamp", "tool", "toolName", "ts", "type", "use",
	}
	foreignKeys = []string{"arguments", "output", "outputs", "raw", "result"}
)

// vocabulary reports whether a key or a text of a document that flow prints is not masked, for
// it says what it does whatever value a secret has.
func vocabulary(keys []string, key bool) bool {
	for _, k := range keys[:len(keys)-1] {
		switch {
		case k == "form": // a schema of the pipeline's, by which an answer is judged
			return true
		case slices.Contains(foreignKeys, k):
			return false
		}
	}
	return key || slices.Contains(ownWords, keys[len(keys)-1])
}

// prompting holds nothing back: a question stands at the end of a line that has not ended.
type prompting struct{ *mask.Writer }

func (p prompting) Write(text []byte) (int, error) {
	n, err := p.Writer.Write(text)
	return n, errors.Join(err, p.Flush())
}

// known is the masker of those secrets of a run that the environment has.
func (a *app) known(r files) (*mask.Masker, error) {
	plan, _, err := frozen(r)
	if err != nil {
		return nil, err
	}
	secrets := map[string]string{}
	for _, name := range plan.AllSecrets() {
		if value := a.getenv(name); value != "" {
			secrets[name] = value
		}
	}
	m, _ := steps.Masker(secrets, a.environ(), adapters())
	return m, nil
}

// maskKnown masks in what is printed of a run the secrets that the environment has: what is
// stored has none, unless that was before they were declared. It returns their masker.
func (a *app) maskKnown(r files) *mask.Masker {
	m, err := a.known(r)
	if err == nil && !m.Empty() { // whoever reads the plan says what is wrong with it
		a.maskWith(m)
	}
	return m
}

// passOn is what to do with a secret that a step needs.
const passOn = "pass a secret on by `secrets` and `env: {NAME: \"{{ .secrets.NAME }}\"}`"

// withoutSecrets refuses inputs with secrets in them: inputs are stored, and a resume needs
// them as they are.
func (a *app) withoutSecrets(secrets map[string]string, inputs map[string]any) error {
	m, _ := steps.Masker(secrets, a.environ(), adapters())
	var mistakes []string
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		raw, err := json.Marshal(inputs[name])
		if err != nil {
			return err
		}
		if bytes.Equal(m.JSON(raw), raw) {
			continue
		}
		mistakes = append(mistakes, fmt.Sprintf("input `%s` holds the value of the secret %s", name, strings.Join(m.Names(raw), ", ")))
	}
	if len(mistakes) == 0 {
		return nil
	}
	return usageError{errors.New(strings.Join(mistakes, "\n") +
		"\nhint: inputs are stored with the run; " + passOn)}
}

// maskedAnswer is an answer as it is left for the run: the run masks whatever comes of it, and
// until it takes it the answer lies in its directory. One that would not fill in the form any
// more is refused.
func (a *app) maskedAnswer(r files, q steps.Question, answer steps.Answer) (steps.Answer, error) {
	m, err := a.known(r)
	if err != nil {
		return answer, err
	}
	names := strings.Join(m.Names(answer.Answer), ", ")
	answer.Answer, answer.Reason = m.JSON(answer.Answer), m.Text(answer.Reason)
	if err := q.Check(answer); err != nil {
		return answer, usageError{fmt.Errorf("the answer to step %s holds the value of the secret %s, and without it: %w\nhint: answers are stored with the run; "+passOn, q.Path, names, err)}
	}
	return answer, nil
}
