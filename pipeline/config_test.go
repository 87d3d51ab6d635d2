package pipeline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/pipeline"
)

// ownerOf is whose configuration a file of testdata/configs is, by its name.
func ownerOf(file string) pipeline.Owner {
	owner, _, _ := strings.Cut(filepath.Base(file), "-")
	return pipeline.Owner(owner)
}

func TestConfigErrors(t *testing.T) {
	for _, file := range files(t, "testdata/configs/*.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, _, err := pipeline.LoadConfig(file, ownerOf(file), transports())
			var errs pipeline.Errors
			if !errors.As(err, &errs) {
				t.Fatalf("want Errors, got %v", err)
			}
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			pipeline.Format(&b, errs, src)
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", b.Bytes())
			for _, e := range errs {
				inside(t, e, src)
			}
		})
	}
}

// transports are options with agents that speak more than one protocol.
func transports() pipeline.Options {
	o := options()
	for name := range o.Agents {
		info := o.Agents[name]
		info.Transports = []string{"a", "b", "c"}
		o.Agents[name] = info
	}
	return o
}

// layers are options with configurations beneath: the user's, then the project's above it.
func layers(t *testing.T, user, project string) pipeline.Options {
	t.Helper()
	o := transports()
	for _, layer := range []struct {
		name, src string
		owner     pipeline.Owner
	}{{"user.yaml", user, pipeline.UserConfig}, {"project.yaml", project, pipeline.ProjectConfig}} {
		if layer.src == "" {
			continue
		}
		c, _, err := pipeline.ParseConfig(layer.name, []byte(layer.src), layer.owner, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Configs = append([]*pipeline.Config{c}, o.Configs...)
	}
	return o
}

// beneath loads a pipeline over configurations.
func beneath(t *testing.T, user, project, src string) *pipeline.Plan {
	t.Helper()
	plan, _, err := pipeline.Parse("p.yaml", []byte(src), layers(t, user, project))
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, plan)
	return plan
}

// A sampleSchema is what the schema says of a key's value, to make three of them.
type sampleSchema struct {
	Type  any            `json:"type"`
	Enum  []string       `json:"enum"`
	AnyOf []sampleSchema `json:"anyOf"`
}

// samples are three values of a profile's key, as YAML.
func samples(key string, s sampleSchema) []string {
	switch {
	case key == "fallback":
		return []string{"[claude]", "[gemini]", "[gemini, claude]"}
	case len(s.AnyOf) > 0:
		return samples(key, s.AnyOf[0])
	case len(s.Enum) > 0:
		return []string{s.Enum[0], s.Enum[1], s.Enum[2]}
	case s.Type == "boolean":
		return []string{"true", "false", "true"}
	case s.Type == "integer", s.Type == "number":
		return []string{"1", "2", "3"}
	default:
		return []string{"a", "b", "c"}
	}
}

// Every key of a profile that the pipeline leaves open is the project's, else the user's.
func TestProfileKeysAreLayered(t *testing.T) {
	text, err := pipeline.ConfigSchema()
	if err != nil {
		t.Fatal(err)
	}
	var root struct {
		Defs struct {
			Agent struct {
				Properties map[string]sampleSchema `json:"properties"`
			} `json:"agent"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	keys := root.Defs.Agent.Properties
	if len(keys) < 15 {
		t.Fatalf("%d keys", len(keys))
	}
	for key, schema := range keys {
		if slices.Contains([]string{"use", "env", "permissions", "exec"}, key) {
			continue // they are layered by name and by rule; exec is of another agent than this test's
		}
		v := samples(key, schema)
		config := func(value string) string { return fmt.Sprintf("agents: {codex: {%s: %s}}", key, value) }
		own := fmt.Sprintf("%s: %s", key, v[2])
		for _, c := range []struct{ user, project, own, want, from string }{
			{config(v[0]), "", "", v[0], "user.yaml:1:18"},
			{"", config(v[1]), "", v[1], "project.yaml:1:18"},
			{config(v[0]), config(v[1]), "", v[1], "project.yaml:1:18"},
			{config(v[0]), config(v[1]), own, v[2], ""},
			{config(v[0]), "", own, v[2], ""},
		} {
			pipe := "agents: {p: {use: codex, %s}}\nsteps: {a: {prompt: hi}}"
			got := beneath(t, c.user, c.project, fmt.Sprintf(pipe, c.own)).Agents["p"]
			want := beneath(t, "", "", fmt.Sprintf(pipe, key+": "+c.want)).Agents["p"]
			if from := got.Origin[key]; from != c.from {
				t.Errorf("%s of user %q, project %q and pipeline %q is said to be from %q, want %q", key, c.user, c.project, c.own, from, c.from)
			}
			got.Origin = nil
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s of user %q, project %q and pipeline %q (-want +got):\n%s", key, c.user, c.project, c.own, d)
			}
		}
	}
}

// What bounds a run, and the agent of steps that name none.
func TestConfigLayers(t *testing.T) {
	one := "steps: {a: {agent: claude, prompt: hi}}"
	for name, c := range map[string]struct{ user, project, pipe, want string }{
		"concurrency of the user":     {"concurrency: 2", "", one, `limit 2 map[]`},
		"concurrency of the project":  {"concurrency: 2", "concurrency: {steps: 3}", one, `limit 3 map[]`},
		"concurrency of the pipeline": {"concurrency: 2", "concurrency: 3", "concurrency: 5\n" + one, `limit 5 map[]`},
		"agents by name": {
			"concurrency: {agents: {claude: 1, codex: 1, gemini: 1}}", "concurrency: {agents: {codex: 2, gemini: 2}}",
			"concurrency: {agents: {gemini: 3}}\n" + one, `limit 0 map[claude:1 codex:2 gemini:3]`,
		},
		"budget of the user":      {"budget: {usd: 1}", "", one, `budget 1 0 stop`},
		"budget of the project":   {"budget: {usd: 1}", "budget: {tokens: 7, on-exceed: warn}", one, `budget 0 7 warn`},
		"budget of the pipeline":  {"budget: {usd: 1}", "budget: {tokens: 7}", "budget: {usd: 3}\n" + one, `budget 3 0 stop`},
		"on-limit of the user":    {"on-limit: {wait: 1h}", "", one, `on-limit 1h0m0s false`},
		"on-limit of the project": {"on-limit: {wait: 1h}", "on-limit: fallback", one, `on-limit 0s true`},
		"on-limit: fail of the pipeline": {
			"on-limit: {wait: 1h}", "", "on-limit: fail\n" + one, `on-limit 0s false`,
		},
		"timeout of the user":    {"timeout: 5m", "", one, `timeout 5m0s`},
		"timeout of the project": {"timeout: 5m", "timeout: 6m", one, `timeout 6m0s`},
		"timeout of the step":    {"timeout: 5m", "timeout: 6m", "steps: {a: {agent: claude, prompt: hi, timeout: 7m}}", `timeout 7m0s`},
		"idle-timeout of the step": {
			"timeout: 5m", "", "steps: {a: {agent: claude, prompt: hi, idle-timeout: 7m}}", `timeout 0s`,
		},
		"default agent of the user":    {"agents: {default: codex}", "", "steps: {a: {prompt: hi}}", `agent codex (codex)`},
		"default agent of the project": {"agents: {default: codex}", "agents: {default: gemini}", "steps: {a: {prompt: hi}}", `agent gemini (gemini)`},
		"the only profile": {
			"agents: {default: codex}", "", "agents: {mine: {use: claude}}\nsteps: {a: {prompt: hi}}", `agent mine (claude)`,
		},
		"two profiles": {
			"agents: {default: codex}", "", "agents: {x: {use: claude}, y: {use: claude}}\nsteps: {a: {prompt: hi}}", `agent codex (codex)`,
		},
		"a named one as default": {
			"agents: {default: fast, fast: {use: gemini}}", "", "steps: {a: {prompt: hi}}", `agent fast (gemini)`,
		},
		"the nearest of a name": {
			"agents: {fast: {use: gemini}}", "agents: {fast: {use: codex}}", "steps: {a: {agent: fast, prompt: hi}}", `agent fast (codex)`,
		},
		"the pipeline's of a name": {
			"agents: {fast: {use: gemini}}", "", "agents: {fast: {use: claude}}\nsteps: {a: {agent: fast, prompt: hi}}", `agent fast (claude)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := beneath(t, c.user, c.project, c.pipe)
			facts := []string{fmt.Sprintf("limit %d %v", p.Limit, p.AgentLimits), fmt.Sprintf("timeout %v", p.Steps[0].Timeout)}
			if b := p.Budget; b != nil {
				facts = append(facts, fmt.Sprintf("budget %v %v %s", b.USD, b.Tokens, b.OnExceed))
			}
			if o := p.OnLimit; o != nil {
				facts = append(facts, fmt.Sprintf("on-limit %v %v", o.Wait, o.Fallback))
			}
			facts = append(facts, fmt.Sprintf("agent %s (%s)", p.Steps[0].Agent, p.Agents[p.Steps[0].Agent].Use))
			if !slices.Contains(facts, c.want) {
				t.Errorf("want %q of %q", c.want, facts)
			}
		})
	}
}

// Rules add up; the nearest default counts, and none weaker than the user's.
func TestPermissionsAreLayered(t *testing.T) {
	pipe := func(permissions, profile, step string) string {
		block := func(s string) string {
			if s == "" {
				return ""
			}
			return ", permissions: {" + s + "}"
		}
		top := ""
		if permissions != "" {
			top = "permissions: {" + permissions + "}\n"
		}
		return top + "agents: {p: {use: claude" + block(profile) + "}}\nsteps: {a: {prompt: hi" + block(step) + "}}"
	}
	for name, c := range map[string]struct{ user, project, pipe, want string }{
		"none":                    {"", "", pipe("", "", ""), "none"},
		"the user's":              {"permissions: {default: ask}", "", pipe("", "", ""), "ask"},
		"the project's":           {"permissions: {default: allow}", "permissions: {default: ask}", pipe("", "", ""), "ask"},
		"the pipeline's":          {"", "permissions: {default: ask}", pipe("default: allow", "", ""), "allow"},
		"the step's":              {"", "permissions: {default: ask}", pipe("default: ask", "default: ask", "default: allow"), "allow"},
		"an agent's of the user":  {"agents: {claude: {permissions: {default: ask}}}", "", pipe("", "", ""), "ask"},
		"another agent's":         {"agents: {codex: {permissions: {default: ask}}}", "", pipe("", "", ""), "none"},
		"an agent's of a project": {"", "permissions: {default: deny}\nagents: {claude: {permissions: {default: allow}}}", pipe("", "", ""), "allow"},
		"a project goes before an agent of the user": {
			"agents: {claude: {permissions: {default: allow}}}", "permissions: {default: ask}", pipe("", "", ""), "ask",
		},
		"the pipeline goes before an agent of a project": {
			"", "agents: {claude: {permissions: {default: ask}}}", pipe("default: allow", "", ""), "allow",
		},
		"the user's deny stays": {"permissions: {default: deny}", "permissions: {default: allow}", pipe("default: allow", "default: allow", "default: allow"), "deny"},
		"the user's ask stays":  {"permissions: {default: ask}", "", pipe("", "", "default: allow"), "ask"},
		"an agent's deny of the user stays": {
			"agents: {claude: {permissions: {default: deny}}}", "", pipe("default: allow", "", "default: allow"), "deny",
		},
		"a stronger one is taken": {"permissions: {default: ask}", "", pipe("default: deny", "", ""), "deny"},
		"a weak default of the user's agent does not weaken the pipeline's": {
			"agents: {claude: {permissions: {default: ask}}}", "", pipe("default: deny", "", ""), "deny",
		},
		"strict stays": {"permissions: {strict: true}", "permissions: {strict: false}", pipe("strict: false", "", ""), " strict"},
		"rules add up": {
			"permissions: {rules: [{deny: shell(rm *)}]}\nagents: {claude: {permissions: {rules: [{ask: shell}]}}}",
			"permissions: {rules: [{allow: web_search}]}", pipe("rules: [{allow: shell(ls)}]", "rules: [{deny: web_fetch}]", "rules: [{ask: mcp}]"),
			" deny:shell(rm *)@user.yaml allow:web_search@project.yaml allow:shell(ls)@ ask:shell@user.yaml deny:web_fetch@ ask:mcp@",
		},
		"the pipeline's time to wait goes before an agent's": {
			"agents: {claude: {permissions: {ask-timeout: 5m}}}", "", pipe("ask-timeout: 6m", "", ""), " 6m0s",
		},
		"time to wait": {"permissions: {ask-timeout: 5m}", "permissions: {ask-timeout: 6m}", pipe("", "", ""), " 6m0s"},
		"protected":    {"permissions: {protect: a}", "permissions: {protect: b}", pipe("protect: c", "", ""), " [a b c]"},
	} {
		t.Run(name, func(t *testing.T) {
			p := beneath(t, c.user, c.project, c.pipe)
			got := "none"
			if all := p.PermissionsOf(&p.Steps[0]); all != nil {
				got = all.Default
				if all.Strict {
					got += " strict"
				}
				for _, r := range all.Rules {
					got += " " + strings.Replace(r.Effect+":"+r.Tool+"("+r.Pattern+")@", "()", "", 1) + r.File
				}
				if all.AskTimeout > 0 {
					got += " " + all.AskTimeout.String()
				}
				if len(all.Protect) > 0 {
					got += fmt.Sprintf(" %v", all.Protect)
				}
			}
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// Variables are layered by their names, and those of the pipeline as a whole go before any.
func TestVariablesAreLayered(t *testing.T) {
	p := beneath(t, "agents: {claude: {env: {A: u, B: u, C: u, D: u}}}", "agents: {claude: {env: {B: r, C: r, D: r}}}",
		"env: {C: top}\nagents: {p: {use: claude, env: {D: own}}}\nsteps: {a: {prompt: hi}}")
	got := map[string]string{}
	for _, v := range p.Agents["p"].Env {
		if _, twice := got[v.Name]; twice {
			t.Errorf("%s is set twice", v.Name)
		}
		got[v.Name] = v.Value.Src
	}
	if d := cmp.Diff(map[string]string{"A": "u", "B": "r", "D": "own"}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]string{"env.A": "user.yaml:1:25", "env.B": "project.yaml:1:25"}, p.Agents["p"].Origin); d != "" {
		t.Error(d)
	}
}

// What a configuration says of fallbacks never makes agents of a pipeline fall back on each
// other, and brings along the agents that it names.
func TestConfiguredFallbacks(t *testing.T) {
	user := "agents: {claude: {fallback: [codex, fast]}, fast: {use: gemini, fallback: codex}}"
	p := beneath(t, user, "", "agents: {codex: {use: codex, fallback: claude}}\nsteps: {a: {agent: codex, prompt: hi}}")
	for name, want := range map[string][]string{"codex": {"claude"}, "claude": nil, "fast": {"codex"}} {
		if got := p.Agents[name].Fallback; !slices.Equal(got, want) {
			t.Errorf("%s falls back on %q, want %q", name, got, want)
		}
	}
	p = beneath(t, user, "", "agents: {fast: {use: claude}}\nsteps: {a: {agent: fast, prompt: hi}}")
	if got := p.Agents["fast"].Fallback; !slices.Equal(got, []string{"codex"}) {
		t.Errorf("a profile falls back on %q, want no more than codex: the other one is itself", got)
	}
}

// A called pipeline has the agents and the rules too, and bounds count once.
func TestConfigOfCalledPipelines(t *testing.T) {
	o := layers(t, "agents: {claude: {model: opus}, fast: {use: codex}}\npermissions: {rules: [{deny: shell}]}\nbudget: {usd: 1}\nconcurrency: 2\ntimeout: 3m", "")
	o.ReadFile = func(string) ([]byte, error) {
		return []byte("steps: {b: {agent: claude, prompt: hi}, c: {needs: b, agent: fast, prompt: hi}}"), nil
	}
	p, warnings, err := pipeline.Parse("p.yaml", []byte("steps: {a: {pipeline: q.yaml}}"), o)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	q := p.Steps[0].Call.Plan
	if q.Agents["claude"].Model != "opus" || q.Agents["fast"].Use != "codex" || q.Steps[0].Timeout == 0 || q.PermissionsOf(&q.Steps[0]) == nil {
		t.Errorf("the called pipeline lacks some of it: %+v", q)
	}
	if q.Budget != nil || q.Limit != 0 || p.Budget == nil || p.Limit != 2 {
		t.Errorf("the bounds are not those of the first pipeline alone")
	}
}

// A place that moved is no other plan; another value is.
func TestCompareLooksPastOrigins(t *testing.T) {
	src := "agents: {p: {use: claude, permissions: {rules: [{deny: shell}]}}}\nsteps: {a: {prompt: hi}}"
	user := "agents: {claude: {model: opus, permissions: {rules: [{deny: web_fetch}]}}}"
	plan := beneath(t, user, "", src)
	for name, c := range map[string]struct {
		user, project string
		want          int
	}{
		"further down":          {"# a comment\n\n" + user, "", 0},
		"in another file":       {"", user, 0},
		"another model":         {strings.Replace(user, "opus", "sonnet", 1), "", 1},
		"another rule":          {strings.Replace(user, "web_fetch", "web_search", 1), "", 1},
		"a bound, not an agent": {user + "\nconcurrency: 9", "", 0},
	} {
		if changes := pipeline.Compare(plan, beneath(t, c.user, c.project, src), nil, nil); len(changes) != c.want {
			t.Errorf("%s: %v", name, changes)
		}
	}
}

func TestLoadConfigRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.WriteFile(at("ok"), []byte("agents: {claude: {model: opus}}"), 0o600), os.WriteFile(at("empty"), nil, 0o600),
		os.Symlink(at("ok"), at("link")), syscall.Mkfifo(at("fifo"), 0o600), os.Mkdir(at("dir"), 0o700),
		os.WriteFile(at("large"), bytes.Repeat([]byte("#"), 1<<20+1), 0o600),
		os.WriteFile(at("binary"), []byte("a\x00b"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]string{ // of the user, of a project
		"ok": {}, "empty": {}, "link": {"", "is a symbolic link"},
		"fifo": {"not a regular file", "not a regular file"}, "dir": {"not a regular file", "not a regular file"},
		"large": {"the limit is 1 MiB", "the limit is 1 MiB"}, "binary": {"control character U+0000", "control character U+0000"},
		"none": {"no such file", "no such file"},
	} {
		for i, owner := range []pipeline.Owner{pipeline.UserConfig, pipeline.ProjectConfig} {
			_, _, err := pipeline.LoadConfig(at(name), owner, options())
			if (err == nil) != (want[i] == "") || err != nil && !strings.Contains(err.Error(), want[i]) {
				t.Errorf("%s of a %s: %v, want %q", name, owner, err, want[i])
			}
		}
	}
}

// A configuration may name what those beneath it declare.
func TestConfigNamesWhatIsBeneath(t *testing.T) {
	o := layers(t, "agents: {fast: {use: codex}}", "agents: {default: fast, slow: {use: claude, fallback: fast}}")
	if name, origin := o.DefaultAgent(); name != "fast" || origin != "project.yaml:1:10" {
		t.Errorf("the default agent is %q of %q", name, origin)
	}
	_, _, err := pipeline.ParseConfig("p.yaml", []byte("agents: {default: fast}"), pipeline.ProjectConfig, options())
	if err == nil || !strings.Contains(err.Error(), "unknown agent `fast`") {
		t.Errorf("an agent that nothing declares: %v", err)
	}
}

func TestConfigWarnsOfKeys(t *testing.T) {
	src := "agents: {claude: {env: {ANTHROPIC_API_KEY: sk-" + strings.Repeat("a1", 12) + "}}}"
	_, warnings, err := pipeline.ParseConfig("c.yaml", []byte(src), pipeline.UserConfig, options())
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].String(), "looks like a key") || !strings.Contains(warnings[0].Hint, "export it") {
		t.Errorf("%v %v", warnings, err)
	}
}

func TestSettings(t *testing.T) {
	o := layers(t, `
agents: {default: claude, claude: {model: opus, env: {A: secret}, max-cost-usd: 2, sandbox: {mode: read-only, network: off}}}
permissions: {default: ask, strict: true, rules: [{deny: shell}]}
budget: {usd: 5}
`, "agents: {claude: {effort: high}}\nconcurrency: {agents: {claude: 2}}")
	src := []byte(`
permissions: {default: allow}
agents: {p: {use: claude, effort: low, permissions: {default: allow}}}
concurrency: 3
steps: {a: {agent: p, prompt: hi}}
`)
	plan, _, err := pipeline.Parse("p.yaml", src, o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range pipeline.Settings(plan, src, o) {
		got = append(got, fmt.Sprintf("%s %v %s %t", s.Key, s.Value, s.Origin, s.Private))
	}
	want := []string{
		"agents.default claude user.yaml:2:10 false",
		"agents.claude.model opus user.yaml:2:36 false",
		"agents.claude.sandbox map[mode:read-only network:off] user.yaml:2:84 false",
		"agents.claude.effort high project.yaml:1:19 false",
		"agents.claude.max-cost-usd 2 user.yaml:2:67 false",
		"agents.claude.env.A secret user.yaml:2:55 true",
		"agents.p.use claude p.yaml:3:14 false",
		"agents.p.model opus user.yaml:2:36 false",
		"agents.p.sandbox map[mode:read-only network:off] user.yaml:2:84 false",
		"agents.p.effort low p.yaml:3:27 false",
		"agents.p.max-cost-usd 2 user.yaml:2:67 false",
		"agents.p.env.A secret user.yaml:2:55 true",
		"agents.p.permissions.default ask user.yaml:3:15 false",
		"permissions.default ask user.yaml:3:15 false",
		"permissions.rules deny: shell user.yaml:3:58 false",
		"permissions.strict true user.yaml:3:29 false",
		"concurrency.steps 3 p.yaml:4:1 false",
		"concurrency.agents.claude 2 project.yaml:2:24 false",
		"budget.usd 5 user.yaml:4:1 false",
		"budget.on-exceed stop user.yaml:4:1 false",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
