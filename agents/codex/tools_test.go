package codex

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

func item(phase, body string) string { return `{"type":"item.` + phase + `","item":` + body + `}` }

// Each kind of tool, from its items to events.
func TestTools(t *testing.T) {
	three := 3
	tests := map[string]struct {
		lines []string
		want  []agents.Body
	}{
		"a command that fails": {
			[]string{
				item("started", `{"id":"item_1","type":"command_execution","command":"/bin/bash -lc 'exit 3'","aggregated_output":"","exit_code":null,"status":"in_progress"}`),
				item("completed", `{"id":"item_1","type":"command_execution","command":"/bin/bash -lc 'exit 3'","aggregated_output":"bye\n","exit_code":3,"status":"failed"}`),
			},
			[]agents.Body{
				agents.ToolStarted{
					ToolID: "item_1", ToolName: "shell", NativeName: "command_execution", Target: "exit 3", Risk: "high",
					Arguments: json.RawMessage(`{"command":"/bin/bash -lc 'exit 3'"}`),
				},
				agents.ToolCompleted{ToolID: "item_1", Result: json.RawMessage(`"bye\n"`), Error: "exit status 3", ExitCode: &three},
			},
		},
		"a command that was refused at once": {
			[]string{item("completed", `{"id":"item_1","type":"command_execution","command":"rm x","aggregated_output":"","exit_code":null,"status":"declined"}`)},
			[]agents.Body{
				agents.ToolStarted{
					ToolID: "item_1", ToolName: "shell", NativeName: "command_execution", Target: "rm x", Risk: "high",
					Arguments: json.RawMessage(`{"command":"rm x"}`),
				},
				agents.ToolCompleted{ToolID: "item_1", Result: json.RawMessage(`""`), Error: "refused: codex exec asks nobody", Declined: true},
			},
		},
		"a command still under way at the end": {
			[]string{item("started", `{"id":"item_1","type":"command_execution","command":"sleep 9","status":"in_progress"}`)},
			[]agents.Body{
				agents.ToolStarted{
					ToolID: "item_1", ToolName: "shell", NativeName: "command_execution", Target: "sleep 9", Risk: "high",
					Arguments: json.RawMessage(`{"command":"sleep 9"}`),
				},
				agents.ToolCompleted{ToolID: "item_1", Error: "no result before the session ended"},
			},
		},
		"a patch": {
			[]string{
				item("started", `{"id":"item_2","type":"file_change","changes":[{"path":"/repo/a","kind":"add"}],"status":"in_progress"}`),
				item("completed", `{"id":"item_2","type":"file_change","changes":[{"path":"/repo/a","kind":"add"},{"path":"/repo/b","kind":"update"},{"path":"/repo/c","kind":"delete"}],"status":"completed"}`),
			},
			[]agents.Body{
				agents.ToolStarted{
					ToolID: "item_2", ToolName: "edit_file", NativeName: "file_change", Target: "/repo/a", Risk: "medium",
					Arguments: json.RawMessage(`{"changes":[{"path":"/repo/a","kind":"add"}]}`),
				},
				agents.ToolCompleted{ToolID: "item_2", Success: true},
				agents.FileChanged{FilePath: "/repo/a", ChangeType: agents.Created, ToolID: "item_2"},
				agents.FileChanged{FilePath: "/repo/b", ChangeType: agents.Modified, ToolID: "item_2"},
				agents.FileChanged{FilePath: "/repo/c", ChangeType: agents.Deleted, ToolID: "item_2"},
			},
		},
		"a patch that failed, partly outside": {
			[]string{item("completed", `{"id":"item_2","type":"file_change","changes":[{"path":"/repo/a","kind":"add"},{"path":"/etc/b","kind":"add"}],"status":"failed"}`)},
			[]agents.Body{
				agents.ToolStarted{
					ToolID: "item_2", ToolName: "edit_file", NativeName: "file_change", Target: "/etc/b", Risk: "high",
					Arguments: json.RawMessage(`{"changes":[{"path":"/repo/a","kind":"add"},{"path":"/etc/b","kind":"add"}]}`),
				},
				agents.ToolCompleted{ToolID: "item_2", Error: `codex says "failed" and no more`},
			},
		},
		"an MCP tool with an error": {
			[]string{item("completed", `{"id":"item_3","type":"mcp_tool_call","server":"lab","tool":"echo","arguments":["x"],"result":null,"error":{"message":"no"},"status":"failed"}`)},
			[]agents.Body{
				agents.ToolStarted{
					ToolID: "item_3", ToolName: "mcp", NativeName: "mcp__lab__echo", Target: "lab.echo", Risk: "high",
					Arguments: json.RawMessage(`{"arguments":["x"]}`),
				},
				agents.ToolCompleted{ToolID: "item_3", Error: "no"},
			},
		},
		"a search, whose key id stands twice": {
			[]string{
				item("started", `{"id":"item_4","type":"web_search","id":"ws_1","query":"","action":{"type":"other"}}`),
				item("completed", `{"id":"item_4","type":"web_search","id":"ws_1","query":"go","action":{"type":"search","query":"go"}}`),
			},
			[]agents.Body{
				agents.ToolStarted{
					ToolID: "item_4", ToolName: "web_search", NativeName: "web_search", Risk: "medium",
					Arguments: json.RawMessage(`{"query":"","action":{"type":"other"}}`),
				},
				agents.ToolCompleted{ToolID: "item_4", Success: true, Result: json.RawMessage(`{"type":"search","query":"go"}`)},
			},
		},
		"another agent": {
			[]string{item("completed", `{"id":"item_5","type":"collab_tool_call","tool":"wait","receiver_thread_ids":["t1"],"prompt":null,"agents_states":{"t1":{"status":"completed","message":"ok"},"t2":{"status":"running"}},"status":"completed"}`)},
			[]agents.Body{
				agents.ToolStarted{
					ToolID: "item_5", ToolName: "subagent", NativeName: "wait", Target: "t1", Risk: "high",
					Arguments: json.RawMessage(`{"receiver_thread_ids":["t1"]}`),
				},
				agents.ToolCompleted{ToolID: "item_5", Success: true, Result: json.RawMessage(`{"t1":{"status":"completed","message":"ok"},"t2":{"status":"running"}}`)},
				agents.Subagent{SubagentID: "t1", Status: "completed", ParentID: "item_5", Message: "ok"},
				agents.Subagent{SubagentID: "t2", Status: "progress", ParentID: "item_5"},
			},
		},
		"a sign of life, and an end that comes twice": {
			[]string{
				item("updated", `{"id":"item_6","type":"command_execution","command":"ls","status":"in_progress"}`),
				item("completed", `{"id":"item_6","type":"command_execution","command":"ls","exit_code":null,"status":"completed"}`),
				item("completed", `{"id":"item_6","type":"command_execution"}`),
			},
			[]agents.Body{
				agents.ToolStarted{
					ToolID: "item_6", ToolName: "shell", NativeName: "command_execution", Target: "ls", Risk: "high",
					Arguments: json.RawMessage(`{"command":"ls"}`),
				},
				agents.ToolProgress{ToolID: "item_6"},
				agents.ToolCompleted{ToolID: "item_6", Success: true},
				agents.Unknown{
					NativeType: "item.completed command_execution",
					Raw:        json.RawMessage(item("completed", `{"id":"item_6","type":"command_execution"}`)),
				},
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			events, _ := play(t, agents.Request{Dir: "/repo"}, agents.Exit{Code: 1}, tt.lines...)
			var got []agents.Body
			for _, e := range events[:len(events)-1] { // the last is sessionEnded
				got = append(got, e.Body)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeclinedCommandIsDenied(t *testing.T) {
	_, out := play(t, agents.Request{}, agents.Exit{}, started, turn,
		item("completed", `{"id":"item_1","type":"command_execution","command":"/bin/bash -lc 'rm x'","status":"declined"}`), hello, completed)
	if diff := cmp.Diff([]string{"shell: rm x"}, out.Denied); diff != "" {
		t.Error(diff)
	}
}

func TestScript(t *testing.T) {
	tests := map[string]string{
		`/bin/bash -lc 'ls -l'`: `ls -l`,
		`bash -c ls`:            `ls`,
		`/usr/bin/zsh -lc "echo \"\$HOME\" 'a' \n"`: `echo "$HOME" 'a' \n`,
		`/bin/bash -lc "tr '\\\\n' ' '"`:            `tr '\\n' ' '`,
		`/bin/bash -lc 'it'"'"'s'`:                  `it's`,
		`/bin/bash -lc a\ b`:                        `a b`,
		"/bin/bash -lc 'two\nlines'":                "two\nlines",

		// not one word for a shell: left alone
		`/bin/bash -lc 'ls' extra`:  `/bin/bash -lc 'ls' extra`,
		`/bin/bash -lc 'ls`:         `/bin/bash -lc 'ls`,
		`/bin/bash -lc ls\`:         `/bin/bash -lc ls\`,
		`/bin/bash -lc ls;rm`:       `/bin/bash -lc ls;rm`,
		`/bin/bash -lc `:            `/bin/bash -lc `,
		`/bin/bash script.sh 'ls'`:  `/bin/bash script.sh 'ls'`,
		`python3 -c 'print(1)'`:     `python3 -c 'print(1)'`,
		`git commit -m 'bash -c x'`: `git commit -m 'bash -c x'`,
		``:                          ``,

		// not a shell of the system: what it runs is its own affair
		`/repo/bash -lc 'ls'`:     `/repo/bash -lc 'ls'`,
		`/tmp/bin/sh -c ls`:       `/tmp/bin/sh -c ls`,
		`./bash -lc ls`:           `./bash -lc ls`,
		`/bin/../tmp/bash -lc ls`: `/bin/../tmp/bash -lc ls`,
	}
	for command, want := range tests {
		if got := script(command); got != want {
			t.Errorf("script(%q) = %q, want %q", command, got, want)
		}
	}
}
