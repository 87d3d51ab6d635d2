package steps

import (
	"maps"
	"slices"
	"strings"

	"flow/agents"
	"flow/pipeline"
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
	vendorPrefixes = []string{
		"ANTHROPIC_", "CLAUDE_", "CODEX_", "OPENAI_", "GEMINI_", "GOOGLE_",
		"COPILOT_", "CURSOR_", "GOOSE_", "KIMI_", "OPENCODE_", "QWEN_",
	}
	//nolint:gochecknoglobals // a table
	gitPrefixes = []string{"GIT_", "SSH_"}
	//nolint:gochecknoglobals // a table
	simulatePrefixes = []string{"FLOW_SIMULATE"}
)

// environment is what the step's process gets, apart from what its agent adds: the
// inherited part, then the pipeline's env, the profile's and the step's. visible is
// what templates see of it as `.env`. A variable that cannot be rendered is left out
// of both, and the error is the first of theirs.
//
// What the callers of the step's pipeline declare comes before that.
func (x *Executor) environment(f *frame, s *pipeline.Step, data pipeline.Data) (env []string, visible map[string]any, err error) {
	var prefixes []string
	layers := [][]pipeline.Var{f.plan.Env, s.Env}
	if s.Kind == pipeline.KindPrompt || s.Kind == pipeline.KindMerge {
		prefixes = vendorPrefixes
		if x.Simulate != nil {
			prefixes = slices.Concat(vendorPrefixes, simulatePrefixes)
		}
		layers = [][]pipeline.Var{f.plan.Env, f.plan.Agents[s.Agent].Env, s.Env}
	}
	declared, visible, err := x.variables(f, slices.Concat(layers...), data)
	env = setEnv(setEnv(inherit(x.Environ, prefixes...), f.outer...), declared...)
	return setEnv(env, "FLOW_RUN_ID="+x.RunID), visible, err
}

// variables renders vars, each of which sees those before it.
//
// What templates see of a variable is rendered a second time, without the secrets
// and without what was made from them: however the template spells it, no secret
// can be in it. A variable that cannot be rendered so is not visible.
func (x *Executor) variables(f *frame, vars []pipeline.Var, data pipeline.Data) (declared []string, visible map[string]any, first error) {
	secrets, all, visible := map[string]any{}, map[string]any{}, map[string]any{}
	for name, value := range f.secrets {
		secrets[name] = value
	}
	with, without := maps.Clone(data), maps.Clone(data)
	with["secrets"], with["env"] = secrets, all
	without["env"] = visible
	for _, v := range vars {
		delete(visible, v.Name)
		value, err := f.renderer.Text(v.Value, with)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		declared = append(declared, v.Name+"="+value)
		all[v.Name] = value
		if shown, err := f.renderer.Text(v.Value, without); err == nil {
			visible[v.Name] = shown
		}
		x.learn(v.Name, value, visible[v.Name])
	}
	return declared, visible, first
}

// setKey is the first of an agent's key variables that env sets, "" for none.
func setKey(info agents.Info, env []string) string {
	for _, name := range info.KeyVariables {
		if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") && v != name+"=" }) {
			return name
		}
	}
	return ""
}

// home is the user's home directory, "" when the environment does not say.
func (x *Executor) home() (dir string) {
	for _, v := range x.Environ {
		if value, ok := strings.CutPrefix(v, "HOME="); ok {
			dir = value
		}
	}
	return dir
}

// inherit returns what of environ ("NAME=value") passes to a child.
func inherit(environ []string, prefixes ...string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains(commonVariables, name) && !hasPrefix(name, commonPrefixes) && !hasPrefix(name, prefixes)
	})
}

// GitEnvironment returns what of environ ("NAME=value") git's processes get: what every
// child does, and what git and ssh are told by. A repository's settings can have git run
// programs (filters, for one), so it is no more than it needs.
func GitEnvironment(environ []string) []string { return inherit(environ, gitPrefixes...) }

func hasPrefix(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// setEnv returns env with more variables; the last one of a name wins and stands
// once.
func setEnv(env []string, more ...string) []string {
	all := slices.Concat(env, more)
	last := make(map[string]int, len(all))
	for i, v := range all {
		name, _, _ := strings.Cut(v, "=")
		last[name] = i
	}
	out := make([]string, 0, len(last))
	for i, v := range all {
		if name, _, _ := strings.Cut(v, "="); last[name] == i {
			out = append(out, v)
		}
	}
	return out
}
