package steps

import (
	"slices"
	"strings"
)

// What a child process sees of flow's own environment. Everything else must be
// declared: a secret that happens to be exported does not reach an agent.
var (
	//nolint:gochecknoglobals // a table
	commonVariables = []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TMPDIR", "TZ",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
		"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	}
	//nolint:gochecknoglobals // a table
	commonPrefixes = []string{"LC_", "XDG_"}
	//nolint:gochecknoglobals // a table
	vendorPrefixes = []string{"ANTHROPIC_", "CLAUDE_", "CODEX_", "OPENAI_", "GEMINI_", "GOOGLE_"}
	//nolint:gochecknoglobals // a table
	simulatePrefixes = []string{"FLOW_SIMULATE"}
)

// inherit returns what of environ ("NAME=value") passes to a child.
func inherit(environ []string, prefixes ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains(commonVariables, name) && !hasPrefix(name, commonPrefixes) && !hasPrefix(name, prefixes)
	})
}

func hasPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// setEnv appends variables; the last one of a name wins and stands once.
func setEnv(env []string, more ...string) []string {
	for _, v := range more {
		name, _, _ := strings.Cut(v, "=")
		env = slices.DeleteFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		env = append(env, v)
	}
	return env
}
