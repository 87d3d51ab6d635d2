package steps

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"flow/agents"
	"flow/pipeline"
)

// Check finds what only the agents can say about a plan: modes, tools and limits
// that an agent cannot honour. The errors stand at the profile concerned, each once
// however many steps use it, or at the step where the profile has no place.
func Check(p *pipeline.Plan, adapters map[string]agents.Adapter) pipeline.Errors {
	var errs pipeline.Errors
	type mistake struct {
		file string
		pos  pipeline.Pos
		why  string
	}
	seen := map[mistake]bool{}
	eachAgent(p, func(p *pipeline.Plan, path string, s *pipeline.Step) {
		profile := p.Agents[s.Agent]
		adapter := adapters[profile.Use]
		if adapter == nil { // the language has refused an unknown agent
			return
		}
		req := stepRequest(p, s, "/workspace", adapter)
		req.Prompt, req.Dir, req.Scratch, req.Home, req.Schema = "prompt", "/workspace", "/scratch", "/home", s.Output
		req.Session, req.Confined = checkedSession(s.Session), confinable(adapter, req)
		var found pipeline.Errors
		if _, err := adapter.Command(req); err != nil {
			found = append(found, refusal(p.File, path, profile, s, err))
		}
		for _, e := range append(found, strictErrors(p, path, s, adapter, req)...) {
			_, why, _ := strings.Cut(e.Msg, ")") // after the step
			m := mistake{e.File, e.Pos, why}
			if m.pos == (pipeline.Pos{}) || !seen[m] {
				errs = append(errs, e)
			}
			seen[m] = true
		}
	})
	slices.SortStableFunc(errs, func(a, b pipeline.Error) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Col, b.Pos.Col))
	})
	return errs
}

// Ids of sessions that there are not.
const (
	checkedID     = "00000000-0000-4000-8000-000000000001"
	checkedParent = "00000000-0000-4000-8000-000000000002"
)

// checkedSession stands for the session that the step will have.
func checkedSession(s pipeline.Session) agents.Session {
	switch s.Mode {
	case pipeline.SessionContinue:
		return agents.Session{Mode: agents.SessionResume, ID: checkedID}
	case pipeline.SessionFork:
		return agents.Session{Mode: agents.SessionFork, ID: checkedID, Parent: checkedParent}
	default:
		return agents.Session{ID: checkedID}
	}
}

func refusal(file, path string, profile pipeline.Profile, s *pipeline.Step, err error) pipeline.Error {
	e := pipeline.Error{File: cmp.Or(profile.File, file), Pos: profile.Pos, Msg: err.Error()}
	if e.Pos == (pipeline.Pos{}) || s.Sandbox != "" { // a built-in agent without a profile, or the step's own doing
		e.File, e.Pos = file, s.Pos
	}
	if p, ok := errors.AsType[*agents.Problem](err); ok {
		e.Msg, e.Hint = p.Message, p.Hint
	}
	e.Msg = fmt.Sprintf("agent %s (step %s): %s", profile.Name, path, e.Msg)
	if len(profile.Origin) > 0 && profile.File == "" {
		e.Hint = strings.TrimPrefix(e.Hint+"; a configuration has a part in it: flow config "+file+" --show-origin", "; ")
	}
	return e
}

// stepRequest is the part of a request that the plan decides: the profile, and what the
// step has instead or besides. An adapter of several protocols chooses one by it.
func stepRequest(p *pipeline.Plan, s *pipeline.Step, workspace string, adapter agents.Adapter) agents.Request {
	r := profileRequest(p.Agents[s.Agent], workspace)
	mode, o := p.SandboxOf(s)
	r.Sandbox, r.Network = agents.SandboxMode(mode), agents.Network(o.Network)
	rules(&r, p, s)
	if t, ok := adapter.(agents.Transporter); ok {
		r.Transport = t.Transport(r)
	}
	return r
}

// profileRequest is the part of a request that the profile decides.
func profileRequest(p pipeline.Profile, workspace string) agents.Request {
	r := agents.Request{
		Model: p.Model, Transport: p.Transport, Approval: agents.ApprovalMode(p.Approval),
		AllowedTools: p.AllowedTools, BlockedTools: p.BlockedTools, SystemPrompt: p.SystemPrompt, Effort: p.Effort,
		MaxTurns: p.MaxTurns, MaxCostUSD: p.MaxCostUSD, Inherit: p.Inherit, Args: p.Args,
	}
	r.Exec = described(p.Exec)
	for _, dir := range p.AddDirs {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(workspace, dir)
		}
		r.AddDirs = append(r.AddDirs, dir)
	}
	return r
}

// described is what a profile says of a command, in the agents' words.
func described(x *pipeline.Exec) *agents.Exec {
	if x == nil {
		return nil
	}
	out := &agents.Exec{Prompt: x.Prompt, Format: x.Format, Events: map[string]agents.Pick{}, Resume: x.Resume}
	for name, pick := range x.Events {
		out.Events[name] = agents.Pick(pick)
	}
	return out
}

// PreflightError says which agents cannot be started, all at once.
type PreflightError struct{ Problems []string }

func (e *PreflightError) Error() string { return strings.Join(e.Problems, "\n") }

// Preflight finds out whether every agent that the plan uses can be started, with
// relative commands taken from workspace. The warnings are about agents that a step can
// do without: it has others to fall back on.
func Preflight(p *pipeline.Plan, adapters map[string]agents.Adapter, workspace string) (warnings []string, err error) {
	var problems []string
	eachAgentStep(p, func(p *pipeline.Plan, _ string, s *pipeline.Step) {
		chain := fallbacks(p, s.Agent)
		var missing []string
		for _, name := range chain {
			if problem := preflight(p.Agents[name], adapters, workspace); problem != "" {
				missing = append(missing, problem)
			}
		}
		if len(missing) == len(chain) {
			problems = append(problems, missing...)
		} else {
			warnings = append(warnings, missing...)
		}
	})
	slices.Sort(warnings)
	slices.Sort(problems)
	if len(problems) > 0 {
		err = &PreflightError{Problems: slices.Compact(problems)}
	}
	return slices.Compact(warnings), err
}

// preflight says why the agent of a profile cannot be started, "" if it can.
func preflight(profile pipeline.Profile, adapters map[string]agents.Adapter, workspace string) string {
	adapter := adapters[profile.Use]
	if adapter == nil {
		return fmt.Sprintf("agent %s cannot be started: this flow does not have %q\nhint: use the version of flow that the pipeline was written for", profile.Name, profile.Use)
	}
	info := adapter.Info()
	name, hint := info.Executable, info.Install
	if len(profile.Command) > 0 {
		name, hint = inWorkspace(workspace, profile.Command[0]), "check `command` of the agent's profile"
	}
	if _, err := exec.LookPath(name); err != nil {
		return fmt.Sprintf("agent %s cannot be started: %v\nhint: %s; or try the pipeline with --simulate", profile.Name, err, hint)
	}
	return ""
}
