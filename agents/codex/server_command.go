package codex

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"flow/agents"
)

const (
	// profileName is the permission profile that bounds a turn which asks.
	profileName = "flow-step"
	// unmakeable is a path that a profile denies, so that nothing leaves the sandbox.
	// While a profile denies some path codex never runs a command without a sandbox,
	// neither the one that the sandbox held up, a second time, nor the one for which the
	// model wants to be let out. For the latter it builds a sandbox that allows all but
	// the denied path, which must exist to be covered; nobody can make a file in /proc,
	// and so that command does not run at all.
	unmakeable = "/proc/" + profileName
	// keyProvider is the model provider that takes its key from keyVar.
	keyProvider = "openai-key"
)

// asks reports whether codex is to ask before every command and every patch.
func asks(r agents.Request) bool {
	return r.Ruled() || r.Approval != "" && r.Approval != agents.ApprovalAutoAll
}

// serverCommand returns how to start `codex app-server` for one turn; what it is asked
// goes over the protocol. It is as hermetic as execCommand, except for what app-server
// has no flags to leave out: the MCP servers in the user's config.toml, and the rules
// that allow commands in CODEX_HOME/rules.
func serverCommand(r agents.Request) (agents.Command, error) {
	if err := refuseServer(r); err != nil {
		return agents.Command{}, err
	}
	prompt, skills := unskilled(withSchema(r))
	if err := refuse(r, prompt); err != nil {
		return agents.Command{}, err
	}
	args := append([]string{"app-server"}, serverSettings(r)...)
	if skills != "" {
		args = append(args, "-c", "skills.config="+skills)
	}
	args = append(args, r.Args...)
	if err := refuseLong(args); err != nil {
		return agents.Command{}, err
	}
	return agents.Command{Args: args, Dir: r.Dir, Stdin: prompt, Talks: true, Interrupt: "TERM", Leaves: mountPoints()}, nil
}

// withSchema is the prompt, with the schema in it where codex cannot enforce that.
func withSchema(r agents.Request) string {
	if strict(r.Schema) {
		return r.Prompt
	}
	return agents.WithSchema(r.Prompt, r.Schema)
}

// serverSettings are the configuration overrides of an app-server.
func serverSettings(r agents.Request) []string {
	args := common()
	if !r.Inherit {
		args = append(append(args, unshared()...), overrides("notify=[]")...)
	}
	args = append(args, toolsOff(r)...)
	if r.Key == keyVar { // app-server reads no key by itself, and a login would be stored
		args = append(args, overrides("model_provider="+tomlString(keyProvider),
			"model_providers."+keyProvider+`={name="OpenAI",base_url=`+tomlString(baseURL(r.Args))+`,env_key="`+keyVar+`",wire_api="responses"}`)...)
	}
	switch {
	case asks(r):
		args = append(args, asking(r)...)
	case sandbox(r) == agents.SandboxWorkspaceWrite:
		args = append(args, network(r)...)
		if len(r.AddDirs) > 0 {
			args = append(args, overrides("sandbox_workspace_write.writable_roots="+tomlStrings(r.AddDirs))...)
		}
	}
	return args
}

// asking are the overrides of a turn that asks: they leave it no tool that does not.
func asking(r agents.Request) []string {
	args := overrides(
		`approvals_reviewer="user"`,                // not a model of codex's own
		"features.unified_exec_tty=false",          // what is typed into a running command is not asked
		"features.exec_permission_approvals=false", // no command of more rights than the profile's
	)
	if without(r, agents.ToolReadFile) {
		args = append(args, overrides("features.view_image=false")...)
	}
	if without(r, agents.ToolSubagent) {
		args = append(args, overrides("features.multi_agent=false")...)
	}
	if profiled(r) {
		args = append(args, overrides("default_permissions="+tomlString(profileName),
			"permissions."+profileName+".filesystem="+profile(r),
			fmt.Sprintf("permissions.%s.network.enabled=%t", profileName, r.Network == agents.NetworkOn))...)
	}
	return args
}

// profiled reports whether the sandbox of the turn is a permission profile.
func profiled(r agents.Request) bool { return asks(r) && sandbox(r) != agents.SandboxOff }

// profile is the permission profile that does what the sandbox mode does, and is not
// left. The network is off, and .git, .codex and .agents are read-only, as in the mode.
func profile(r agents.Request) string {
	entries := []string{`":root"="read"`}
	if sandbox(r) == agents.SandboxWorkspaceWrite {
		entries = append(entries, `":workspace_roots"={"."="write"}`, `":tmpdir"="write"`, `":slash_tmp"="write"`)
		for _, dir := range r.AddDirs {
			entries = append(entries, tomlString(dir)+`="write"`)
		}
	}
	entries = append(entries, tomlString(unmakeable)+`="deny"`)
	return "{" + strings.Join(entries, ",") + "}"
}

// baseURL is the address of OpenAI's API: the one in args, if any.
func baseURL(args []string) string {
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, "openai_base_url="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return "https://api.openai.com/v1"
}

func tomlStrings(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = tomlString(s)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}

// refuseServer stops arguments of a profile that app-server does not take.
func refuseServer(r agents.Request) error {
	takesValue := []string{"-c", "--config", "--enable", "--disable"}
	for i := 0; i < len(r.Args); i++ {
		arg := r.Args[i]
		flag, _, joined := strings.Cut(arg, "=")
		switch {
		case slices.Contains(takesValue, arg):
			i++
		case joined && slices.Contains(takesValue[1:], flag), arg == "--strict-config":
		default:
			return agents.Unsupported(name, fmt.Sprintf("codex app-server takes no argument %s", strconv.Quote(arg)),
				"use -c, --enable or --disable in `args`, or `transport: exec`")
		}
	}
	return nil
}

// threadParams are those of thread/start, thread/resume and thread/fork: codex remembers
// none of them, so each call has them all.
type threadParams struct {
	ThreadID              string `json:"threadId,omitempty"`
	ExcludeTurns          bool   `json:"excludeTurns,omitempty"`
	Cwd                   string `json:"cwd,omitempty"`
	Model                 string `json:"model,omitempty"`
	ApprovalPolicy        string `json:"approvalPolicy"`
	Sandbox               string `json:"sandbox,omitempty"`
	Permissions           string `json:"permissions,omitempty"` // a permission profile, instead of Sandbox
	DeveloperInstructions string `json:"developerInstructions,omitempty"`
}

// openThread is the call that opens the thread of r.
func openThread(r agents.Request) (method string, params threadParams) {
	p := threadParams{
		Cwd: r.Dir, Model: r.Model, ApprovalPolicy: "never", DeveloperInstructions: r.SystemPrompt,
		Sandbox: nativeSandbox(sandbox(r)),
	}
	if asks(r) {
		p.ApprovalPolicy = "untrusted" // on-request asks only for what leaves the sandbox
	}
	if profiled(r) {
		p.Sandbox, p.Permissions = "", profileName
	}
	switch r.Session.Mode {
	case agents.SessionResume:
		p.ThreadID, p.ExcludeTurns = r.Session.ID, true
		return "thread/resume", p
	case agents.SessionFork:
		p.ThreadID, p.ExcludeTurns = r.Session.Parent, true
		return "thread/fork", p
	default:
		return "thread/start", p
	}
}

// nativeSandbox is codex's name of a sandbox mode.
func nativeSandbox(mode agents.SandboxMode) string {
	if mode == agents.SandboxOff {
		return "danger-full-access"
	}
	return string(mode)
}

// turnParams are those of turn/start.
type turnParams struct {
	ThreadID     string          `json:"threadId"`
	Input        []textInput     `json:"input"`
	Effort       string          `json:"effort,omitempty"`
	OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
}

// textInput is what the user says.
type textInput struct {
	Type string `json:"type"` // text
	Text string `json:"text"`
}

func input(text string) []textInput { return []textInput{{Type: "text", Text: text}} }

// startTurn is the turn that r asks for, in a thread.
func startTurn(r agents.Request, thread string) turnParams {
	prompt, _ := unskilled(withSchema(r))
	p := turnParams{ThreadID: thread, Input: input(prompt), Effort: r.Effort}
	if strict(r.Schema) {
		p.OutputSchema = r.Schema
	}
	return p
}
