package agents

import (
	"path/filepath"
	"strings"
)

// Unspoken is what becomes of a rule that an agent has no words for; lack says why. Where
// the agent is confined, writing comes to nothing outside of where it may.
func (r Request) Unspoken(rule *Rule, lack string) (Enforcement, string) {
	tool := Tool(rule.Tool)
	if r.Confined && rule.Effect != "allow" && (tool == ToolWriteFile || tool == ToolEditFile) && r.outside(rule.Pattern) {
		return Sandboxed, "the sandbox lets nothing be written there"
	}
	return Detected, lack
}

// outside reports whether a pattern of paths can match nothing that a confined agent may
// write. It is known of absolute ones only: where ~ is, a request does not say.
func (r Request) outside(pattern string) bool {
	start := pattern
	if i := strings.IndexAny(pattern, `*?[{\`); i >= 0 {
		start = pattern[:i]
	}
	if !filepath.IsAbs(start) {
		return false
	}
	for _, dir := range append([]string{r.Dir, r.Home}, r.AddDirs...) {
		dir = filepath.Clean(dir) + "/"
		if strings.HasPrefix(dir, start) || strings.HasPrefix(start+"/", dir) {
			return false
		}
	}
	return true
}
