package steps

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"flow/agents"
	"flow/agents/policy"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
)

// permissions reads rules as a pipeline has them: "deny shell(rm *)".
func permissions(fallback string, lines ...string) func(*pipeline.Step) {
	return func(s *pipeline.Step) {
		s.Permissions = &pipeline.Permissions{Default: fallback}
		for i, line := range lines {
			effect, rest, _ := strings.Cut(line, " ")
			tool, pattern, _ := strings.Cut(rest, "(")
			s.Permissions.Rules = append(s.Permissions.Rules, pipeline.Permission{
				Effect: effect, Tool: tool, Pattern: strings.TrimSuffix(pattern, ")"), Pos: pipeline.Pos{Line: 20 + i, Col: 9},
			})
		}
	}
}

// goesOn prints lines and works until flow ends it.
func goesOn(lines ...string) func(*process) (proc.Result, error) {
	return func(p *process) (proc.Result, error) {
		p.print(lines...)
		<-p.ctx.Done()
		return proc.Result{Code: -1, Signal: "TERM"}, nil
	}
}

func TestViolations(t *testing.T) {
	cases := []struct {
		name    string
		step    pipeline.Step
		agent   fakeAgent
		play    func(*process) (proc.Result, error)
		message string // "": it passes
	}{
		{"denied", ask("s", permissions("", "deny shell(rm *)")), fakeAgent{}, goesOn("session S", "call shell rm -rf x"), "shell rm -rf x: the rule deny shell(rm *) at p.yaml:20:9 forbids it"},
		{"denied although it finished", ask("s", permissions("", "deny shell(rm *)")), fakeAgent{}, says(0, "session S", "call shell rm x", "answer ok"), "shell rm x: the rule deny shell(rm *)"},
		{"by default", ask("s", permissions("deny", "allow shell(ls *)")), fakeAgent{}, goesOn("session S", "call shell ls; rm x"), "shell rm x: no rule allows it, and the default is deny"},
		{"asked", ask("s", permissions("", "ask shell(git push *)")), fakeAgent{}, goesOn("session S", "call shell git push"), "shell git push: the rule ask shell(git push *) at p.yaml:20:9 wants a person to be asked, and nobody is there"},
		{"asked by default", ask("s", permissions("ask")), fakeAgent{}, goesOn("session S", "call shell ls"), "shell ls: no rule allows it, and the default is ask"},
		{"cannot be told", ask("s", permissions("", "deny shell(rm *)")), fakeAgent{}, goesOn("session S", "call shell $x y"), "shell $x y, which"},
		{"outside", ask("s", permissions("deny", "allow read_file(**)")), fakeAgent{}, goesOn("session S", "call read_file /etc/passwd"), "read_file /etc/passwd: no rule allows it"},
		{"where a link leads", ask("s", permissions("deny", "allow write_file(**)")), fakeAgent{}, goesOn("session S", "call write_file link/new"), "write_file /etc/new, where link/new leads: no rule allows it"},
		{"refused by the agent", ask("s", permissions("deny", "deny shell(rm *)")), fakeAgent{keeps: []string{"deny", "default"}}, says(0, "session S", "call shell rm x", "declined rm x", "call web_fetch y", "declined y", "answer ok"), ""},
		{"not refused by the agent", ask("s", permissions("", "deny shell(rm *)")), fakeAgent{keeps: []string{"deny"}}, goesOn("session S", "call shell rm x", "called rm x"), "shell rm x: the rule deny"},
		{"not kept by the agent", ask("s", permissions("", "ask shell(rm *)")), fakeAgent{keeps: []string{"deny"}}, goesOn("session S", "call shell rm x"), "shell rm x: the rule ask"},
		{"allowed", ask("s", permissions("deny", "allow shell(ls *)", "allow read_file(**)", "allow write_file(~/x)")), fakeAgent{}, says(0, "call shell ls -l", "call read_file a/b", "call todo x", "call write_file /home/me/x", "call read_file in", "answer ok"), ""},
		{"unruled", ask("s", permissions("", "deny shell(rm *)")), fakeAgent{}, says(0, "call shell ls", "call write_file /etc/passwd", "answer ok"), ""},
		{"no rules", ask("s"), fakeAgent{}, says(0, "call shell rm -rf /", "answer ok"), ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.step)
				w.agent = c.agent
				w.workspace([]string{"a/b"}, map[string]string{"link": "/etc", "in": "a/b"})
				w.config.Environ = []string{"HOME=/home/me"}
				w.play = inTurn(c.play)
				m := w.finish()
				if c.message == "" {
					w.want(m, "s", dag.OK)
					return
				}
				r := w.want(m, "s", dag.Failure)
				if r.Cause != string(agents.CausePermission) || !strings.HasPrefix(r.Error, c.message) || r.Hint == "" {
					t.Errorf("it says %s: %q", r.Cause, r.Error)
				}
				if notices := w.notices(noticePolicy); len(notices) != 1 {
					t.Errorf("events about it: %q", notices)
				}
				checkEvents(t, w)
			})
		})
	}
}

// An agent that had broken a rule when flow died is not asked to go on.
func TestViolationAdopted(t *testing.T) {
	for _, lines := range [][]string{{"session S", "call shell rm x"}, {"session S", "call shell rm x", "answer ok"}} {
		w := newWorld(t, ask("s", permissions("", "deny shell(rm *)")))
		w.play = inTurn(dies(lines...))
		w.die()
		w.play = inTurn()
		if r := w.want(w.finish(), "s", dag.Failure); r.Cause != string(agents.CausePermission) {
			t.Errorf("it says %s: %q", r.Cause, r.Error)
		}
	}
}

// Rules come from the pipeline, the profile and the step, a sandbox from the step first.
func TestStepRequest(t *testing.T) {
	step := ask("s", permissions("ask", "allow shell(ls)"), func(s *pipeline.Step) { s.Sandbox = "read-only" })
	w := newWorld(t, step)
	rule := func(tool string, line int) *pipeline.Permissions {
		return &pipeline.Permissions{Default: "deny", Rules: []pipeline.Permission{{Effect: "deny", Tool: tool, Pos: pipeline.Pos{Line: line, Col: 1}}}}
	}
	w.plan.Permissions = rule("mcp", 2)
	p := w.plan.Agents["a"]
	p.Permissions, p.Sandbox = rule("web_fetch", 3), "off"
	w.plan.Agents["a"] = p
	w.play = says(0, "answer ok")
	w.want(w.finish(), "s", dag.OK)
	req := w.ran[0].request
	var got []string
	for _, r := range req.Rules {
		got = append(got, r.Effect+" "+r.Tool+" "+r.Where)
	}
	if req.Sandbox != "read-only" || req.RuleDefault != "ask" || strings.Join(got, ", ") != "deny mcp p.yaml:2:1, deny web_fetch p.yaml:3:1, allow shell p.yaml:20:9" {
		t.Errorf("the agent was asked with %q, %q, %q", req.Sandbox, req.RuleDefault, got)
	}
}

func TestRealPath(t *testing.T) {
	dir := t.TempDir()
	for name, target := range map[string]string{"out": "/usr", "in": "sub", "loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"x": "", "sub/x": "", "in/x": filepath.Join(dir, "sub/x"), "out/x/y": "/usr/x/y", "../x": "", "": "", filepath.Join(dir, "out/bin"): "/usr/bin", "loop/x": "",
	} {
		got, elsewhere := realPath(dir, path)
		if elsewhere != (want != "") || elsewhere && got != want {
			t.Errorf("%q leads to %q (%t), want %q", path, got, elsewhere, want)
		}
	}
}

// What an agent asks about is decided by where its paths lead as well.
func TestGuardDecides(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".claude"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link": "/etc", "notes": ".claude"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	g := newGuard(fakeAgent{}, agents.Request{Dir: dir}, "")
	patch := func(path string) policy.Call {
		return policy.Call{Tool: agents.ToolEditFile, Target: "a", Arguments: []byte(`{"changes":[{"path":"a"},{"path":"` + path + `"}]}`)}
	}
	for path, want := range map[string]policy.Effect{"b": policy.Allow, "link/a": policy.Deny, "/etc/a": policy.Deny, "notes/settings.json": policy.Ask, "./NOTES/../.Claude/x": policy.Ask} {
		for _, call := range []policy.Call{{Tool: agents.ToolEditFile, Target: path}, patch(path)} {
			if d := g.decide(call); d.Effect != want {
				t.Errorf("%s: %+v", path, d)
			}
		}
	}
	for path, want := range map[string]policy.Effect{".": policy.Allow, "notes": policy.Allow, "link": policy.Deny, "link/ssl": policy.Deny} {
		for _, tool := range []agents.Tool{agents.ToolSearchContent, agents.ToolFindFiles} {
			if d := g.decide(policy.Call{Tool: tool, Target: "x", Arguments: []byte(`{"path":"` + path + `"}`)}); d.Effect != want {
				t.Errorf("%s in %s: %+v", tool, path, d)
			}
		}
	}
}
