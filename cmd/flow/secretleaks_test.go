package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flow/steps"
)

// leakKeys are variables that hold secrets: one that the pipeline declares, and keys of agents.
func leakKeys() map[string]string {
	return map[string]string{
		"LEAK_TOKEN":        `le4k/"token'+of <the> tests`,
		"ANTHROPIC_API_KEY": "sk-ant-leak-0123456789abcdef",
		"CODEX_API_KEY":     "sk-codex-leak-0123456789abcdef",
		"GEMINI_API_KEY":    "AIza-leak-0123456789abcdef",
	}
}

// leakSpellings are what programs make of a secret, and what is looked for of that.
func leakSpellings(secret string) (said, sought []string) {
	text, _ := json.Marshal(secret)
	twice, _ := json.Marshal(string(text[1 : len(text)-1]))
	var units, percents strings.Builder
	for _, b := range []byte(secret) {
		fmt.Fprintf(&units, `\u%04x`, b)
		fmt.Fprintf(&percents, "%%%02X", b)
	}
	said = []string{
		secret, string(text[1 : len(text)-1]), string(twice[1 : len(twice)-1]), units.String(), percents.String(),
		url.QueryEscape(secret), url.PathEscape(secret), hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
		strings.ReplaceAll(secret, "'", `'\''`), strings.ReplaceAll(secret, "'", `'"'"'`),
	}
	sought = slices.Clone(said)
	for shift := range 3 {
		std := base64.StdEncoding.EncodeToString([]byte("xyz"[:shift] + secret + "end"))
		web := strings.NewReplacer("+", "-", "/", "_").Replace(std)
		said = append(said, std, web)
		sought = append(sought, std[4:len(std)-8], web[4:len(web)-8]) // what the neighbours do not change
	}
	return said, sought
}

// leak is what a fake does that says every secret that it can find, in every way that it knows.
func leak(f *fake) int {
	f.listen()
	f.say(f.begin...)
	say := func(text string) {
		fmt.Fprintln(os.Stderr, text)
		if f.text != "TEXT" {
			quoted, _ := json.Marshal(text)
			text = string(quoted[1 : len(quoted)-1])
		}
		f.speak(text)
	}
	for _, name := range slices.Sorted(maps.Keys(leakKeys())) {
		secret := os.Getenv(name)
		if secret == "" {
			continue
		}
		said, _ := leakSpellings(secret)
		for _, spelt := range said {
			say(spelt)
			say(spelt[:len(spelt)/2])
			say(spelt[len(spelt)/2:])
		}
	}
	quoted, _ := json.Marshal(os.Getenv("LEAK_TOKEN"))
	f.say(strings.ReplaceAll(f.well, `"done"`, string(quoted)))
	return f.leave()
}

// leaking is a pipeline whose every step says secrets.
func leaking(besides string) []byte {
	agents := strings.Builder{}
	all := strings.Builder{}
	for _, p := range slices.Sorted(maps.Keys(voices())) {
		use, transport, _ := strings.Cut(p, "/")
		name, more := cellOf(p, "leak"), ""
		switch {
		case p == "exec/jsonl":
			more = ", exec: {format: jsonl, resume: [--resume, '{session}'], events: {session: .session, text: .text, done: .done, error: .error}}"
		case transport != "" && use != "exec":
			more = ", transport: " + transport
		}
		fmt.Fprintf(&agents, "  %s: {use: %s, command: [fakeagent, %s, leak], sandbox: read-only%s}\n", name, use, p, more)
		fmt.Fprintf(&all, "  %s: {agent: %s, prompt: Say it., timeout: 2m, continue-on-error: true}\n", name, name)
	}
	return fmt.Appendf(nil, `%s
secrets: LEAK_TOKEN
env: {LEAK_TOKEN: "{{ .secrets.LEAK_TOKEN }}"}
agents:
%ssteps:
%s  script:
    run: |
      printf '%%s\n' "$LEAK_TOKEN" | tee text.txt
      printf %%s "$LEAK_TOKEN" | base64 -w 7
      printf '{"a": "%%s"}\n' "$(printf %%s "$LEAK_TOKEN" | od -An -tx1 | tr -d ' \n')" >&2
    artifacts: [text.txt]
  failing: {run: 'echo "no: $LEAK_TOKEN" >&2; exit 3', continue-on-error: true, retry: {max: 1, backoff: 1ms}}
  long: {run: 'printf "%%0250d%%s%%0300d" 0 "$LEAK_TOKEN" 0 >&2; exit 3', continue-on-error: true}
  each: {needs: [script], foreach: "{{ list .steps.script.text }}", run: "echo {{ .item }}; cat missing-$LEAK_TOKEN", continue-on-error: true}
  value: {set: {v: "{{ .steps.script.text }}"}}
  later: {needs: [failing], run: "echo {{ .steps.script.text }} {{ .steps.failing.error }}"}
outputs:
  script: "{{ .steps.script.text }}"
  error: "{{ .steps.failing.error }}"
notify: {run: 'echo "$LEAK_TOKEN $FLOW_ERROR" >&2; exit 1', on: [failed, succeeded]}
`, besides, &agents, &all)
}

// leaks are the secrets that stand in a text, as it is, without its line breaks, or in the
// texts of its JSON lines.
func leaks(text []byte) (found []string) {
	var texts bytes.Buffer
	deltas := map[string]string{}
	for line := range bytes.Lines(text) {
		var v any
		if json.Unmarshal(line, &v) == nil {
			eachText(v, func(s string) { texts.WriteString(s + "\n") })
		}
		var e struct {
			Step      string `json:"step"`
			Content   string `json:"content"`
			IsPartial bool   `json:"isPartial"`
		}
		if json.Unmarshal(line, &e) == nil && e.IsPartial {
			deltas[e.Step] += e.Content
		}
	}
	seen := slices.AppendSeq([]string{string(text), texts.String()}, maps.Values(deltas))
	joined := string(bytes.ReplaceAll(text, []byte("\n"), nil)) // an escape that a line break cuts is none
	for name, secret := range leakKeys() {
		_, sought := leakSpellings(secret)
		for i, spelt := range sought {
			inLines := !strings.ContainsAny(spelt, `\%`) && strings.Contains(joined, spelt)
			if inLines || slices.ContainsFunc(seen, func(s string) bool { return strings.Contains(s, spelt) }) {
				found = append(found, fmt.Sprintf("%s, spelling %d", name, i))
			}
		}
	}
	slices.Sort(found)
	return found
}

func eachText(v any, fn func(string)) {
	switch x := v.(type) {
	case string:
		fn(x)
	case []any:
		for _, v := range x {
			eachText(v, fn)
		}
	case map[string]any:
		for k, v := range x {
			fn(k)
			eachText(v, fn)
		}
	}
}

// leaked are the files of a run with secrets in them, by path.
func (r crashRun) leaked(t *testing.T) map[string][]string {
	t.Helper()
	return leakedBelow(t, r.state())
}

// leakedBelow are the files below a directory with secrets in them, by path.
func leakedBelow(t *testing.T, top string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if found := leaks(data); len(found) > 0 {
			rel, _ := filepath.Rel(top, path)
			all[rel] = found
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// newLeakRun is a run of that pipeline.
func newLeakRun(t *testing.T, id, besides string) crashRun {
	t.Helper()
	r := newCrashRun(t, id)
	for name, value := range leakKeys() {
		r.env = append(r.env, name+"="+value)
	}
	if err := os.WriteFile(filepath.Join(r.dir, r.pipeline), leaking(besides), 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

// says runs flow and returns all that it printed.
func (r crashRun) says(args ...string) []byte {
	out, _ := r.command(args...).CombinedOutput() // what it prints counts, however it ends
	return out
}

// TestNoSecretLeaves: agents of every protocol and scripts say secrets in every way, and
// nothing of it is found in what flow stores or prints.
func TestNoSecretLeaves(t *testing.T) {
	t.Parallel()
	r := newLeakRun(t, "leaks", "")
	seen := map[string][]byte{"run": r.says("run", r.pipeline, "--run-id", r.id, "-o", "json", "--log-level", "trace")}
	r.checkLeaks(t, seen)
	if !bytes.Contains(seen["run"], []byte("***")) {
		t.Errorf("nothing was masked, for nothing was said:\n%s", seen["run"])
	}
}

// checkLeaks searches all that is stored, and all that the commands print that read runs.
func (r crashRun) checkLeaks(t *testing.T, seen map[string][]byte) {
	t.Helper()
	for _, args := range [][]string{
		{"show", r.id},
		{"show", r.id, "-o", "json"},
		{"events", r.id},
		{"events", r.id, "-o", "json"},
		{"audit", r.id, "-o", "json"},
		{"output", r.id, "script"},
		{"artifacts", r.id},
		{"sessions", r.id},
		{"state", "export", r.id},
		{"state", "check", r.id},
	} {
		seen[strings.Join(args, " ")] = r.says(args...)
	}
	for name, text := range seen {
		if found := leaks(text); len(found) > 0 {
			t.Errorf("flow %s prints %v", name, found)
		}
		if len(text) == 0 && !strings.HasPrefix(name, "audit") && !strings.HasPrefix(name, "state check") {
			t.Errorf("flow %s prints nothing", name)
		}
	}
	if out := seen["state check "+r.id]; !bytes.Contains(out, []byte("nothing is wrong")) {
		t.Errorf("flow state check: %s", out)
	}
	for file, found := range r.leaked(t) {
		t.Errorf("%s holds %v", file, found)
	}
}

// TestNoSecretIsLeftByAKill: what a killed flow had no time to mask is masked by the resume.
func TestNoSecretIsLeftByAKill(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"process-done:4", "attempt-masked:3"} {
		r := killedUnmasked(t, point)
		r.checkExport(t)
		r.checkLeaks(t, map[string][]byte{"resume": r.says("resume", r.id)})
	}
}

// killedUnmasked is a run that was killed at a point and has something left to mask. On a
// loaded machine the other steps may not have said anything yet: then it is another run.
func killedUnmasked(t *testing.T, point string) crashRun {
	t.Helper()
	for range 10 {
		r := newLeakRun(t, "killed", "")
		cmd := r.command("run", r.pipeline, "--run-id", r.id)
		cmd.Env = append(cmd.Env, "FLOW_FAILPOINT="+point)
		if err := cmd.Run(); err == nil {
			t.Fatalf("flow was not killed at %s", point)
		}
		if len(r.leaked(t)) > 0 {
			return r
		}
	}
	t.Fatalf("after ten kills at %s there is nothing to mask", point)
	return crashRun{}
}

// checkExport: an archive of what a killed flow left is masked, or refused.
func (r crashRun) checkExport(t *testing.T) {
	t.Helper()
	if found := leaks(r.says("state", "export", r.id)); len(found) > 0 {
		t.Errorf("the archive of a killed run holds %v", found)
	}
	r.env = append(slices.Clone(r.env), "LEAK_TOKEN=")
	out := r.says("state", "export", r.id)
	sees(t, "58-archive-before-masking", string(out))
}

// TestKeepRaw: with keep-raw the search finds what processes printed, and only there.
func TestKeepRaw(t *testing.T) {
	t.Parallel()
	r := newLeakRun(t, "raw", "keep-raw: true")
	r.says("run", r.pipeline, "--run-id", r.id)
	files := r.leaked(t)
	if len(files) < len(voices()) {
		t.Errorf("only %v have secrets", slices.Sorted(maps.Keys(files)))
	}
	for file, found := range files {
		if ext := filepath.Ext(file); filepath.Base(filepath.Dir(file)) != steps.AttemptsDir || ext != ".stdout" && ext != ".stderr" && ext != ".stdin" {
			t.Errorf("%s holds %v", file, found)
		}
	}
}
