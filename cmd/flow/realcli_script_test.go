package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"flow/cmd/flow/internal/scriptmodel"
)

// wrongLine is what greet.txt says before the pipeline runs.
const wrongLine = "Hullo, world"

// A cast plays the models of testdata/realcli/pipeline.yaml. What it says follows
// from the conversation alone: after a crash it looks at the file again before it
// goes on, as a model would.
type cast struct {
	line  string        // what the analyst finds the line must read; nobody else knows it
	delay time.Duration // before each answer; a tenth of it before each piece of one
}

func (c cast) script(r scriptmodel.Request) scriptmodel.Turn {
	turn := c.turn(r)
	turn.Delay, turn.Pause = c.delay, c.delay/10
	return turn
}

func (c cast) turn(r scriptmodel.Request) scriptmodel.Turn {
	task, items := current(r)
	last := items[len(items)-1]
	if len(items) > 25 {
		return final(task, "I give up.") // a test must not loop for ever
	}
	switch task {
	case "analyse":
		return c.analyse(last)
	case "edit":
		return edit(items[0].Text, last)
	case "explain":
		return final(task, "I did this: "+remembered(r, scriptmodel.Answer, "Changed "))
	case "review":
		return review(items[0].Text, last)
	case "recall":
		return final(task, "I said: "+remembered(r, scriptmodel.Call, `{"approved"`))
	default:
		return final(task, "Hello.")
	}
}

var (
	taskLine   = regexp.MustCompile(`(?m)^Task: (\w+)$`)
	wantedLine = regexp.MustCompile(`must read "([^"]*)"`)
)

// current returns the latest task of the conversation and the items since, the
// task's own prompt first. What the CLIs add in tags (<environment_context>,
// <system-reminder>) is left out.
func current(r scriptmodel.Request) (task string, items []scriptmodel.Item) {
	for _, i := range r.Items {
		if i.Kind == scriptmodel.Prompt {
			if m := taskLine.FindStringSubmatch(i.Text); m != nil {
				task, items = m[1], nil
			} else if strings.HasPrefix(strings.TrimSpace(i.Text), "<") {
				continue
			}
		}
		items = append(items, i)
	}
	if len(items) == 0 {
		items = []scriptmodel.Item{{}}
	}
	return task, items
}

// final is a step's last turn.
func final(task, text string) scriptmodel.Turn {
	return scriptmodel.Turn{Label: task, Text: text}
}

func call(name string, input any) scriptmodel.Turn {
	return scriptmodel.Turn{Calls: []scriptmodel.ToolCall{{Name: name, Input: input}}}
}

// remembered is the latest item of a kind that begins with a text.
func remembered(r scriptmodel.Request, kind scriptmodel.Kind, text string) string {
	found := "nothing"
	for _, i := range r.Items {
		if i.Kind == kind && strings.HasPrefix(i.Text, text) {
			found = i.Text
		}
	}
	return found
}

func (c cast) analyse(last scriptmodel.Item) scriptmodel.Turn {
	if last.Kind != scriptmodel.Result {
		return call("read_file", map[string]any{"file_path": "greet.txt"})
	}
	return final("analyse", fmt.Sprintf(`{"problem": "A word is misspelt.", "line": %q}`, c.line))
}

// edit looks, patches, looks again and is done when the file says what it must.
func edit(task string, last scriptmodel.Item) scriptmodel.Turn {
	line := wantedLine.FindStringSubmatch(task)[1]
	switch {
	case last.Kind != scriptmodel.Result:
	case strings.Contains(last.Text, line):
		return final("edit", "Changed greet.txt, which now reads: "+line)
	case strings.Contains(last.Text, wrongLine):
		return call("apply_patch", "*** Begin Patch\n*** Update File: greet.txt\n@@\n-"+wrongLine+"\n+"+line+"\n*** End Patch\n")
	}
	return call("exec_command", map[string]any{"cmd": "cat greet.txt"})
}

func review(task string, last scriptmodel.Item) scriptmodel.Turn {
	if last.Kind != scriptmodel.Result {
		return call("Read", map[string]any{"file_path": "greet.txt"})
	}
	line := wantedLine.FindStringSubmatch(task)[1]
	turn := call("StructuredOutput", map[string]any{
		"approved": strings.Contains(last.Text, line), "comments": "I looked for: " + line,
	})
	turn.Label = "review"
	return turn
}
