package acp

import (
	"encoding/json"
	"path/filepath"

	"flow/agents"
)

// askingOpenCode lets OpenCode ask for every call, whatever configuration it finds, so that
// the policy decides. Unless the request inherits, it reads none of the repository.
//
// The user's own configuration stays, for the providers of models stand there. A profile
// that sets OPENCODE_CONFIG_CONTENT is heard as well.
func askingOpenCode(r agents.Request, c *agents.Command) {
	file := filepath.Join(r.Scratch, "opencode.json")
	ask := map[string]string{}
	for _, name := range openCodePermissions() {
		ask[name] = "ask"
	}
	// An agent's permissions stand above the general ones. "build" is the one that works.
	config := map[string]any{
		"share": "disabled", "agent": map[string]any{"build": map[string]any{"permission": ask}},
		// Without it a call that is denied ends the turn, and the model does not learn of it.
		"experimental": map[string]any{"continue_loop_on_deny": true},
	}
	c.Files = append(c.Files, agents.File{Path: file, Data: encode(config)})
	c.Env = append(c.Env, "OPENCODE_CONFIG="+file, "OPENCODE_PERMISSION="+string(encode(ask)), "OPENCODE_DISABLE_AUTOUPDATE=true")
	if !r.Inherit {
		c.Env = append(c.Env, "OPENCODE_DISABLE_PROJECT_CONFIG=true", "OPENCODE_DISABLE_CLAUDE_CODE=true",
			"OPENCODE_DISABLE_EXTERNAL_SKILLS=true", "OPENCODE_PURE=true", "OPENCODE_DISABLE_LSP_DOWNLOAD=true")
	}
}

// openCodePermissions are the names that OpenCode's permissions have. Each is named: what a
// configuration says of one by its name would stand above what is said of "*".
func openCodePermissions() []string {
	return []string{
		"*", "read", "edit", "glob", "grep", "list", "bash", "task", "webfetch", "websearch", "codesearch",
		"external_directory", "doom_loop", "skill", "lsp",
	}
}

// encode cannot fail: it gets texts and truth values.
func encode(v any) []byte {
	data, _ := json.Marshal(v)
	return data
}
