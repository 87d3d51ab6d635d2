package main

import (
	"path/filepath"
	"strings"
	"testing"

	"flow/cmd/flow/internal/scriptmodel"
)

// boxedScript has the model write inside and outside of the workspace in every task, by a
// command and by the CLI's own tool, and tell what it was told of that.
func boxedScript(l *lab) scriptmodel.Script {
	return func(r scriptmodel.Request) scriptmodel.Turn {
		task, since := current(r)
		var told []string
		for _, i := range since {
			if i.Kind == scriptmodel.Result {
				told = append(told, strings.TrimSpace(i.Text))
			}
		}
		if len(told) == 3 {
			return final(task, strings.Join(told, " | "))
		}
		shell, write, file, text := "Bash", "Write", "file_path", "content"
		if r.API == scriptmodel.Gemini {
			shell, write = "run_shell_command", "write_file"
		}
		return []scriptmodel.Turn{
			call(shell, map[string]any{"command": "echo in > " + task + ".txt && mktemp"}),
			call(shell, map[string]any{"command": "echo out > " + l.outside(task) + " || echo refused"}),
			call(write, map[string]any{file: filepath.Join(l.work, task+"-tool.txt"), text: "in"}),
		}[len(told)]
	}
}

func (l *lab) outside(task string) string { return filepath.Join(l.dir, "tmp", task+"-outside.txt") }

// TestRealSandbox demands of an agent to which everything is allowed that it writes inside
// of its sandbox and not outside, that it works there, and that its session goes on.
func TestRealSandbox(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	for _, agent := range []string{"claude", "gemini"} {
		t.Run(agent, func(t *testing.T) {
			t.Parallel()
			var l *lab
			l = newLab(t, path, binary, scriptmodel.New(func(r scriptmodel.Request) scriptmodel.Turn { return boxedScript(l)(r) }, nil))
			r := l.flow(t, 0, "run", l.pipeline(t, "sandbox.yaml", "AGENT", agent), "--run-id", l.run, "-o", "json").report(t)
			for _, task := range []string{"write", "again"} {
				if l.read(t, "work/"+task+".txt") != "in\n" || !l.holds(t, task+"-tool.txt") || l.holds(t, task+"-outside.txt") {
					t.Errorf("%s: inside is not written, or outside is; the model was told %q", task, r.Steps[task].Text)
				}
				if !strings.Contains(r.Steps[task].Text, "refused") {
					t.Errorf("%s: the model was told %q", task, r.Steps[task].Text)
				}
			}
			if r.Steps["again"].Session != r.Steps["write"].Session {
				t.Error("the session was not continued")
			}
			checkNothingLeft(t, l)
		})
	}
}

// TestRealNetwork demands that Codex's own sandbox has a network when it is to have one,
// and none otherwise.
func TestRealNetwork(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	for network, want := range map[string]string{"on": "reached", "off": "kept off"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			var l *lab
			l = newLab(t, path, binary, scriptmodel.New(func(r scriptmodel.Request) scriptmodel.Turn {
				_, since := current(r)
				if last := since[len(since)-1]; last.Kind == scriptmodel.Result {
					return final("network", last.Text)
				}
				address := strings.Replace(strings.TrimPrefix(l.url, "http://"), ":", "/", 1)
				return call("exec_command", map[string]any{"cmd": "bash -c '(: < /dev/tcp/" + address + ") && echo reached || echo kept off'"})
			}, nil))
			r := l.flow(t, 0, "run", l.pipeline(t, "network.yaml", "NETWORK", network), "--run-id", l.run, "-o", "json").report(t)
			if text := r.Steps["only"].Text; !strings.Contains(text, want) {
				t.Errorf("the model was told %q", text)
			}
		})
	}
}
