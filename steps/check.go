package steps

import (
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
// that an agent cannot honour. The errors stand at the profile or step concerned.
func Check(p *pipeline.Plan, adapters map[string]agents.Adapter) pipeline.Errors {
	var errs pipeline.Errors
	p.Walk(func(path string, s *pipeline.Step) {
		if s.Kind != pipeline.KindPrompt {
			return
		}
		profile := p.Agents[s.Agent]
		adapter, ok := adapters[profile.Use]
		if !ok {
			return // the language has refused it
		}
		req := profileRequest(profile, "/workspace")
		req.Prompt, req.Dir, req.Scratch, req.Schema = "prompt", "/workspace", "/scratch", s.Output
		req.Session = checkedSession(s.Session)
		if _, err := adapter.Command(req); err != nil {
			errs = append(errs, refusal(p.File, path, profile, s, err))
		}
	})
	return errs
}

// checkedSession stands for the session that the step will have.
func checkedSession(s pipeline.Session) agents.Session {
	const any, other = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"
	switch s.Mode {
	case pipeline.SessionContinue:
		return agents.Session{Mode: agents.SessionResume, ID: any}
	case pipeline.SessionFork:
		return agents.Session{Mode: agents.SessionFork, ID: any, Parent: other}
	default:
		return agents.Session{ID: any}
	}
}

func refusal(file, path string, profile pipeline.Profile, s *pipeline.Step, err error) pipeline.Error {
	e := pipeline.Error{File: file, Pos: profile.Pos, Msg: err.Error()}
	if e.Pos == (pipeline.Pos{}) { // a built-in agent without a profile
		e.Pos = s.Pos
	}
	var p *agents.Problem
	if errors.As(err, &p) {
		e.Msg, e.Hint = fmt.Sprintf("agent %s (step %s): %s", profile.Name, path, p.Message), p.Hint
	}
	return e
}

// profileRequest is the part of a request that the profile decides.
func profileRequest(p pipeline.Profile, workspace string) agents.Request {
	r := agents.Request{
		Model: p.Model, Approval: agents.ApprovalMode(p.Approval), Sandbox: agents.SandboxMode(p.Sandbox),
		AllowedTools: p.AllowedTools, BlockedTools: p.BlockedTools, SystemPrompt: p.SystemPrompt, Effort: p.Effort,
		MaxTurns: p.MaxTurns, MaxCostUSD: p.MaxCostUSD, Inherit: p.Inherit, Args: p.Args,
	}
	for _, dir := range p.AddDirs {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(workspace, dir)
		}
		r.AddDirs = append(r.AddDirs, dir)
	}
	return r
}

// PreflightError says which agents cannot be started, all at once.
type PreflightError struct{ Problems []string }

func (e *PreflightError) Error() string { return strings.Join(e.Problems, "\n") }

// Preflight finds out whether every agent that the plan uses can be started.
func Preflight(p *pipeline.Plan, adapters map[string]agents.Adapter) error {
	var problems []string
	p.Walk(func(_ string, s *pipeline.Step) {
		if s.Kind != pipeline.KindPrompt {
			return
		}
		profile := p.Agents[s.Agent]
		info := adapters[profile.Use].Info()
		name, hint := info.Executable, info.Install
		if len(profile.Command) > 0 {
			name, hint = profile.Command[0], "check `command` of the agent's profile"
		}
		if _, err := exec.LookPath(name); err != nil {
			problems = append(problems, fmt.Sprintf("agent %s cannot be started: %v\nhint: %s; or try the pipeline with --simulate", profile.Name, err, hint))
		}
	})
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return &PreflightError{Problems: slices.Compact(problems)}
}
