package codex

import (
	"fmt"
	"path/filepath"
	"strings"

	"flow/agents"
)

// schemaFile is the name, in Request.Scratch, of the schema given to codex.
const schemaFile = "output-schema.json"

// execCommand returns the arguments of one `codex exec --json` turn; the prompt goes to
// standard input, which must be closed after it.
//
// A turn is hermetic unless Request.Inherit: without the user's config.toml (and so
// without a model provider or MCP server of their own), execpolicy rules, hooks, the
// list of skills, and the project's AGENTS.md. Two things codex cannot be told to
// leave out: the login and the AGENTS.md in CODEX_HOME. With or without Inherit the
// prompt is text: a `$name` in it brings no skill in.
//
// Reasoning summaries stay off, which is codex's own default: accounts whose
// organisation is not verified get an error for asking. Request.Args with
// `-c model_reasoning_summary=auto` turns them on.
func execCommand(r agents.Request) (agents.Command, error) {
	c := agents.Command{Dir: r.Dir, Interrupt: "INT", Leaves: mountPoints()}
	stdin, skills := unskilled(withSchema(r))
	c.Stdin = stdin
	if err := refuse(r, c.Stdin); err != nil {
		return agents.Command{}, err
	}
	c.Args = append(c.Args, "exec", "--json", "--skip-git-repo-check", "-C", r.Dir)
	c.Args = append(c.Args, bounds(r)...)
	if r.Model != "" {
		c.Args = append(c.Args, "-m", r.Model)
	}
	c.Args = append(c.Args, settings(r)...)
	if skills != "" {
		c.Args = append(c.Args, "-c", "skills.config="+skills)
	}
	if strict(r.Schema) {
		file := filepath.Join(r.Scratch, schemaFile)
		c.Files = []agents.File{{Path: file, Data: r.Schema}}
		c.Args = append(c.Args, "--output-schema", file)
	}
	c.Args = append(c.Args, r.Args...)
	c.Args = append(c.Args, session(r.Session)...)
	if err := refuseLong(c.Args); err != nil {
		return agents.Command{}, err
	}
	return c, nil
}

// mountPoints are what the sandbox puts its protections on; where they do not exist
// it makes them, and a killed codex leaves them behind.
func mountPoints() []string { return []string{".agents", ".aws", ".codex", ".git"} }

// bounds are the flags of the sandbox. Codex bounds every command by the kernel
// (bubblewrap, seccomp); its workspace-write also allows /tmp and $TMPDIR, keeps
// .git read-only and the network off. The flags must be given again on every
// resume: codex remembers neither and falls back to read-only.
func bounds(r agents.Request) []string {
	if r.Approval == agents.ApprovalAutoAll {
		return []string{"--dangerously-bypass-approvals-and-sandbox"}
	}
	switch sandbox(r) {
	case agents.SandboxOff:
		return []string{"-s", "danger-full-access"}
	case agents.SandboxReadOnly:
		return []string{"-s", "read-only"} // reads anywhere, so further directories need no flag
	default:
		args := []string{"-s", "workspace-write"}
		args = append(args, network(r)...)
		for _, dir := range r.AddDirs {
			args = append(args, "--add-dir", dir)
		}
		return args
	}
}

// network is the override of what workspace-write lets reach the network, if it is said.
func network(r agents.Request) []string {
	if r.Network == "" {
		return nil
	}
	return overrides(fmt.Sprintf("sandbox_workspace_write.network_access=%t", r.Network == agents.NetworkOn))
}

// settings are the flags and configuration overrides of a turn by exec.
func settings(r agents.Request) []string {
	args := common()
	if !r.Inherit {
		args = append(append(args, "--ignore-user-config", "--ignore-rules"), unshared()...)
	}
	args = append(args, toolsOff(r)...)
	if r.Effort != "" {
		args = append(args, "-c", "model_reasoning_effort="+tomlString(r.Effort))
	}
	if r.SystemPrompt != "" {
		args = append(args, "-c", "developer_instructions="+tomlString(r.SystemPrompt))
	}
	return args
}

// common are the configuration overrides of every turn. `-c` and not `--disable`: a name
// that the installed version does not know is then a warning, not an error.
func common() []string {
	return overrides(
		"analytics.enabled=false",                     // waits 5 s at exit when there is no network
		"features.unbounded_connection_retries=false", // waits for a network for ever
		"features.apps=false",                         // calls home at every start, as the next two do
		"features.plugins=false",
		"features.remote_plugin=false",
		"shell_environment_policy.ignore_default_excludes=false", // keeps API keys from commands
	)
}

// unshared are the overrides of a turn that is to see nothing of the user's and the
// project's own.
func unshared() []string {
	return overrides("project_doc_max_bytes=0" /* AGENTS.md */, "features.hooks=false", "skills.include_instructions=false")
}

// toolsOff turns off the tools that codex asks nobody about and that the rules allow no
// call of.
func toolsOff(r agents.Request) []string {
	if !r.Ruled() || !without(r, agents.ToolWebSearch) {
		return nil
	}
	return overrides(`web_search="disabled"`)
}

func overrides(settings ...string) []string {
	args := make([]string, 0, 2*len(settings))
	for _, s := range settings {
		args = append(args, "-c", s)
	}
	return args
}

// session ends the arguments: what is common must stand before `resume` and `fork`,
// which accept less, and `-` reads the prompt from standard input whatever it says.
func session(s agents.Session) []string {
	switch s.Mode {
	case agents.SessionResume:
		return []string{"resume", s.ID, "-"}
	case agents.SessionFork:
		return []string{"fork", s.Parent, "-"}
	default:
		return []string{"-"}
	}
}

// tomlString quotes s as a TOML basic string, which differs from JSON's only in
// that DEL must be escaped.
func tomlString(s string) string {
	return strings.ReplaceAll(string(agents.AppendString(nil, s)), "\x7f", fmt.Sprintf(`\u%04x`, 0x7f))
}
