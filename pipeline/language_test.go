package pipeline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestLanguageSchema holds the schema for editors against what Load accepts: the
// good plans and the examples match it, and what it is there to catch does not.
func TestLanguageSchema(t *testing.T) {
	schema, err := LanguageSchema()
	if err != nil {
		t.Fatal(err)
	}
	var good []string
	for _, pattern := range []string{"testdata/plans/*.yaml", "testdata/plans/called/*.yaml", "../examples/pipelines/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files (%v)", pattern, err)
		}
		good = append(good, files...)
	}
	for _, file := range good {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := ValidateJSON(schema, asJSON(t, text)); err != nil {
			t.Errorf("%s is valid, but not by the schema: %v", file, err)
		}
	}
	for name, text := range map[string]string{
		"no steps":     "name: x",
		"unknown key":  "steps: {a: {run: x, neds: b}}",
		"two kinds":    "steps: {a: {run: x, prompt: y}}",
		"no kind":      "steps: {a: {timeout: 1m}}",
		"hyphen":       "steps: {a-b: {run: x}}",
		"no unit":      "steps: {a: {run: x, timeout: 30}}",
		"cause":        "steps: {a: {run: x, retry: {max: 1, on: [hunger]}}}",
		"sandbox":      "agents: {x: {use: codex, sandbox: none}}\nsteps: {a: {run: x}}",
		"inner step":   "steps: {g: {steps: {a: {rnu: x}}}}",
		"session":      "steps: {a: {prompt: x, session: {continue: b, fork: c}}}",
		"foreach":      "steps: {a: {run: x, foreach: {a: 1}}}",
		"no until":     "steps: {a: {run: x, repeat: {max: 2}}}",
		"on-max":       "steps: {a: {run: x, repeat: {until: x, on-max: stop}}}",
		"merge":        "steps: {a: {merge: {on-conflict: fail}}}",
		"one racer":    "steps: {a: {prompt: x, race: [claude]}}",
		"vote":         "steps: {a: {prompt: x, vote: {by: x}}}",
		"isolation":    "steps: {a: {run: x, isolation: container}}",
		"worktree":     "steps: {a: {run: x, worktree: {branch: x}}}",
		"two calls":    "steps: {a: {pipeline: x, ask: y}}",
		"input's type": "inputs: {x: {type: integr}}\nsteps: {a: {run: x}}",
	} {
		if ValidateJSON(schema, asJSON(t, []byte(text))) == nil {
			t.Errorf("%s: the schema accepts %q", name, text)
		}
	}
}

func asJSON(t *testing.T, text []byte) json.RawMessage {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
