package pipeline

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// Sandboxes are the modes of `sandbox`.
func Sandboxes() []string { return []string{"off", "read-only", "workspace-write"} }

// SandboxOptions are what `sandbox` says besides its mode.
type SandboxOptions struct {
	// Network is on, off, or "": on, but for an agent that has a sandbox of its own.
	Network string `json:"network,omitempty"`
	// Required lets nothing start that cannot be bounded in full.
	Required bool `json:"required,omitempty"`
}

// SandboxOf returns the mode of a step's sandbox, that of its agent's profile if it has
// none; "" where nothing is said.
func (p *Plan) SandboxOf(s *Step) (mode string, o SandboxOptions) {
	if s.Sandbox != "" {
		return s.Sandbox, s.SandboxOptions
	}
	profile := p.Agents[s.Agent]
	return profile.Sandbox, profile.SandboxOptions
}

func sandboxTable() []key {
	return []key{
		{"mode", "What can be written: anything, nothing, or the working directory.", choice(Sandboxes()...)},
		{"network", "Whether what runs in it reaches the network.", choice("on", "off")},
		{"required", "Nothing starts where the sandbox cannot be enforced in full.", truth()},
	}
}

func sandboxSchema() schema {
	return schema{"anyOf": []schema{choice(Sandboxes()...), closed(sandboxTable(), "mode")}}
}

// sandbox decodes `sandbox: MODE` and {mode, network, required}.
func (l *loader) sandbox(n *yaml.Node) (mode string, o SandboxOptions) {
	if deref(n).Kind != yaml.MappingNode {
		return l.oneOf(n, "`sandbox`", Sandboxes()), o
	}
	found := l.fields(n, "`sandbox`", sandboxTable(), func(e entry) {
		switch e.key {
		case "mode":
			mode = l.oneOf(e.val, "`sandbox.mode`", Sandboxes())
		case "network":
			o.Network = l.onOff(e.val, "`sandbox.network`")
		case "required":
			o.Required = l.boolean(e.val, "`sandbox.required`")
		}
	})
	l.wants(n, found, "`sandbox`", "mode", "add mode: workspace-write, or read-only")
	for _, key := range []string{"network", "required"} {
		if at, ok := found[key]; ok && mode == "off" {
			l.fail(at, "write mode: workspace-write, or read-only; or remove it", "`sandbox.%s` has no meaning with `mode: off`", key)
		}
	}
	return mode, o
}

// onOff decodes on and off. Words that mean off must not be taken for a misspelt on.
func (l *loader) onOff(n *yaml.Node, what string) string {
	switch n = deref(n); strings.ToLower(n.Value) {
	case "no", "false", "none":
		l.failNode(n, "write off", "%s must be one of on, off, got %s", what, describe(n))
		return ""
	}
	return l.oneOf(n, what, []string{"on", "off"})
}
