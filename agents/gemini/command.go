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
// Of a request it refuses what the CLI has no means for: a money limit, an addition to
// the system prompt, an effort, and asking only for what is dangerous.
func (Adapter) Command(r agents.Request) (agents.Command, error) {
	for _, check := range []func(agents.Request) error{checkSupport, checkPrompt, checkSession, checkDirs} {
		if err := check(r); err != nil {
			return agents.Command{}, err
		}
	}
	if talks(r) {
		return talkCommand(r)
	}
	mode, err := approvalMode(r)
	if err != nil {
		return agents.Command{}, err
	}
	rules, err := policy(r, mode)
	if err != nil {
		return agents.Command{}, err
	}
	return agents.Command{
		Args: args(r, mode), Env: env(r), Dir: r.Dir, Stdin: stdin(r),
		Files:     files(r, rules),
		Prepare:   preparation(r),
		Interrupt: "TERM", // any signal ends it at once; INT and HUP do no better
		Writable:  writable(r),
	}, nil
}

// talkCommand says how to start the CLI for a conversation.
func talkCommand(r agents.Request) (agents.Command, error) {
	rules, err := talkPolicy(r)
	if err != nil {
		return agents.Command{}, err
	}
	return agents.Command{
		Args: talkArgs(r, talkMode(r)), Env: env(r), Dir: r.Dir, Stdin: talkPrompt(r), Talks: true,
		Files: files(r, rules), Prepare: preparation(r), Interrupt: "TERM", Writable: writable(r),
	}, nil
}

func checkSupport(r agents.Request) error {
	switch {
	case r.Transport != "" && r.Transport != headless && r.Transport != transport:
		return refuse(fmt.Sprintf("Gemini CLI has no transport %q", r.Transport), "use headless or acp")
	case r.Session.Mode == agents.SessionResume && talks(r) && !ownHome(r):
		return refuse("Gemini CLI may lose a session that it loads over ACP, and flow can prevent that only in a home of the run's own",
			"leave `inherit` out, or use transport: headless")
	case r.Session.Mode == agents.SessionFork && !ownHome(r):
		return refuse("a session of Gemini CLI can be forked only in a home of the run's own", "leave `inherit` out, or use claude or codex")
	case r.Session.Mode == agents.SessionFork && r.Session.ID == "":
		return refuse("a fork of a Gemini CLI session needs an id", "choose a UUID for it")
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
	case len(text) > maxPrompt && !talks(r):
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
	ids := []string{r.Session.ID}
	switch {
	case r.Session.Mode == agents.SessionNew && r.Session.ID == "":
		return nil
	case r.Session.Mode == agents.SessionFork:
		ids = append(ids, r.Session.Parent)
	}
	for _, id := range ids {
		if !agents.IsUUID(id) {
			return refuse(fmt.Sprintf("%q is no session id of Gemini CLI", id), "use the UUID that the session's first turn reported")
		}
	}
	return nil
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
	if untrusted(r) {
		mode = "default" // the rules grant what the mode would
	}
	a := []string{"--output-format=stream-json", "--approval-mode=" + mode, "--admin-policy=" + policyPath(r)}
	switch {
	case r.Session.Mode != agents.SessionNew: // a fork is a copy by now
		a = append(a, "--resume="+r.Session.ID)
	case r.Session.ID != "":
		a = append(a, "--session-id="+r.Session.ID)
	}
	a = append(a, confinement(r)...)
	return append(append(a, "--model="+either(r.Model, DefaultModel)), r.Args...)
}

// confinement are the arguments that say what the CLI may load and where it may work.
func confinement(r agents.Request) []string {
	var a []string
	if !r.Inherit {
		if !untrusted(r) {
			a = append(a, "--skip-trust")
		}
		a = append(a, "--extensions=none", "--allowed-mcp-server-names=none")
	}
	for _, dir := range r.AddDirs {
		a = append(a, "--include-directories="+dir)
	}
	return a
}

// untrusted reports whether the CLI works in a folder that it does not trust. It then
// loads nothing of the repository: neither its settings, with their hooks, MCP servers
// and tool discovery commands, nor GEMINI.md. It does so only when its settings say that
// trust is of no concern, which it is sure to read in a home of the run's own; and in
// its default mode alone, which is no loss where the policy grants what other modes
// would. Plan mode is more than a set of tools, and keeps to what env says.
func untrusted(r agents.Request) bool { return ownHome(r) && r.Approval != agents.ApprovalPlan }

// env of a hermetic run says that the workspace is not trusted. Where untrusted does not
// hold, --skip-trust says that it is to be worked in nonetheless: the CLI reads its
// settings between the two and so leaves out those of the repository, but not its
// GEMINI.md. Trusting the folder, as the manual has it, loads both. A home of the run's
// own leaves out the settings of the user too.
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

func refuse(what, hint string) error { return agents.Unsupported(Name, what, hint) }
