package simulate

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
)

func geminiOptions() []option {
	var out []option
	flags := func(takes arity, names ...string) {
		for _, n := range names {
			out = append(out, option{names: n, takes: takes})
		}
	}
	flags(none, "--debug -d", "--skip-trust", "--sandbox -s", "--yolo -y", "--acp", "--experimental-acp",
		"--list-extensions -l", "--list-sessions", "--screen-reader", "--raw-output", "--accept-raw-output-risk",
		"--version -v", "--help -h")
	flags(one, "--model -m", "--prompt -p", "--prompt-interactive -i", "--session-file", "--session-id", "--delete-session")
	flags(maybe, "--resume -r", "--worktree -w")
	flags(many, "--policy", "--admin-policy", "--allowed-mcp-server-names", "--allowed-tools", "--extensions -e", "--include-directories")
	return append(out,
		option{names: "--approval-mode", takes: one, choices: "default auto_edit yolo plan"},
		option{names: "--output-format -o", takes: one, choices: "text json stream-json"})
}

// geminiUsage is what follows every complaint about arguments, its list of options
// left out.
const geminiUsage = "\nUsage: gemini [options] [command]\n\nGemini CLI - Defaults to interactive mode. Use -p/--prompt for non-interactive (headless) mode.\n"

func geminiGrammar() grammar {
	return grammar{
		options: geminiOptions(),
		unknown: func(arg string) error {
			name, _, _ := cutOption(arg)
			name = strings.TrimLeft(name, "-")
			if camel := camelCase(name); camel != name {
				return quit(1, "Unknown arguments: %s, %s%s", name, camel, geminiUsage)
			}
			return quit(1, "Unknown argument: %s%s", name, geminiUsage)
		},
		lacking: func(o option) error {
			names := strings.Fields(o.names)
			return quit(1, "Not enough arguments following: %s%s", strings.TrimLeft(names[len(names)-1], "-"), geminiUsage)
		},
		invalid: func(o option, value string) error {
			choices := `"` + strings.ReplaceAll(o.choices, " ", `", "`) + `"`
			return quit(1, "Invalid values:\n  Argument: %s, Given: %q, Choices: %s%s", strings.TrimLeft(o.key(), "-"), value, choices, geminiUsage)
		},
	}
}

// camelCase is the second name that the real CLI's parser gives an option.
func camelCase(name string) string {
	words := strings.Split(name, "-")
	for i, w := range words[1:] {
		if w != "" {
			words[i+1] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, "")
}

// geminiSettings is what the simulation heeds of the system settings file.
type geminiSettings struct {
	Model struct {
		MaxSessionTurns int `json:"maxSessionTurns"`
	} `json:"model"`
	Security struct {
		FolderTrust struct {
			Enabled *bool `json:"enabled"`
		} `json:"folderTrust"`
	} `json:"security"`
}

// geminiArgs is a checked command line of Gemini CLI.
type geminiArgs struct {
	parsed
	approval string
	settings geminiSettings
	rules    []geminiRule
}

func parseGemini(p *process) (geminiArgs, error) {
	given, err := geminiGrammar().parse(p.args)
	a := geminiArgs{parsed: given, approval: given.last("--approval-mode")}
	if err != nil || a.has("--version") {
		return a, err
	}
	if a.approval == "" {
		a.approval = "default"
	}
	if a.has("--yolo") {
		a.approval = "yolo"
	}
	for _, check := range []func(*process) error{a.checkTogether, a.readSettings, a.checkTrust, a.readPolicies} {
		if err := check(p); err != nil {
			return a, err
		}
	}
	return a, nil
}

// checkTogether refuses options that contradict each other.
func (a *geminiArgs) checkTogether(*process) error {
	sessions := 0
	for _, key := range []string{"--resume", "--session-id", "--session-file"} {
		if a.has(key) {
			sessions++
		}
	}
	switch {
	case a.has("--yolo") && a.has("--approval-mode"):
		return quit(1, "Cannot use both --yolo (-y) and --approval-mode together. Use --approval-mode=yolo instead.%s", geminiUsage)
	case a.has("--prompt") && len(a.words) > 0:
		return quit(1, "Cannot use both a positional prompt and the --prompt (-p) flag together%s", geminiUsage)
	case sessions > 1:
		return quit(1, "Cannot use --resume, --session-id and --session-file together. Please specify only one.%s", geminiUsage)
	case a.has("--worktree"):
		return quit(1, "The --worktree flag requires experimental worktrees to be enabled in your settings.%s", geminiUsage)
	case a.last("--output-format") != "stream-json" && !a.acp():
		return quit(1, "flow simulate: gemini speaks --output-format stream-json")
	}
	return nil
}

// acp says that the CLI is to speak ACP.
func (a *geminiArgs) acp() bool { return a.has("--acp") || a.has("--experimental-acp") }

func (a *geminiArgs) readSettings(p *process) error {
	file := p.env("GEMINI_CLI_SYSTEM_SETTINGS_PATH")
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil // the real one goes on without, too
	}
	if err := json.Unmarshal(data, &a.settings); err != nil {
		return quit(52, "Error in %s: %v\nPlease fix the configuration file(s) and try again.", file, err)
	}
	return nil
}

func (a *geminiArgs) checkTrust(p *process) error {
	enabled := a.settings.Security.FolderTrust.Enabled
	if a.has("--skip-trust") || p.env("GEMINI_CLI_TRUST_WORKSPACE") == "true" || (enabled != nil && !*enabled) {
		return nil
	}
	return quit(55, "Gemini CLI is not running in a trusted directory. To proceed, either use `--skip-trust`, set the `GEMINI_CLI_TRUST_WORKSPACE=true` environment variable, or trust this directory in interactive mode. For more details, see https://geminicli.com/docs/cli/trusted-folders/#headless-and-automated-environments")
}

// A geminiRule is one [[rule]] of a policy file.
type geminiRule struct {
	tools    []string
	prefixes []string // of the command; none is any
	decision string
	message  string // for the model, when the decision is deny
	priority int    // the rule with the greatest wins
}

// names reports whether the rule is about a tool; names of tools may end in a star.
func (r geminiRule) names(tool string) bool {
	return slices.ContainsFunc(r.tools, func(name string) bool {
		prefix, open := strings.CutSuffix(name, "*")
		return name == tool || open && strings.HasPrefix(tool, prefix)
	})
}

func (r geminiRule) covers(tool string, x call) bool {
	if !r.names(tool) {
		return false
	}
	return len(r.prefixes) == 0 || slices.ContainsFunc(r.prefixes, func(prefix string) bool {
		return x.command == prefix || strings.HasPrefix(x.command, prefix+" ")
	})
}

func (a *geminiArgs) readPolicies(*process) error {
	for _, file := range slices.Concat(a.list("--policy"), a.list("--admin-policy")) {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the real one warns
		}
		rules, err := parsePolicy(string(data))
		if err != nil {
			return quit(1, "Error: policy file %s: %v", file, err)
		}
		a.rules = append(a.rules, rules...)
	}
	for _, tool := range a.list("--allowed-tools") {
		name, prefix, scoped := strings.Cut(strings.TrimSuffix(tool, ")"), "(")
		r := geminiRule{tools: []string{name}, decision: "allow"}
		if scoped {
			r.prefixes = []string{prefix}
		}
		a.rules = append(a.rules, r)
	}
	slices.SortStableFunc(a.rules, func(x, y geminiRule) int { return y.priority - x.priority })
	return nil
}
