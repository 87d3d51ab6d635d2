package simulate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// claudeOptions are the options of Claude Code 2.1.329 that matter to headless use.
func claudeOptions() []option {
	var out []option
	flags := func(takes arity, names ...string) {
		for _, n := range names {
			out = append(out, option{names: n, takes: takes})
		}
	}
	flags(none, "--print -p", "--verbose", "--include-partial-messages", "--fork-session", "--continue -c",
		"--dangerously-skip-permissions", "--allow-dangerously-skip-permissions", "--strict-mcp-config", "--bare",
		"--safe-mode", "--restricted", "--disable-slash-commands", "--no-session-persistence",
		"--replay-user-messages", "--forward-subagent-text", "--version -v")
	flags(one, "--model", "--fallback-model", "--session-id", "--json-schema", "--permission-prompt-tool",
		"--append-system-prompt", "--append-system-prompt-file", "--system-prompt", "--system-prompt-file",
		"--system-prompt-snapshot", "--max-turns", "--max-budget-usd", "--settings", "--setting-sources",
		"--effort", "--name -n", "--agent", "--agents", "--debug-file", "--permission-prompts")
	flags(maybe, "--resume -r")
	flags(many, "--allowedTools --allowed-tools", "--disallowedTools --disallowed-tools", "--tools", "--add-dir", "--mcp-config")
	return append(out,
		option{names: "--output-format", takes: one, choices: "text json stream-json", usage: "--output-format <format>"},
		option{names: "--input-format", takes: one, choices: "text stream-json", usage: "--input-format <format>"},
		option{
			names: "--permission-mode", takes: one, usage: "--permission-mode <mode>",
			choices: "acceptEdits auto bypassPermissions manual dontAsk plan default",
		})
}

func claudeGrammar() grammar {
	return grammar{
		options: claudeOptions(),
		dashes:  true,
		unknown: func(arg string) error { return quit(1, "error: unknown option '%s'", arg) },
		lacking: func(o option) error { return quit(1, "error: option '%s <value>' argument missing", o.key()) },
		invalid: func(o option, value string) error {
			choices := strings.ReplaceAll(strings.TrimSuffix(o.choices, " default"), " ", ", ")
			return quit(1, "error: option '%s' argument '%s' is invalid. Allowed choices are %s.", o.usage, value, choices)
		},
	}
}

// claudeArgs is a checked command line of Claude Code.
type claudeArgs struct {
	parsed
	mode      string // permission mode, as init reports it
	maxTurns  int
	maxBudget float64
	schema    json.RawMessage
}

func parseClaude(p *process) (claudeArgs, error) {
	given, err := claudeGrammar().parse(p.args)
	a := claudeArgs{parsed: given, mode: given.last("--permission-mode")}
	if err != nil || a.has("--version") {
		return a, err
	}
	if a.mode == "" || a.mode == "manual" {
		a.mode = "default"
	}
	if a.has("--dangerously-skip-permissions") {
		a.mode = "bypassPermissions"
	}
	for _, check := range []func(*process) error{a.checkFormat, a.checkMode, a.checkSession, a.checkFiles, a.checkMCP} {
		if err := check(p); err != nil {
			return a, err
		}
	}
	if err := a.readNumbers(); err != nil {
		return a, err
	}
	return a, a.readSchema()
}

func (a *claudeArgs) checkFormat(*process) error {
	if a.last("--output-format") != "stream-json" {
		return quit(1, "flow simulate: claude speaks --output-format stream-json")
	}
	if !a.has("--verbose") {
		return quit(1, "Error: When using --print, --output-format=stream-json requires --verbose")
	}
	return nil
}

func (a *claudeArgs) checkMode(p *process) error {
	if a.mode == "bypassPermissions" && os.Geteuid() == 0 && p.env("IS_SANDBOX") != "1" {
		return quit(1, "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons")
	}
	if tool := a.last("--permission-prompt-tool"); tool != "" && tool != "stdio" {
		return quit(1, "Error: MCP tool %s (passed via --permission-prompt-tool) not found. Available MCP tools: none", tool)
	}
	return nil
}

func (a *claudeArgs) checkSession(*process) error {
	id := a.last("--session-id")
	if id == "" {
		return nil
	}
	if uuid.Validate(id) != nil {
		return quit(1, "Error: Invalid session ID. Must be a valid UUID.")
	}
	if (a.has("--resume") || a.has("--continue")) && !a.has("--fork-session") {
		return quit(1, "Error: --session-id can only be used with --continue or --resume if --fork-session is also specified.")
	}
	return nil
}

func (a *claudeArgs) checkFiles(*process) error {
	for _, key := range []string{"--append-system-prompt-file", "--system-prompt-file"} {
		if file := a.last(key); file != "" && !exists(file) {
			return quit(1, "Error: %s not found: %s", strings.TrimPrefix(key, "--"), absolute(file))
		}
	}
	settings := strings.TrimSpace(a.last("--settings"))
	if settings != "" && !json.Valid([]byte(settings)) && !exists(settings) {
		return quit(1, "Error: Settings file not found: %s", absolute(settings))
	}
	return nil
}

func (a *claudeArgs) checkMCP(*process) error {
	for _, config := range a.values["--mcp-config"] {
		data := []byte(config)
		if !strings.HasPrefix(strings.TrimSpace(config), "{") {
			var err error
			if data, err = os.ReadFile(config); err != nil {
				return quit(1, "Error: Invalid MCP configuration:\nMCP config file not found: %s", absolute(config))
			}
		}
		var file struct {
			Servers map[string]any `json:"mcpServers"`
		}
		if json.Unmarshal(data, &file) != nil || file.Servers == nil {
			return quit(1, "Error: Invalid MCP configuration:\nmcpServers: Invalid input: expected record, received undefined")
		}
	}
	return nil
}

func (a *claudeArgs) readNumbers() (err error) {
	if s := a.last("--max-turns"); s != "" {
		if a.maxTurns, err = strconv.Atoi(s); err != nil {
			return quit(1, "error: option '--max-turns <turns>' argument '%s' is invalid. must be a number", s)
		}
	}
	if s := a.last("--max-budget-usd"); s != "" {
		if a.maxBudget, err = strconv.ParseFloat(s, 64); err != nil || a.maxBudget <= 0 {
			return quit(1, "error: option '--max-budget-usd <amount>' argument '%s' is invalid. must be a positive number", s)
		}
	}
	return nil
}

func (a *claudeArgs) readSchema() error {
	if !a.has("--json-schema") {
		return nil
	}
	a.schema = json.RawMessage(a.last("--json-schema"))
	if !json.Valid(a.schema) {
		return quit(1, "Error: --json-schema is not valid JSON: JSON Parse error: Expected '}'")
	}
	var root struct {
		Type string `json:"type"`
	}
	types := []string{"", "array", "boolean", "integer", "null", "number", "object", "string"}
	if json.Unmarshal(a.schema, &root) == nil && !slices.Contains(types, root.Type) {
		return quit(1, "Error: --json-schema is not a valid JSON Schema: data/type must be equal to one of the allowed values, data/type must be array, data/type must match a schema in anyOf")
	}
	return nil
}

// model is the full name of the model asked for.
func (a *claudeArgs) model(resumed string) string {
	m := a.last("--model")
	if m == "" && resumed != "" {
		return resumed
	}
	return claudeModel(m)
}

// claudeModel is the full name behind an alias.
func claudeModel(m string) string {
	switch m {
	case "", "default":
		return "claude-opus-5-5"
	case "opus", "sonnet", "haiku":
		return fmt.Sprintf("claude-%s-5-5", m)
	case "fable":
		return "claude-fable-5-2"
	default:
		return m
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// absolute is for messages: a path that cannot be made absolute stays as it is.
func absolute(file string) string {
	if abs, err := filepath.Abs(file); err == nil {
		return abs
	}
	return file
}
