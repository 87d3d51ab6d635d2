package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flow/cmd/flow/internal/scriptmodel"
)

// environments are commands that print what an agent's environment has, and end well.
var environments = []string{
	"env",
	"env | base64",
	"tr '\\0' '\\n' < /proc/self/environ; printf %s \"$LEAK_TOKEN\" | od -An -tx1",
	"printf %s \"$LEAK_TOKEN\" | base64 -w 9 >&2; printf '%s' \"$LEAK_TOKEN\" | sed 's/./&\\x1b[m/7'",
}

// tellSecrets has the model print its environment in every task, and then say what it was told.
func tellSecrets(r scriptmodel.Request) scriptmodel.Turn {
	task, since := current(r)
	var told []string
	for _, i := range since {
		if i.Kind == scriptmodel.Result {
			told = append(told, i.Text)
		}
	}
	if len(told) < len(environments) {
		return commanding(r, environments[len(told)])
	}
	return final(task, "I was told: "+strings.Join(told, " | "))
}

// TestRealSecrets has the real CLIs print their environment, keys among it, and the model say
// it: nothing of that is in what flow keeps and prints, what the CLI keeps in the run
// included, and its session can be gone on with and forked all the same.
func TestRealSecrets(t *testing.T) {
	path, binary := realCLIs(t, "opencode"), buildFlow(t)
	for name, transports := range map[string][]string{
		"claude": {"print", "stream-json"}, "codex": {"exec", "app-server"}, "gemini": {"headless", "acp"}, "opencode": {"acp"},
	} {
		for _, transport := range transports {
			t.Run(name+"/"+transport, func(t *testing.T) {
				t.Parallel()
				l := newLab(t, path, binary, scriptmodel.New(tellSecrets, nil))
				for _, key := range slices.Sorted(maps.Keys(leakKeys())) {
					l.env = append(l.env, key+"="+leakKeys()[key])
				}
				file := l.pipeline(t, "secrets.yaml", "AGENT", name, "transport: "+transports[0], "transport: "+transport)
				run := l.flow(t, 0, "run", file, "--run-id", l.run, "-o", "json", "--log-level", "trace")
				l.checkTold(t, run.report(t))
				l.checkMasked(t, run)
			})
		}
	}
}

// checkTold demands that the agent was told its secret, and that its sessions went on.
func (l *lab) checkTold(t *testing.T, r ran) {
	t.Helper()
	if r.Steps["two"].Session != r.Steps["one"].Session || r.Steps["three"].Session == r.Steps["two"].Session {
		t.Errorf("the sessions are %+v", r.Steps)
	}
	told := map[string]bool{}
	for _, x := range l.model.Exchanges() {
		task, since := current(x.Request)
		for _, i := range since {
			if slices.Contains(leaks([]byte(i.Text)), "LEAK_TOKEN, spelling 0") || slices.Contains(leaks([]byte(i.Text)), "LEAK_TOKEN, spelling 1") {
				told[task] = true // as it is, or in a text of JSON
			}
		}
	}
	if len(told) != 3 {
		t.Errorf("the secret was only told in the tasks %v", told)
	}
	for name, s := range r.Steps {
		if !strings.Contains(s.Text, "LEAK_TOKEN=***") {
			t.Errorf("step %s says %q", name, s.Text)
		}
	}
}

// checkMasked searches all that flow keeps and prints.
func (l *lab) checkMasked(t *testing.T, run *command) {
	t.Helper()
	seen := map[string]string{"run": run.stdout.String() + run.stderr.String()}
	for _, args := range [][]string{{"show", l.run}, {"events", l.run, "-o", "json"}, {"sessions"}, {"state", "export", l.run}} {
		seen[strings.Join(args, " ")] = l.flow(t, 0, args...).stdout.String()
	}
	for what, text := range seen {
		if found := leaks([]byte(text)); len(found) > 0 {
			t.Errorf("flow %s prints %v", what, found)
		}
	}
	for file, found := range leakedBelow(t, filepath.Join(l.dir, "state")) {
		t.Errorf("%s holds %v", file, found)
	}
}
