package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"

	"flow/agents"
)

const claudeVersion = "2.1.329"

// claude is Claude Code: the voice of its stream-json protocol.
type claude struct {
	*turn
	args     claudeArgs
	began    time.Time
	turns    int         // what num_turns counts
	messages int         // of the model, for their ids
	results  int         // printed so far
	denials  []object    // permission_denials
	pending  string      // id of the tool call that is under way
	consent  object      // who allowed it; nil is the CLI's configuration
	credited bool        // a message of the turn has named what it answers
	aborted  bool        // the turn was interrupted
	talk     *claudeTalk // nil unless the client speaks stream-json too
}

// runClaude is the process of Claude Code.
func runClaude(p *process) (int, error) {
	args, err := parseClaude(p)
	if err != nil {
		return 0, err
	}
	if args.has("--version") {
		_, err := fmt.Fprintf(p.stdout, "%s (Claude Code)\n", claudeVersion)
		return 0, err
	}
	if args.last("--input-format") == "stream-json" {
		return talkClaude(p, args)
	}
	prompt, err := claudePrompt(p, args)
	if err != nil {
		return 0, err
	}
	c := &claude{turn: &turn{process: p, prompt: prompt, schema: args.schema}, args: args, began: time.Now()}
	if c.dir, err = os.Getwd(); err != nil {
		return 0, err
	}
	if err := c.prepare(c); err != nil {
		return 0, err
	}
	if status, err := c.openSession(); status != 0 || err != nil {
		return status, err
	}
	if name := claudeCommand(prompt); name != "" {
		return c.localCommand(name)
	}
	if err := c.start(); err != nil {
		return 0, err
	}
	return c.run(c)
}

// claudePrompt joins the prompt argument and standard input.
func claudePrompt(p *process, args claudeArgs) (string, error) {
	const limit = 10 << 20
	data, err := io.ReadAll(io.LimitReader(p.stdin, limit+1))
	if err != nil {
		return "", err
	}
	if len(data) > limit {
		return "", quit(1, "Error: piped stdin input exceeds 10MB. Pass large content as a file path in your prompt instead.")
	}
	prompt := string(data)
	if len(args.words) > 0 && args.words[0] != "" { // a second one is dropped silently
		prompt = strings.Trim(args.words[0]+"\n"+prompt, "\n")
	}
	if prompt == "" {
		return "", quit(1, "Error: Input must be provided either through stdin or as a prompt argument when using --print")
	}
	if strings.TrimSpace(prompt) == "" {
		return "", quit(1, "Error: Input contained only whitespace. Provide a prompt with text through stdin or as a prompt argument when using --print")
	}
	return prompt, nil
}

// openSession finds or makes the session. A status other than 0 is the end.
func (c *claude) openSession() (status int, err error) {
	if c.store, err = c.openStore(); err != nil {
		return 0, err
	}
	parent, status, err := c.parent()
	if status != 0 || err != nil {
		return status, err
	}
	id := c.args.last("--session-id")
	if id == "" {
		id = uuid.NewString()
	}
	switch {
	case parent == nil:
		c.mode, c.session = modeNew, &session{ID: id, Dir: c.dir}
	case c.args.has("--fork-session"):
		c.mode, c.session = modeFork, fork(parent, id)
	default:
		c.mode, c.session = modeResume, parent
	}
	c.session.Model = c.args.model(c.session.Model)
	return 0, nil
}

// parent is the session to go on from, or nil. One that does not exist is reported
// in a result, unlike every other mistake in the arguments.
func (c *claude) parent() (*session, int, error) {
	if c.args.has("--continue") {
		s, err := c.store.newest(c.dir) // none: a new one begins, silently
		return s, 0, err
	}
	if !c.args.has("--resume") {
		return nil, 0, nil
	}
	id := c.args.last("--resume")
	if uuid.Validate(id) != nil {
		usage := "Error: --resume requires a valid session ID or session title when used with --print. Usage: claude -p --resume <session-id|title>"
		if id != "" {
			usage += fmt.Sprintf(". Provided value %q is not a UUID and does not match any session title.", id)
		}
		return nil, c.notFound(uuid.NewString(), usage), nil
	}
	s, err := c.store.load(id)
	if missing(err) {
		return nil, c.notFound(id, "No conversation found with session ID: "+id), nil
	}
	return s, 0, err
}

// notFound ends the process for want of a session.
func (c *claude) notFound(id, message string) int {
	c.complain("%s", message)
	c.send(object{
		"type": "result", "subtype": "error_during_execution", "is_error": true, "session_id": id,
		"duration_ms": 0, "duration_api_ms": 0, "num_turns": 0, "stop_reason": nil, "total_cost_usd": 0,
		"usage": claudeUsage(agents.Usage{}), "modelUsage": object{}, "permission_denials": []any{},
		"uuid": uuid.NewString(), "errors": []string{message}, "result_index": 0,
	})
	return 1
}

// start keeps the prompt; an id that another session has is refused.
func (c *claude) start() error {
	if c.args.has("--no-session-persistence") {
		c.store.dir = ""
	}
	err := c.accept()
	if errors.Is(err, fs.ErrExist) {
		return quit(1, "Error: Session ID %s is already in use.", c.session.ID)
	}
	return err
}

// claudeCommand is the slash command that a prompt runs instead of asking the
// model, or "". An unknown name, as in a path, is text.
func claudeCommand(prompt string) string {
	if !strings.HasPrefix(prompt, "/") {
		return ""
	}
	name, _, _ := strings.Cut(strings.TrimSpace(prompt[1:]), " ")
	switch name {
	case "clear", "compact", "config", "context", "cost", "init", "mcp", "model", "recap", "usage":
		return name
	}
	return ""
}

// localCommand ends a turn that a slash command took: no model call, and success.
func (c *claude) localCommand(name string) (int, error) {
	c.open()
	r := c.resultOf("success")
	delete(r, "terminal_reason")
	r["is_error"], r["result"], r["local_command"] = false, "", name
	r["num_turns"], r["stop_reason"] = 0, nil
	c.send(r)
	return 0, nil
}

// open prints system/init.
func (c *claude) open() {
	c.turns = 1
	line := object{
		"type": "system", "subtype": "init", "session_id": c.session.ID, "uuid": uuid.NewString(),
		"cwd": c.dir, "original_cwd": c.dir, "model": c.session.Model, "permissionMode": c.args.mode,
		"tools": c.tools(), "mcp_servers": []any{}, "slash_commands": []any{}, "agents": []any{}, "skills": []any{},
		"plugins": []any{}, "capabilities": []any{}, "apiKeySource": "none", "claude_code_version": claudeVersion,
		"output_style": "default", "additional_directories": append([]string{}, c.args.values["--add-dir"]...), "fast_mode_state": "off",
		"view_mode": "default",
	}
	if uuids := c.talk.uuids(); len(uuids) > 0 {
		line["user_message_uuids"] = uuids
	}
	c.send(line)
	c.talk.replay()
}

func (c *claude) say(text string) { c.message(object{"type": "text", "text": text}) }

// answer prints the final message and the result.
func (c *claude) answer(a answer) int {
	if c.args.maxTurns > 0 && c.turns > c.args.maxTurns {
		return c.limited(agents.CauseMaxTurns)
	}
	if c.schema != nil && a.json != nil {
		if a.wrong {
			return c.wrongAnswers()
		}
		c.structuredOutput(a.json, "")
		c.turns++
	} else {
		c.message(object{"type": "text", "text": a.text})
	}
	if c.args.maxBudget > 0 && claudeCost(c.spent) > c.args.maxBudget {
		return c.limited(agents.CauseBudget)
	}
	r := c.resultOf("success")
	r["is_error"], r["result"], r["api_error_status"] = false, a.text, nil
	if c.schema != nil && a.json != nil {
		r["structured_output"] = a.json
	}
	c.send(r)
	return 0
}

// structuredOutput calls the tool that takes an answer by schema; problem is what
// the CLI finds wrong with it, or "".
func (c *claude) structuredOutput(value json.RawMessage, problem string) {
	id := c.toolID()
	c.message(object{"type": "tool_use", "id": id, "name": "StructuredOutput", "input": value})
	if problem != "" {
		c.toolResult(toolResult{id: id, content: "Output does not match required schema: " + problem, failed: true})
		return
	}
	const taken = "Structured output provided successfully"
	c.toolResult(toolResult{id: id, content: taken, detail: taken})
}

// wrongAnswers is what becomes of a model that never meets the schema.
func (c *claude) wrongAnswers() int {
	const tries = 5
	const problem = "root: must have required property 'value'"
	for range tries {
		c.structuredOutput(json.RawMessage(`{}`), problem)
		c.turns++
	}
	r := c.resultOf("error_max_structured_output_retries")
	r["terminal_reason"] = "structured_output_retry_exhausted"
	r["errors"] = []string{fmt.Sprintf("Failed to provide valid structured output after %d attempts — last StructuredOutput error: Output does not match required schema: %s", tries, problem)}
	c.send(r)
	return 1
}
