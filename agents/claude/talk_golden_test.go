package claude_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/claude"
	"flow/agents/internal/golden"
)

// A cue is what the client does in a recording besides answering: when, and what.
type cue struct {
	after string // the beginning of what the golden file says of the agent's line
	do    func(agents.Conversation) bool
}

func say(text string) func(agents.Conversation) bool {
	return func(c agents.Conversation) bool { return c.Say(text) }
}

// The conversations among the recordings. Each request of the CLI is answered as its
// client answered it.
func TestTalkGolden(t *testing.T) {
	for name, cues := range map[string][]cue{
		"07c_cut_allow_updated":               nil,
		"07e_cut_deny_interrupt":              nil,
		"07f_cut_error_response":              nil,
		"07k_hook_allow":                      nil,
		"07m_hook_ask":                        nil,
		"07n_hook_allow_updatedInput":         nil,
		"07o_hook_empty_then_cut":             nil,
		"07p_hook_bypass_mode":                nil,
		"08a_interrupt_stream":                {{"system/init", agents.Conversation.Interrupt}, {"result/error", say("second")}},
		"08b_interrupt_tool":                  {{"assistant tool_use Bash", agents.Conversation.Interrupt}, {"result/error", say("second")}},
		"08f_two_messages_at_once":            {{"control_response flow-1", say("second")}},
		"08g_priority_now":                    {{"system/task_started", say("/hurry")}},
		"24a_parallel_can_use_tool":           nil,
		"24c_sigint_while_permission_pending": nil,
		"24d_ask_user_question":               nil,
		"29b_sj_error_then_ok":                {{"result", say("b")}},
	} {
		t.Run(name, func(t *testing.T) {
			recording := readRecording(t, name)
			var b bytes.Buffer
			out := recording.talk(t, &b, cues)
			golden.File(t, filepath.Join("testdata", "talk", name+".golden"), b.Bytes())
			if diff := cmp.Diff(recording.replay(), out); diff != "" {
				t.Errorf("the agent's lines alone come to another outcome (-alone +live):\n%s", diff)
			}
		})
	}
}

var talkRequest = agents.Request{
	Transport: "stream-json", Prompt: "/go", Dir: "/home/dev/project", Scratch: "/scratch",
	Session: agents.Session{ID: "11111111-2222-4333-8444-555555555555"},
}

// A recording is what the CLI wrote, and what its client answered.
type recording struct {
	lines   []string
	answers map[string]json.RawMessage // by the id of the request
	exit    agents.Exit
}

func readRecording(t *testing.T, name string) recording {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	about, err := os.ReadFile(filepath.Join("testdata", name+".meta.json"))
	if err != nil {
		t.Fatal(err)
	}
	var meta struct {
		golden.Meta
		Stdin [][2]any `json:"stdin"` // seconds, and a line
	}
	if err := json.Unmarshal(about, &meta); err != nil {
		t.Fatal(err)
	}
	r := recording{answers: map[string]json.RawMessage{}, exit: meta.AsExit()}
	opening := ""
	for _, written := range meta.Stdin {
		var line wire
		_ = json.Unmarshal([]byte(written[1].(string)), &line) // what is no JSON says what else was done
		switch {
		case line.Type == "control_response":
			r.answers[textOf(line.Response.ID)] = line.Response.Response
		case line.Request.Subtype == "initialize":
			opening = textOf(line.ID)
		}
	}
	text := strings.TrimSpace(string(data))
	if opening == "" { // its client did without
		text = `{"type":"control_response","response":{"subtype":"success","request_id":"flow-1","response":{}}}` + "\n" + text
	}
	r.lines = strings.Split(strings.ReplaceAll(text, `"request_id":"`+opening+`"`, `"request_id":"flow-1"`), "\n")
	return r
}

// talk plays the CLI to a conversation, and writes both sides to b.
func (r recording) talk(t *testing.T, b *bytes.Buffer, cues []cue) agents.Outcome {
	t.Helper()
	c := claude.Adapter{}.Dialog(talkRequest).(agents.Conversation)
	wrote := func() {
		for _, line := range c.Take() {
			fmt.Fprintf(b, "-> %s\n", line)
		}
	}
	c.Open()
	wrote()
	for _, line := range r.lines {
		gist := gistOf(line)
		fmt.Fprintf(b, "<- %s\n", gist)
		for _, e := range c.Line([]byte(line)) {
			switch body := e.Body.(type) {
			case agents.PermissionRequested:
				fmt.Fprintf(b, "   asks for %s %s, preliminary %t\n", body.NativeName, body.Target, body.Preliminary)
				if answer := r.answers[body.RequestID]; answer != nil && !c.Decide(body.RequestID, verdictOf(t, answer)) {
					t.Errorf("%s was not waiting", body.RequestID)
				}
			case agents.PermissionDecided:
				fmt.Fprintf(b, "   %s by %s: %s\n", body.Decision, body.By, body.Message)
			}
		}
		wrote()
		if len(cues) > 0 && strings.HasPrefix(gist, cues[0].after) {
			if !cues[0].do(c) {
				t.Errorf("refused after %s", gist)
			}
			cues = cues[1:]
			wrote()
		}
		if c.Ended() {
			fmt.Fprintln(b, "   nothing more is to come")
		}
	}
	if len(cues) > 0 {
		t.Errorf("never seen: %s", cues[0].after)
	}
	out := c.End(r.exit)
	fmt.Fprintf(b, "= %s %q denied %q", out.Reason, out.Text, out.Denied)
	if out.Problem != nil {
		fmt.Fprintf(b, " %s", out.Problem.Cause)
	}
	fmt.Fprintln(b)
	return out
}

// replay is the outcome of the CLI's lines alone.
func (r recording) replay() agents.Outcome {
	later := talkRequest
	later.Prompt = "" // is not kept with a request
	c := claude.Adapter{}.Dialog(later).(agents.Conversation)
	c.Open()
	for _, line := range r.lines {
		c.Line([]byte(line))
	}
	return c.End(r.exit)
}

// wire is what the tests read of a line, whoever wrote it.
type wire struct {
	Type    string          `json:"type"`
	Subtype string          `json:"subtype"`
	ID      json.RawMessage `json:"request_id"`
	UUID    string          `json:"uuid"`
	Request struct {
		Subtype string `json:"subtype"`
	} `json:"request"`
	Response struct {
		ID       json.RawMessage `json:"request_id"`
		Response json.RawMessage `json:"response"`
	} `json:"response"`
	Message struct {
		Content json.RawMessage `json:"content"`
	} `json:"message"`
}

// textOf is the text of a JSON string, "" for anything else.
func textOf(v json.RawMessage) (s string) {
	_ = json.Unmarshal(v, &s)
	return s
}

// gistOf says which line of the CLI's this is.
func gistOf(line string) string {
	var v wire
	var blocks []struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	_ = json.Unmarshal([]byte(line), &v)
	_ = json.Unmarshal(v.Message.Content, &blocks)
	gist := v.Type
	if v.Subtype != "" {
		gist += "/" + v.Subtype
	}
	if strings.HasPrefix(v.Type, "control") {
		gist = strings.Join([]string{gist, v.Request.Subtype, textOf(v.ID), textOf(v.Response.ID)}, " ")
	}
	for _, block := range blocks {
		gist = strings.Join([]string{gist, block.Type, block.Name}, " ")
	}
	return strings.Join(strings.Fields(gist), " ")
}

// verdictOf is the verdict that a recorded answer gives.
func verdictOf(t *testing.T, response json.RawMessage) agents.Verdict {
	t.Helper()
	var answer struct {
		Behavior     string          `json:"behavior"`
		Message      string          `json:"message"`
		Interrupt    bool            `json:"interrupt"`
		UpdatedInput json.RawMessage `json:"updatedInput"`
		Hook         struct {
			Decision     string          `json:"permissionDecision"`
			Reason       string          `json:"permissionDecisionReason"`
			UpdatedInput json.RawMessage `json:"updatedInput"`
		} `json:"hookSpecificOutput"`
	}
	if err := json.Unmarshal(response, &answer); err != nil {
		t.Fatal(err)
	}
	if answer.Behavior != "" {
		return agents.Verdict{Effect: answer.Behavior, Message: answer.Message, Interrupt: answer.Interrupt, Input: answer.UpdatedInput}
	}
	return agents.Verdict{Effect: answer.Hook.Decision, Message: answer.Hook.Reason, Input: answer.Hook.UpdatedInput}
}
