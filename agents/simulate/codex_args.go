package simulate

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// codexArgs is a checked command line of `codex exec`.
type codexArgs struct {
	parsed
	verb      string // "", resume or fork
	id        string // of the thread to go on from
	prompt    string
	hasPrompt bool // as an argument; "-" is standard input
	sandbox   string
	dir       string
	schema    json.RawMessage
}

// codexExecOptions are those of `codex exec` 0.169.0. The ones of a thread that has
// begun (the third result) are fewer.
func codexExecOptions() (root, exec, thread []option) {
	everywhere := []option{
		{names: "--model -m", takes: one, usage: "--model <MODEL>"},
		{names: "--config -c", takes: one, usage: "--config <key=value>"},
		{names: "--enable", takes: one, usage: "--enable <FEATURE>"},
		{names: "--disable", takes: one, usage: "--disable <FEATURE>"},
		{names: "--image -i", takes: many, usage: "--image <FILE>..."},
		{names: "--dangerously-bypass-approvals-and-sandbox --yolo"},
		{names: "--version -V"},
	}
	placed := []option{
		{names: "--sandbox -s", takes: one, choices: "read-only workspace-write danger-full-access", usage: "--sandbox <SANDBOX_MODE>"},
		{names: "--cd -C", takes: one, usage: "--cd <DIR>"},
		{names: "--add-dir", takes: one, usage: "--add-dir <DIR>"},
		{names: "--profile -p", takes: one, usage: "--profile <CONFIG_PROFILE>"},
	}
	headless := []option{
		{names: "--json"},
		{names: "--skip-git-repo-check"},
		{names: "--ephemeral"},
		{names: "--ignore-user-config"},
		{names: "--ignore-rules"},
		{names: "--strict-config"},
		{names: "--output-schema", takes: one, usage: "--output-schema <FILE>"},
		{names: "--output-last-message -o", takes: one, usage: "--output-last-message <FILE>"},
		{names: "--approve-for-me"},
		{names: "--trust"},
	}
	root = slices.Concat(everywhere, placed, []option{
		{names: "--ask-for-approval -a", takes: one, choices: "on-request never", usage: "--ask-for-approval <APPROVAL_POLICY>"},
		{names: "--search"},
	})
	exec = slices.Concat(everywhere, placed, headless)
	thread = slices.Concat(everywhere, headless, []option{{names: "--last"}, {names: "--all"}})
	return root, exec, thread
}

// codexGrammar reads options as clap does; usage is the text after "Usage: ".
func codexGrammar(options []option, usage string, command bool) grammar {
	const help = "\n\nFor more information, try '--help'."
	repeatable := []string{"--config", "--enable", "--disable", "--add-dir"}
	return grammar{
		options: options,
		command: command,
		unknown: func(arg string) error {
			name, _, _ := cutOption(arg)
			return quit(2, "error: unexpected argument '%s' found\n\n  tip: to pass '%s' as a value, use '-- %s'\n\nUsage: %s%s", name, name, name, usage, help)
		},
		lacking: func(o option) error {
			return quit(2, "error: a value is required for '%s' but none was supplied%s", o.usage, help)
		},
		invalid: func(o option, value string) error {
			return quit(2, "error: invalid value '%s' for '%s'\n  [possible values: %s]%s", value, o.usage, strings.ReplaceAll(o.choices, " ", ", "), help)
		},
		repeated: func(o option) error {
			if slices.Contains(repeatable, o.key()) {
				return nil
			}
			name := o.usage
			if name == "" {
				name = o.key()
			}
			return quit(2, "error: the argument '%s' cannot be used multiple times\n\nUsage: %s%s", name, usage, help)
		},
	}
}

// parseCodexExec reads what follows the word exec.
func parseCodexExec(args []string) (codexArgs, error) {
	_, exec, thread := codexExecOptions()
	const usage = "codex exec [OPTIONS] [PROMPT]\n       codex exec [OPTIONS] <COMMAND> [ARGS]"
	// The options before a subcommand and those after it are different lists, so the
	// first word decides how to read the rest.
	before, err := codexGrammar(exec, usage, true).parse(args)
	if err != nil {
		return codexArgs{}, err
	}
	a := codexArgs{parsed: before}
	if len(before.words) > 0 && slices.Contains([]string{"resume", "fork"}, before.words[0]) {
		a.verb = before.words[0]
		usage := "codex exec " + a.verb + " [OPTIONS] [SESSION_ID] [PROMPT]"
		after, err := codexGrammar(thread, usage, false).parse(before.words[1:])
		if err != nil {
			return codexArgs{}, err
		}
		a.join(after)
	} else {
		all, err := codexGrammar(exec, usage, false).parse(args)
		if err != nil {
			return codexArgs{}, err
		}
		a.parsed = all
	}
	return a, a.splitWords()
}

// join adds the options after the subcommand to those before it.
func (a *codexArgs) join(after parsed) {
	for key, values := range after.values {
		a.values[key] = append(a.values[key], values...)
	}
	a.words = after.words
}

// splitWords tells the thread's id from the prompt.
func (a *codexArgs) splitWords() error {
	words := a.words
	if a.verb != "" && !a.has("--last") && len(words) > 0 {
		a.id, words = words[0], words[1:]
	}
	if len(words) > 1 {
		return quit(2, "error: unexpected argument '%s' found\n\nUsage: codex exec [OPTIONS] [PROMPT]\n\nFor more information, try '--help'.", words[1])
	}
	if len(words) == 1 {
		a.prompt, a.hasPrompt = words[0], true
	}
	return nil
}

// check looks at the values of the options, in the order in which the CLI does.
func (a *codexArgs) check(p *process) error {
	for _, step := range []func(*process) error{a.checkFeatures, a.checkSandbox, a.checkDir, a.checkGit} {
		if err := step(p); err != nil {
			return err
		}
	}
	if !a.has("--json") {
		return quit(1, "flow simulate: codex speaks exec --json")
	}
	return nil
}

// bounded says that the CLI gives up on a network that is not there.
func (a *codexArgs) bounded() bool {
	const feature = "unbounded_connection_retries"
	return slices.Contains(a.values["--disable"], feature) || a.config("features."+feature) == "false"
}

// config is the value of a -c key=value, without quotes, or "".
func (a *codexArgs) config(key string) string {
	for _, pair := range a.values["--config"] {
		if name, value, ok := strings.Cut(pair, "="); ok && strings.TrimSpace(name) == key {
			return strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return ""
}

// model is the model asked for, or "".
func (a *codexArgs) model() string {
	if m := a.last("--model"); m != "" {
		return m
	}
	return a.config("model")
}

// writableRoots are the directories that the configuration opens for writing.
func (a *codexArgs) writableRoots() []string {
	dirs := a.values["--add-dir"]
	for _, pair := range a.values["--config"] {
		name, value, _ := strings.Cut(pair, "=")
		var list []string
		if strings.TrimSpace(name) == "sandbox_workspace_write.writable_roots" && json.Unmarshal([]byte(value), &list) == nil {
			dirs = append(slices.Clone(dirs), list...)
		}
	}
	return dirs
}

func (a *codexArgs) checkFeatures(*process) error {
	known := []string{
		"apps", "hooks", "multi_agent", "plugins", "remote_plugin", "shell_snapshot", "shell_tool",
		"unbounded_connection_retries", "unified_exec", "web_search",
	}
	for _, name := range slices.Concat(a.values["--enable"], a.values["--disable"]) {
		if !slices.Contains(known, name) {
			return quit(1, "Error: Unknown feature flag: %s", name)
		}
	}
	for _, pair := range a.values["--config"] {
		if key, _, ok := strings.Cut(pair, "="); !ok || strings.TrimSpace(key) == "" {
			return quit(1, "Error: Invalid override (missing '='): %s", pair)
		}
	}
	return nil
}

func (a *codexArgs) checkSandbox(*process) error {
	modes := []string{"read-only", "workspace-write", "danger-full-access"}
	a.sandbox = a.last("--sandbox")
	if a.sandbox == "" {
		a.sandbox = a.config("sandbox_mode")
	}
	switch {
	case a.has("--dangerously-bypass-approvals-and-sandbox"):
		a.sandbox = "danger-full-access"
	case a.sandbox == "": // whatever an earlier turn of the thread had
		a.sandbox = "read-only"
	case !slices.Contains(modes, a.sandbox):
		return quit(1, "Error loading config.toml: unknown variant `%s`, expected one of `%s`\nin `sandbox_mode`\n", a.sandbox, strings.Join(modes, "`, `"))
	}
	return nil
}

func (a *codexArgs) checkDir(*process) error {
	dir, err := filepath.Abs(a.last("--cd"))
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return quit(1, "Error: No such file or directory (os error 2)")
	}
	a.dir = dir
	return nil
}

// checkGit wants a repository unless it is told not to.
func (a *codexArgs) checkGit(*process) error {
	if a.has("--skip-git-repo-check") || a.has("--dangerously-bypass-approvals-and-sandbox") {
		return nil
	}
	for dir := a.dir; ; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, ".git")) {
			return nil
		}
		if dir == filepath.Dir(dir) {
			return quit(1, "Not inside a trusted directory and --skip-git-repo-check was not specified.")
		}
	}
}

// readSchema reads the file of --output-schema.
func (a *codexArgs) readSchema() error {
	file := a.last("--output-schema")
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return quit(1, "Failed to read output schema file %s: No such file or directory (os error 2)", file)
	}
	if !json.Valid(data) {
		return quit(1, "Output schema file %s is not valid JSON: key must be a string at line 1 column 2", file)
	}
	a.schema = data
	return nil
}
