package acp

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

func request() agents.Request {
	return agents.Request{Prompt: "Work.", Dir: "/workspace", Scratch: "/scratch", Args: []string{"--more"}}
}

func adapter(t *testing.T, name string) agents.Adapter {
	t.Helper()
	all := Adapters()
	i := slices.IndexFunc(all, func(a agents.Adapter) bool { return a.Info().Name == name })
	if i < 0 {
		t.Fatalf("no adapter %s", name)
	}
	return all[i]
}

func TestCommand(t *testing.T) {
	for name, want := range map[string][]string{
		"acp": {"--more"}, "opencode": {"acp", "--more"}, "copilot": {"--acp", "--more"}, "qwen": {"--acp", "--more"},
		"goose": {"acp", "--more"}, "kimi": {"acp", "--more"}, "cursor": {"acp", "--more"},
	} {
		a := adapter(t, name)
		c, err := a.Command(request())
		if err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(c.Args, want) || !c.Talks || c.Dir != "/workspace" {
			t.Errorf("%s is started with %q", name, c.Args)
		}
		if _, ok := a.Dialog(request()).(agents.Conversation); !ok {
			t.Errorf("the dialog with %s is no conversation", name)
		}
		info := a.Info()
		if info.Title == "" || info.Install == "" || info.Login == "" || (info.Executable == "") != (name == "acp") {
			t.Errorf("%s is described as %+v", name, info)
		}
	}
}

// The protocol has no place for a system prompt nor for a schema: both go into the prompt.
func TestPrompt(t *testing.T) {
	r := request()
	r.SystemPrompt, r.Schema = "Be brief.\n", json.RawMessage(`{"type":"object"}`)
	c, err := Adapter{}.Command(r)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(c.Stdin, "Be brief.\n\nWork.\n") || string(agents.SchemaOf(c.Stdin)) != `{"type":"object"}` {
		t.Errorf("the prompt is %q", c.Stdin)
	}
	for text, want := range map[string]string{"/init now": "The task:\n\n/init now", " !ls": "The task:\n\n !ls", "ls /tmp @x": "ls /tmp @x"} {
		r := request()
		r.Prompt = text
		if c, err := (Adapter{}).Command(r); err != nil || c.Stdin != want {
			t.Errorf("%q becomes %q (%v)", text, c.Stdin, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		agent  string
		change func(*agents.Request)
		want   string
	}{
		"tools":       {"acp", func(r *agents.Request) { r.AllowedTools = []string{"x"} }, "ACP has no lists of tools"},
		"turns":       {"acp", func(r *agents.Request) { r.MaxTurns = 1 }, "ACP has no limit of model turns"},
		"money":       {"acp", func(r *agents.Request) { r.MaxCostUSD = 1 }, "ACP has no limit of money"},
		"fork":        {"copilot", func(r *agents.Request) { r.Session.Mode = agents.SessionFork }, "Copilot CLI cannot branch a session"},
		"transport":   {"goose", func(r *agents.Request) { r.Transport = "exec" }, `Goose has no transport "exec"`},
		"network":     {"acp", func(r *agents.Request) { r.Network = agents.NetworkOff }, "the ACP agent needs the network for its model, and cannot withhold it from its tools"},
		"no sandbox":  {"acp", func(r *agents.Request) { r.Sandbox = agents.SandboxReadOnly }, "the ACP agent has no sandbox of its own, and this machine cannot put it into one"},
		"empty":       {"acp", func(r *agents.Request) { r.Prompt = " \n" }, "the prompt is empty"},
		"no text":     {"acp", func(r *agents.Request) { r.Prompt = "\xff" }, "the prompt is not valid UTF-8"},
		"relative":    {"acp", func(r *agents.Request) { r.Dir = "here" }, `the working directory "here" is not absolute`},
		"confined":    {"acp", func(r *agents.Request) { r.Sandbox, r.Confined = agents.SandboxReadOnly, true }, ""},
		"model":       {"acp", func(r *agents.Request) { r.Model = "m" }, ""},
		"fork, known": {"opencode", func(r *agents.Request) { r.Session.Mode = agents.SessionFork }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := request()
			tt.change(&r)
			_, err := adapter(t, tt.agent).Command(r)
			got := ""
			if p, ok := errors.AsType[*agents.Problem](err); ok {
				got = p.Message
			}
			if got != tt.want {
				t.Errorf("refused with %q, want %q", got, tt.want)
			}
		})
	}
}

// OpenCode asks for every call, whatever its configuration says of single ones.
func TestOpenCodeAsks(t *testing.T) {
	c, err := adapter(t, "opencode").Command(request())
	if err != nil {
		t.Fatal(err)
	}
	var permission map[string]string
	for _, v := range c.Env {
		if text, ok := strings.CutPrefix(v, "OPENCODE_PERMISSION="); ok {
			if err := json.Unmarshal([]byte(text), &permission); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"*", "bash", "edit", "webfetch", "external_directory"} {
		if permission[name] != "ask" {
			t.Errorf("%s is %q", name, permission[name])
		}
	}
	if !slices.Contains(c.Env, "OPENCODE_CONFIG="+c.Files[0].Path) || !strings.Contains(string(c.Files[0].Data), `"continue_loop_on_deny":true`) {
		t.Errorf("the configuration is %s", c.Files[0].Data)
	}
	r := request()
	r.Inherit = true
	if c, err = adapter(t, "opencode").Command(r); err != nil || slices.Contains(c.Env, "OPENCODE_DISABLE_PROJECT_CONFIG=true") {
		t.Errorf("inheriting, it does not read the repository's configuration: %v (%v)", c.Env, err)
	}
}

func TestEnforcement(t *testing.T) {
	r := request()
	r.Rules, r.RuleDefault = []agents.Rule{{Effect: "deny", Tool: "shell"}}, "ask"
	for name, want := range map[string]agents.Enforcement{"opencode": agents.Enforced, "acp": agents.Detected, "goose": agents.Detected} {
		for _, e := range adapter(t, name).(agents.Ruler).Enforcement(r) {
			if e.How != want || (e.Why == "") != (want == agents.Enforced) {
				t.Errorf("%s: %+v", name, e)
			}
		}
	}
}
