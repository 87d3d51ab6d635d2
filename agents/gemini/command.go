package gemini

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"flow/agents"
)

// maxPrompt bounds standard input, in bytes: the CLI reads no more. What fits is
// mostly less, the model's context.
const maxPrompt = 8 << 20

// Command says how to start Gemini CLI for one turn.
//
// Of a request it refuses what the CLI has no means for: forks, a money limit, an
// addition to the system prompt, an effort, and asking only for what is dangerous.
func (Adapter) Command(r agents.Request) (agents.Command, error) {
	for _, check := range []func(agents.Request) error{checkSupport, checkPrompt, checkSession, checkDirs} {
		if err := check(r); err != nil {
			return agents.Command{}, err
		}
	}
	mode, err := approvalMode(r)
	if err != nil {
		return agents.Command{}, err
	}
	rules, err := policy(r)
	if err != nil {
		return agents.Command{}, err
	}
	return agents.Command{
		Args: args(r, mode), Env: env(r), Dir: r.Dir, Stdin: stdin(r),
		Files:     files(r, rules),
		Interrupt: "TERM", // any signal ends it at once; INT and HUP do no better
	}, nil
}

func checkSupport(r agents.Request) error {
	switch {
	case r.Session.Mode == agents.SessionFork:
		return refuse("Gemini CLI cannot fork a session", "begin a new session and put what it must know into the prompt, or use claude or codex")
	case r.MaxCostUSD != 0:
		return refuse("Gemini CLI has no money limit", "limit the turns, or use claude")
	case r.SystemPrompt != "":
		return refuse("Gemini CLI can replace its system prompt but not add to it", "put the text at the start of the prompt, or use claude")
	case r.Effort != "":
		return refuse("Gemini CLI has no reasoning effort", "choose another model, or use claude or codex")
	}
	return nil
}

func checkPrompt(r agents.Request) error {
	switch text := stdin(r); {
	case strings.TrimSpace(r.Prompt) == "":
		return refuse("the prompt is empty", "give the step a prompt")
	case len(text) > maxPrompt:
		return refuse(fmt.Sprintf("the prompt has %d bytes, but Gemini CLI reads only %d", len(text), maxPrompt),
			"put the bulk into a file in the workspace and name it in the prompt")
	case !utf8.ValidString(text):
		return refuse("the prompt is not valid UTF-8", "encode binary data, or put it into a file")
	}
	return nil
}

// checkSession lets only UUIDs pass: the CLI takes a number or "latest" for a
// place in its list of sessions, and quietly begins a new one when that is empty.
func checkSession(r agents.Request) error {
	id := r.Session.ID
	if r.Session.Mode == agents.SessionNew && id == "" || agents.IsUUID(id) {
		return nil
	}
	return refuse(fmt.Sprintf("%q is no session id of Gemini CLI", id), "use the UUID that the session's first turn reported")
}

func checkDirs(r agents.Request) error {
	for _, dir := range r.AddDirs {
		if !filepath.IsAbs(dir) || strings.Contains(dir, ",") {
			return refuse(fmt.Sprintf("Gemini CLI cannot be given the directory %q", dir), "use an absolute path without a comma")
		}
	}
	return nil
}

// args repeats every flag for a resumed session too: the CLI keeps none of them.
// Values are joined with "=", so that none can be taken for a flag, and so that
// the flags that take several values leave Request.Args alone.
func args(r agents.Request, mode string) []string {
	a := []string{"--output-format=stream-json", "--approval-mode=" + mode, "--admin-policy=" + policyPath(r)}
	switch {
	case r.Session.Mode == agents.SessionResume:
		a = append(a, "--resume="+r.Session.ID)
	case r.Session.ID != "":
		a = append(a, "--session-id="+r.Session.ID)
	}
	if !r.Inherit {
		a = append(a, "--skip-trust", "--extensions=none", "--allowed-mcp-server-names=none")
	}
	for _, dir := range r.AddDirs {
		a = append(a, "--include-directories="+dir)
	}
	return append(append(a, "--model="+either(r.Model, DefaultModel)), r.Args...)
}

// env of a hermetic run says that the workspace is not trusted and --skip-trust
// that it is to be worked in nonetheless. The CLI reads its settings between the
// two and so leaves out those of the repository: its hooks, MCP servers and tool
// discovery commands, which would run unasked. Trusting the folder, as the manual
// has it, loads them. A home of the run's own leaves out those of the user too.
// Nothing keeps out the repository's GEMINI.md.
func env(r agents.Request) []string {
	e := []string{
		"GEMINI_CLI_NO_RELAUNCH=1", // else a parent swallows signals and outlives its child
		fmt.Sprintf("GEMINI_CLI_TRUST_WORKSPACE=%t", r.Inherit),
		"GEMINI_CLI_SYSTEM_SETTINGS_PATH=" + settingsPath(r),
		"GEMINI_CLI_SYSTEM_DEFAULTS_PATH=" + defaultsPath(r),
		"NO_COLOR=1",
		"TMPDIR=" + r.Scratch, // every API error leaves a dump of the conversation there
	}
	if ownHome(r) {
		e = append(e, "GEMINI_CLI_HOME="+r.Home, maxTurnsSetting(r))
	}
	return e
}

// stdin is the prompt, kept from being taken for a command of the CLI: it runs
// "/memory show" at the start of a prompt before it sends it. It also adds the
// content of files that a prompt names as "@path"; that stays, for they are files
// that the agent may read anyway, and the CLI passes the escape on as text.
func stdin(r agents.Request) string {
	prompt := r.Prompt
	if strings.HasPrefix(strings.TrimSpace(prompt), "/") {
		prompt = "The task:\n\n" + prompt
	}
	return agents.WithSchema(prompt, r.Schema)
}

func refuse(what, hint string) error { return agents.Unsupported(Name, what, hint) }
