package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"flow/cmd/flow/internal/scriptmodel"
)

// talking are the steps of testdata/realcli/policy.yaml whose agents ask before they make a
// call, each over a protocol of its own. Gemini CLI headless has a file of rules instead.
var talking = []string{"claude", "codex", "gemini", "opencode"}

// commanding is a command in the words of whichever CLI speaks to the model.
func commanding(r scriptmodel.Request, command string) scriptmodel.Turn {
	switch r.API {
	case scriptmodel.Anthropic:
		return call("Bash", map[string]any{"command": command})
	case scriptmodel.OpenAI:
		return call("exec_command", map[string]any{"cmd": command})
	default:
		return native(r, "shell", command)
	}
}

// writing is a new file, made by the CLI's own tool.
func writing(r scriptmodel.Request, file, line string) scriptmodel.Turn {
	switch r.API {
	case scriptmodel.Anthropic:
		return call("Write", map[string]any{"file_path": file, "content": line + "\n"})
	case scriptmodel.OpenAI:
		return call("apply_patch", "*** Begin Patch\n*** Add File: "+file+"\n+"+line+"\n*** End Patch\n")
	default:
		return native(r, "write", file, line+"\n")
	}
}

// onePolicy makes the three calls that policy.yaml speaks of, whatever becomes of the first
// two, and then tells what it was told of them. It makes the last one again when it was
// broken off.
func onePolicy(r scriptmodel.Request) scriptmodel.Turn {
	told := toldOf(r)
	switch n := len(told); {
	case n == 0:
		return writing(r, "allowed.txt", "yes")
	case n == 1:
		return commanding(r, "touch denied.txt")
	case n == 2, n < 5 && r.Contains("You were interrupted") && !settled.MatchString(told[n-1]):
		return commanding(r, "mktemp asked.XXXXXX") // which leaves a file each time it runs
	}
	return final("policy", strings.Join(told, " | "))
}

// settled is what a model is told of a command that ran, or was denied.
var settled = regexp.MustCompile(`asked\.\w*[^\WX]|[Dd]enied`)

// toldOf is what the model was told of its calls.
func toldOf(r scriptmodel.Request) []string {
	var told []string
	for _, i := range r.Items {
		if i.Kind == scriptmodel.Result {
			told = append(told, strings.TrimSpace(i.Text))
		}
	}
	return told
}

// A ruled is a line of `flow audit -o json`, as far as it is the same for all agents.
type ruled struct {
	Target   string `json:"target"`
	Decision string `json:"decision"`
	By       string `json:"by"`
	Rule     string `json:"rule"`
	Where    string `json:"where"`
}

// audit is what the run's audit log says, the workspace and the directory of the pipeline left out.
func (l *lab) audit(t *testing.T) []ruled {
	t.Helper()
	var all []ruled
	for line := range strings.Lines(l.flow(t, 0, "audit", l.run, "-o", "json").stdout.String()) {
		var e ruled
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		e.Target, e.Where = strings.TrimPrefix(e.Target, l.work+"/"), filepath.Base(e.Where)
		all = append(all, e)
	}
	return all
}

// checkPolicy demands that the allowed file is there and the denied one is not, that the
// command which was asked about ran so often, and that the log tells all of it.
func checkPolicy(t *testing.T, l *lab, ran int, asked ruled) {
	t.Helper()
	if !l.holds(t, "allowed.txt") || l.holds(t, "denied.txt") || l.made(t) != ran {
		t.Errorf("allowed.txt %t, denied.txt %t, asked %d times, want %d", l.holds(t, "allowed.txt"), l.holds(t, "denied.txt"), l.made(t), ran)
	}
	asked.Target, asked.Rule, asked.Where = "mktemp asked.XXXXXX", "ask shell(mktemp *)", "policy.yaml:11:12"
	want := []ruled{
		{"allowed.txt", "allow", "policy", "allow write_file(allowed.txt)", "policy.yaml:9:14"},
		{"touch denied.txt", "deny", "policy", "deny shell(touch *)", "policy.yaml:10:13"},
		asked,
	}
	got := l.audit(t)
	for _, w := range want {
		n := 0
		for _, g := range got {
			if g == w {
				n++
			}
		}
		if n != 1 {
			t.Errorf("the audit log says %d times %+v", n, w)
		}
	}
	if len(got) != len(want) || t.Failed() {
		t.Errorf("the audit log: %+v", got)
	}
}

// made counts the files that the command has left which a person is asked about.
func (l *lab) made(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(l.work, "asked.*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// startPolicy starts a step of policy.yaml, and returns when a person is asked.
func (l *lab) startPolicy(t *testing.T, step string) *command {
	t.Helper()
	c := l.start(t, "run", l.pipeline(t, "policy.yaml"), "-i", "agent="+step, "--run-id", l.run, "--ask-timeout", "10m", "-o", "json")
	l.await(t, c, func() bool {
		journal, err := os.ReadFile(filepath.Join(l.runDir(), "journal.jsonl"))
		return err == nil && strings.Contains(string(journal), `"type":"permission"`)
	})
	if l.made(t) > 0 {
		t.Error("the command ran before a person was asked")
	}
	return c
}

// TestRealPolicy demands the same of every agent under the same policy: an allowed edit
// happens, a denied command does not, one that a person is asked about happens once another
// process of flow says so, and the audit log tells who decided, by which rule.
func TestRealPolicy(t *testing.T) {
	path, binary := realCLIs(t, "opencode"), buildFlow(t)
	for _, step := range talking {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, path, binary, scriptmodel.New(onePolicy, nil))
			c := l.startPolicy(t, step)
			l.flow(t, 0, "approve", l.run)
			if status := c.end(t); status != 0 {
				t.Fatalf("exit status %d\n%s%s", status, c.stderr.String(), c.stdout.String())
			}
			checkPolicy(t, l, 1, ruled{Decision: "allow", By: "person"})
			checkNothingLeft(t, l)
		})
	}
	t.Run("headless", func(t *testing.T) {
		t.Parallel()
		l := newLab(t, path, binary, scriptmodel.New(onePolicy, nil))
		l.flow(t, 0, "run", l.pipeline(t, "policy.yaml"), "-i", "agent=headless", "--run-id", l.run, "--ask-timeout", "10m")
		checkPolicy(t, l, 0, ruled{Decision: "deny", By: "policy"})
		checkNothingLeft(t, l)
	})
}

// TestRealKilledAsking kills flow while a person is asked. The answer is left for the run,
// which goes on with it: the agent asks again, and the command runs once.
func TestRealKilledAsking(t *testing.T) {
	path, binary := realCLIs(t, "opencode"), buildFlow(t)
	for _, step := range talking {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, path, binary, scriptmodel.New(onePolicy, nil))
			c := l.startPolicy(t, step)
			if err := c.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			c.end(t)
			checkNothingLeft(t, l)
			r := l.flow(t, 0, "approve", l.run, "-o", "json").report(t)
			if s := r.Steps[step]; s.Status != "succeeded" {
				t.Errorf("resumed, the step is %+v", s)
			}
			checkPolicy(t, l, 1, ruled{Decision: "allow", By: "person"})
			checkNothingLeft(t, l)
		})
	}
}
