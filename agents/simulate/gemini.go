package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"flow/agents"
)

const geminiVersion = "0.61.0"

// gemini is Gemini CLI: the voice of its stream-json output.
type gemini struct {
	*turn
	args    geminiArgs
	began   time.Time
	model   string
	calls   int    // tool_calls
	pending string // id of the tool call that is under way
}

// runGemini is the process of Gemini CLI.
func runGemini(p *process) (int, error) {
	args, err := parseGemini(p)
	if err != nil {
		return 0, err
	}
	if args.has("--version") {
		_, err := fmt.Fprintln(p.stdout, geminiVersion)
		return 0, err
	}
	if args.acp() {
		return talkACP(p, &geminiACP{args: args})
	}
	prompt, err := geminiPrompt(p, args)
	if err != nil {
		return 0, err
	}
	g := &gemini{
		turn: &turn{process: p, prompt: prompt, schema: agents.SchemaOf(prompt), survives: true},
		args: args, began: time.Now(), model: args.last("--model"),
	}
	if g.model == "" {
		g.model = "auto"
	}
	if g.dir, err = os.Getwd(); err != nil {
		return 0, err
	}
	if err := g.checkDirectories(); err != nil {
		return 0, err
	}
	if err := g.prepare(g); err != nil {
		return 0, err
	}
	if err := g.openSession(); err != nil {
		return 0, err
	}
	return g.run(g)
}

// geminiPrompt joins standard input and the prompt argument.
func geminiPrompt(p *process, args geminiArgs) (string, error) {
	const limit = 8 << 20
	data, err := io.ReadAll(io.LimitReader(p.stdin, limit)) // the rest is cut off
	if err != nil {
		return "", err
	}
	data = bytes.TrimPrefix(data, []byte("/flow\n")) // the command with which the adapter passes texts on
	given := args.last("--prompt") + strings.Join(args.words, " ")
	prompt := strings.TrimSpace(string(data) + "\n\n" + given)
	if prompt == "" {
		return "", quit(42, "No input provided via stdin. Input can be provided by piping data into gemini or using the --prompt option.")
	}
	return prompt, nil
}

func (g *gemini) checkDirectories() error {
	for _, dir := range g.args.list("--include-directories") {
		if !exists(g.abs(dir)) {
			return quit(1, "[WARN] Skipping unreadable directory: %s (Directory does not exist: %s)", dir, g.abs(dir))
		}
	}
	return nil
}

// openSession finds or makes the session and keeps the prompt in it.
func (g *gemini) openSession() (err error) {
	if g.store, err = g.openStore(); err != nil {
		return err
	}
	g.store.saved = g.writeChat
	if file := g.args.last("--session-file"); file != "" && !exists(file) {
		return quit(42, "Error loading session file: %s does not exist", file)
	}
	g.mode = modeNew
	id := g.args.last("--session-id")
	if id == "" {
		id = uuid.NewString()
	}
	g.session = &session{ID: id, Dir: g.dir}
	if g.args.has("--resume") {
		if err := g.resume(); err != nil {
			return err
		}
	}
	g.session.Model = g.model
	err = g.accept()
	if errors.Is(err, fs.ErrExist) {
		return quit(42, "Error starting session: Session ID %q already exists. Use --resume to resume it, or provide a different ID.", id)
	}
	return err
}

// resume finds the session to go on in. It is known only where it began.
func (g *gemini) resume() error {
	newest, err := g.store.newest(g.dir)
	if err != nil {
		return err
	}
	id := g.args.last("--resume")
	if s := g.readChat(id); s != nil && g.unknown(id) {
		g.mode, g.session = modeFork, s
		return nil
	}
	switch {
	case (id == "" || id == "latest") && newest == nil:
		return nil // a new one begins, silently
	case id == "" || id == "latest":
		g.mode, g.session = modeResume, newest
		return nil
	case newest == nil:
		return quit(42, "Error resuming session: No previous sessions found for this project.")
	}
	s, err := g.store.load(id)
	if err == nil && s.Dir == g.dir {
		g.mode, g.session = modeResume, s
		return nil
	}
	if err != nil && !missing(err) {
		return err
	}
	return quit(42, "Error resuming session: Invalid session identifier %q.\n  Searched for sessions in %s\n  Use --list-sessions to see available sessions, then use --resume {number}, --resume {uuid}, or --resume latest.", id, g.dir)
}

// unknown reports whether the simulation has no record of a session.
func (g *gemini) unknown(id string) bool {
	_, err := g.store.load(id)
	return err != nil && missing(err)
}

// line prints one event.
func (g *gemini) line(typ string, fields object) {
	fields["type"], fields["timestamp"] = typ, timestamp()
	g.send(fields)
}

func (g *gemini) open() {
	if g.args.approval == "yolo" {
		g.complain("YOLO mode is enabled. All tool calls will be automatically approved.")
	}
	g.line("init", object{"session_id": g.session.ID, "model": g.model})
	g.line("message", object{"role": "user", "content": g.prompt})
}

func (g *gemini) say(text string) {
	g.line("message", object{"role": "assistant", "content": text, "delta": true})
}

func (g *gemini) answer(a answer) int {
	if most := g.args.settings.Model.MaxSessionTurns; most > 0 && g.requests > most {
		return g.fail(agents.CauseMaxTurns)
	}
	pieces := chunks(a.text)
	if g.script.big > 0 {
		pieces = []string{a.text}
	}
	for _, piece := range pieces {
		g.say(piece)
	}
	g.result("success", nil)
	return 0
}

// result prints the last line. Its stats are those of this process.
func (g *gemini) result(status string, problem object) {
	u := g.spent
	stats := func() object {
		return object{
			"total_tokens": u.TotalTokens, "input_tokens": u.InputTokens, "output_tokens": u.OutputTokens,
			"cached": u.CachedTokens, "input": u.InputTokens - u.CachedTokens,
		}
	}
	model := g.model
	if model == "auto" {
		model = "gemini-3.8-flash"
	}
	all := stats()
	all["duration_ms"], all["tool_calls"], all["models"] = 0, g.calls, object{model: stats()}
	line := object{"status": status, "stats": all}
	if problem != nil {
		line["error"] = problem
	} else {
		all["duration_ms"] = time.Since(g.began).Milliseconds()
	}
	g.line("result", line)
}

// geminiCall is a call in Gemini's words: the tool's name and its parameters.
func geminiCall(x call) (name string, parameters object) {
	switch {
	case x.command != "":
		return "run_shell_command", object{"command": x.command, "description": "Run a command"}
	case x.exists:
		return "replace", object{
			"file_path": x.path, "old_string": x.before, "new_string": x.after, "instruction": "Add to the end of the file.",
		}
	default:
		return "write_file", object{"file_path": x.path, "content": x.after}
	}
}

// forbids says what the approval mode and the policies have against a call: a tool
// that would have to be asked about is not registered at all.
func (g *gemini) forbids(x call) string {
	name, _ := geminiCall(x)
	why, ruled := g.ruled(name, x)
	if why != "" && ruled {
		return why
	}
	granted := map[string][]string{
		"auto_edit": {"write_file", "replace"}, "yolo": {"write_file", "replace", "run_shell_command"},
		"plan": {"write_file", "replace"},
	}[g.args.approval]
	switch {
	case !ruled && !slices.Contains(granted, name):
		return fmt.Sprintf("Tool %q not found. Did you mean one of: \"read_file\", \"update_topic\", \"grep_search\"?", name)
	case g.args.approval == "plan":
		return geminiDenied + " You are in Plan Mode and cannot modify source code. You may ONLY use write_file or replace to save plans to the designated plans directory as .md files."
	case x.command == "" && !within(g.abs(x.path), append(g.included(), g.dir)...):
		return fmt.Sprintf("Path not in workspace: Attempted path %q resolves outside the allowed workspace directories: %s", x.path, g.dir)
	}
	return ""
}

const geminiDenied = "Tool execution denied by policy."

// ruled says what the policies decide; ok is false when they do not mention the tool.
// A tool that has rules, none of which cover the call, is denied.
func (g *gemini) ruled(name string, x call) (why string, ok bool) {
	mentioned := false
	for _, r := range g.args.rules {
		if r.covers(name, x) {
			if r.decision == "allow" {
				return "", true
			}
			return strings.TrimSpace(geminiDenied + " " + r.message), true
		}
		mentioned = mentioned || r.names(name) && r.decision == "allow"
	}
	return geminiDenied, mentioned && g.args.approval != "yolo"
}

func (g *gemini) included() []string {
	var out []string
	for _, dir := range g.args.list("--include-directories") {
		out = append(out, g.abs(dir))
	}
	return out
}

// begin tells of a call and, if it is refused, why.
func (g *gemini) begin(x call) (call, bool) {
	name, parameters := geminiCall(x)
	g.calls++
	g.pending = fmt.Sprintf("%s__%s_%d_0", name, name, time.Now().UnixMilli())
	g.line("tool_use", object{"tool_name": name, "tool_id": g.pending, "parameters": parameters})
	why := g.forbids(x)
	if why == "" {
		return x, true
	}
	kind := "tool_not_registered"
	switch {
	case strings.HasPrefix(why, geminiDenied):
		kind = "policy_violation"
	case strings.HasPrefix(why, "Path not"):
		kind = "invalid_tool_params"
	}
	g.complain("Error executing tool %s: %s", name, why)
	g.toolResult("error", object{"output": why, "error": object{"type": kind, "message": why}})
	return x, false
}

// end reports success whatever the exit status of a command: so does the real one.
func (g *gemini) end(x call, r result) {
	switch {
	case r.err != nil:
		g.toolResult("error", object{"output": r.err.Error(), "error": object{"type": "file_write_failure", "message": r.err.Error()}})
	case x.command != "":
		g.toolResult("success", object{"output": strings.TrimRight(r.output, "\n")})
	default:
		g.toolResult("success", object{})
	}
}

func (g *gemini) toolResult(status string, fields object) {
	fields["tool_id"], fields["status"] = g.pending, status
	g.line("tool_result", fields)
}

// interrupt ends a turn that a signal stopped: nothing tells it from success but
// the lack of a result.
func (g *gemini) interrupt(error) int { return 0 }
