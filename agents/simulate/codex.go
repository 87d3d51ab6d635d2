package simulate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/google/uuid"

	"flow/agents"
)

const (
	codexVersion = "0.169.0"
	codexModel   = "gpt-6.1-sol" // unless another is asked for
)

// codex is Codex CLI: the voice of `codex exec --json`.
type codex struct {
	*turn
	args    codexArgs
	items   int    // ids given out
	pending object // the item that is under way
	warning string // an item before the turn, or ""
}

// runCodex is the process of Codex CLI.
func runCodex(p *process) (int, error) {
	root, _, _ := codexExecOptions()
	given, err := codexGrammar(root, "codex [OPTIONS] [PROMPT]\n       codex [OPTIONS] <COMMAND> [ARGS]", true).parse(p.args)
	if err != nil {
		return 0, err
	}
	if given.has("--version") {
		_, err := fmt.Fprintf(p.stdout, "codex-cli %s\n", codexVersion)
		return 0, err
	}
	switch words := given.words; {
	case slices.Equal(words, []string{"login", "status"}):
		p.complain("Logged in using a simulated account")
		return 0, nil
	case len(words) > 0 && (words[0] == "exec" || words[0] == "e"):
		return runCodexExec(p, given, words[1:])
	case len(words) > 0 && words[0] == "app-server":
		return runCodexServer(p, given, words[1:])
	}
	return 0, quit(1, `ERROR: TERM is set to "dumb". Refusing to start the interactive TUI because no terminal is available for a confirmation prompt (stdin/stderr is not a TTY). Run in a supported terminal or unset TERM.`)
}

func runCodexExec(p *process, root parsed, rest []string) (int, error) {
	args, err := parseCodexExec(rest)
	if err != nil {
		return 0, err
	}
	for key, values := range root.values {
		if !args.has(key) {
			args.values[key] = values
		}
	}
	if err := args.check(p); err != nil {
		return 0, err
	}
	prompt, err := codexPrompt(p, args)
	if err != nil {
		return 0, err
	}
	if err := args.readSchema(); err != nil {
		return 0, err
	}
	if args.schema == nil { // one that the CLI cannot enforce stands in the prompt
		args.schema = agents.SchemaOf(prompt)
	}
	c := &codex{turn: &turn{process: p, prompt: prompt, schema: args.schema, dir: args.dir}, args: args}
	if err := c.prepare(c); err != nil {
		return 0, err
	}
	unlock, err := c.openThread()
	if err != nil {
		return 0, err
	}
	defer unlock()
	return c.exec()
}

// codexPrompt reads standard input unless the thread has a prompt as an argument.
func codexPrompt(p *process, args codexArgs) (string, error) {
	if args.verb != "" && args.hasPrompt && args.prompt != "-" {
		return args.prompt, nil
	}
	if args.verb == "fork" && !args.hasPrompt {
		return "", nil
	}
	if !args.hasPrompt {
		p.complain("Reading prompt from stdin...")
	}
	data, err := io.ReadAll(p.stdin)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(data) {
		return "", quit(1, "Failed to read prompt from stdin: input is not valid UTF-8. Convert it to UTF-8 and retry (e.g., `iconv -f <ENC> -t UTF-8 prompt.txt`).")
	}
	prompt := string(data)
	if args.hasPrompt && args.prompt != "-" {
		p.complain("Reading additional input from stdin...")
		prompt = args.prompt
		if len(data) > 0 {
			prompt += "\n\n<stdin>\n" + string(data) + "\n</stdin>"
		}
	}
	if strings.TrimSpace(prompt) == "" {
		return "", quit(1, "No prompt provided via stdin.")
	}
	return prompt, nil
}

// openThread finds or makes the thread and locks it against other processes.
func (c *codex) openThread() (unlock func(), err error) {
	if c.store, err = c.openStore(); err != nil {
		return nil, err
	}
	parent, err := c.parent()
	if err != nil {
		return nil, err
	}
	if parent == nil || c.args.verb == "fork" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		c.mode, c.session = modeNew, &session{ID: id.String(), Dir: c.dir}
		if parent != nil {
			c.mode, c.session = modeFork, fork(parent, id.String())
		}
	} else {
		c.mode, c.session = modeResume, parent
	}
	c.chooseModel()
	if c.args.has("--ephemeral") && c.mode != modeResume { // a resumed thread is kept all the same
		c.store.dir = ""
		return func() {}, nil
	}
	return c.lock()
}

// parent is the thread to go on from, or nil for a new one: that is also, silently,
// what becomes of a name that is no UUID.
func (c *codex) parent() (*session, error) {
	switch {
	case c.args.verb == "":
		return nil, nil
	case c.args.has("--last"):
		return c.store.newest(c.dir)
	case uuid.Validate(c.args.id) != nil:
		return nil, nil
	}
	s, err := c.store.load(c.args.id)
	if missing(err) {
		return nil, quit(1, "Error: thread/%s: thread/%s failed: no rollout found for thread id %s (code -32600)", c.args.verb, c.args.verb, c.args.id)
	}
	return s, err
}

func (c *codex) chooseModel() {
	model := c.args.model()
	recorded := c.session.Model
	if recorded != "" && model != "" && model != recorded {
		c.warning = fmt.Sprintf("This session was recorded with model `%s` but is resuming with `%s`. Consider switching back to `%s` as it may affect Codex performance.", recorded, model, recorded)
	}
	if model != "" {
		c.session.Model = model
	}
	if c.session.Model == "" {
		c.session.Model = codexModel
	}
}

// lock takes the thread for this process; the kernel gives it back at its end.
func (c *codex) lock() (unlock func(), err error) {
	unlock, err = c.store.lock(c.session.ID)
	if err == nil && unlock == nil {
		err = quit(1, "Error: thread/resume: thread/resume failed: thread %s already has an active writer (code -32600)", c.session.ID)
	}
	return unlock, err
}

// exec plays the turn, or makes a fork without one.
func (c *codex) exec() (int, error) {
	const limit = 1 << 20
	n := utf8.RuneCountInString(c.prompt)
	if n == 0 || n > limit {
		c.send(object{"type": "thread.started", "thread_id": c.session.ID})
	}
	if n == 0 {
		return 0, c.store.create(c.session)
	}
	if n > limit {
		return 0, quit(1, `Error: turn/start: turn/start failed: Input exceeds the maximum length of %d characters. (code -32602), data: {"input_error_code":"input_too_large","max_chars":%d,"actual_chars":%d}`, limit, limit, n)
	}
	if err := c.accept(); err != nil {
		return 0, err
	}
	return c.run(c)
}

func (c *codex) open() {
	c.send(object{"type": "thread.started", "thread_id": c.session.ID})
	if c.warning != "" {
		c.completed(object{"type": "error", "message": c.warning})
	}
	c.send(object{"type": "turn.started"})
}

// completed prints an item that has no beginning.
func (c *codex) completed(item object) {
	item["id"] = c.itemID()
	c.send(object{"type": "item.completed", "item": item})
}

func (c *codex) itemID() string {
	c.items++
	return fmt.Sprintf("item_%d", c.items-1)
}

func (c *codex) say(text string) { c.completed(object{"type": "agent_message", "text": text}) }

func (c *codex) answer(a answer) int {
	c.say(a.text)
	u := c.session.Usage // of the whole thread, as the real one counts
	c.send(object{"type": "turn.completed", "usage": object{
		"input_tokens": u.InputTokens, "cached_input_tokens": u.CachedTokens, "cache_write_input_tokens": u.CacheWriteTokens,
		"output_tokens": u.OutputTokens, "reasoning_output_tokens": u.ReasoningTokens,
	}})
	if file := c.args.last("--output-last-message"); file != "" {
		if err := os.WriteFile(file, []byte(a.text), 0o600); err != nil {
			c.complain("Failed to write last message file %q: %v", file, err)
		}
	}
	return 0
}

func (c *codex) forbids(x call) string {
	return codexForbids(c.turn, c.args.sandbox, c.args.values["--add-dir"], x)
}

// codexForbids says what the sandbox has against a call. There is none here to run a
// command in, so a read-only turn runs no command: it fails as it does with the real
// CLI on a machine without user namespaces.
func codexForbids(t *turn, sandbox string, dirs []string, x call) string {
	path := t.abs(x.path)
	writable := append([]string{t.dir, os.TempDir(), "/tmp"}, dirs...)
	switch {
	case sandbox == "danger-full-access", x.command != "" && sandbox != "read-only":
		return ""
	case x.command != "":
		return "bwrap: No permissions to create new namespace\n"
	case sandbox == "read-only":
		return "patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings"
	case !within(path, writable...) || within(path, filepath.Join(t.dir, ".git")):
		return "patch rejected: writing outside of the project; rejected by user approval settings"
	}
	return ""
}

// begin tells of a call. A refused command shows as one that failed, a refused patch on
// standard error only.
func (c *codex) begin(x call) (call, bool) {
	why := c.forbids(x)
	if why != "" && x.command == "" {
		c.complain("%s ERROR codex_core::tools::router: error=%s", timestamp(), why)
		return x, false
	}
	c.pending = c.item(x)
	c.send(object{"type": "item.started", "item": c.pending})
	if why != "" {
		c.end(x, result{output: why, status: 1})
	}
	return x, why == ""
}

// item is a call as it begins.
func (c *codex) item(x call) object {
	item := object{"id": c.itemID(), "status": "in_progress"}
	if x.command != "" {
		item["type"], item["command"] = "command_execution", "/bin/bash -lc "+shellQuote(x.command)
		item["aggregated_output"], item["exit_code"] = "", nil
		return item
	}
	kind := "add"
	if x.exists {
		kind = "update"
	}
	item["type"], item["changes"] = "file_change", []object{{"path": x.target, "kind": kind}}
	return item
}

func (c *codex) end(x call, r result) {
	item := c.pending
	item["status"] = "completed"
	if r.err != nil || r.status != 0 {
		item["status"] = "failed"
	}
	if x.command != "" {
		item["aggregated_output"], item["exit_code"] = r.output, r.status
	}
	c.send(object{"type": "item.completed", "item": item})
}

// shellQuote quotes for the shell only where it must, as Codex shows commands.
func shellQuote(s string) string {
	if strings.Contains(s, "'") {
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(s) + `"`
	}
	return "'" + s + "'"
}

// interrupt ends a turn that a signal stopped. Codex handles SIGINT only.
func (c *codex) interrupt(cause error) int {
	s, ok := errors.AsType[signalled](cause)
	switch {
	case !ok:
		c.complain("thread 'main' panicked: failed printing to stdout: Broken pipe (os error 32)")
		return 101
	case s.signal == syscall.SIGINT:
		return 1
	}
	return dieBy(s.signal)
}
