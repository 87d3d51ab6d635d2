package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"flow/cmd/flow/internal/console"
	"flow/pipeline"
	"flow/steps"
)

type mcpFlags struct {
	policy   string
	agent    string
	dir      string
	approval string
	audit    string
}

func (a *app) mcpCommand() *cobra.Command {
	var f mcpFlags
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve an agent: decide on its tool calls by a policy",
		Long: "mcp is a server of the Model Context Protocol on standard input and output, for a Claude Code that flow\n" +
			"does not start itself. Its one tool, permission, decides on calls as a step of a pipeline would; nobody is\n" +
			"asked, so what a person is to be asked for is denied. The policy is a file with what stands under\n" +
			"`permissions` in a pipeline, or, with --agent, a pipeline. Every decision is a line of the audit log.",
		Example: "  claude -p --mcp-config '{\"mcpServers\": {\"flow\": {\"command\": \"flow\", \"args\": [\"mcp\", \"--policy\", \"policy.yaml\"]}}}' \\\n" +
			"    --permission-prompt-tool mcp__flow__permission 'Tidy up.'",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.mcp(cmd, f) },
	}
	cmd.Flags().StringVar(&f.policy, "policy", "", "file with the rules (required)")
	cmd.Flags().StringVar(&f.agent, "agent", "", "the policy is a pipeline: its rules for this profile")
	cmd.Flags().StringVar(&f.dir, "dir", "", "directory that the agent works in (default: the current one)")
	cmd.Flags().StringVar(&f.approval, "approval", "", "what holds for a call that no rule is about: plan, deny, ask, ask-dangerous, auto-edit or auto-all")
	cmd.Flags().StringVar(&f.audit, "audit", "", "append the decisions to this file (default: standard error)")
	return cmd
}

func (a *app) mcp(cmd *cobra.Command, f mcpFlags) error {
	judge, err := a.judge(f)
	if err != nil {
		return err
	}
	audit := console.As(a.stderr, console.JSON)
	if f.audit != "" {
		file, err := os.OpenFile(f.audit, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			return usageError{fmt.Errorf("the audit log cannot be written: %w\nhint: name a file in a directory that exists", err)}
		}
		defer file.Close()
		audit = file
	}
	return (&permitter{judge: judge, audit: audit, now: a.now}).serve(cmd.Context(), io.NopCloser(a.stdin), a.exact())
}

// judge reads the policy.
func (a *app) judge(f mcpFlags) (*steps.Judge, error) {
	if f.policy == "" {
		return nil, usageError{errors.New("which policy?\nhint: --policy FILE, or --policy PIPELINE --agent PROFILE")}
	}
	plan, warnings, err := a.policyPlan(f)
	a.warn(warnings)
	if err != nil {
		return nil, err
	}
	if f.approval != "" {
		modes := []string{"plan", "deny", "ask", "ask-dangerous", "auto-edit", "auto-all"}
		if err := oneOf("--approval", f.approval, modes...); err != nil {
			return nil, err
		}
		profile := plan.Agents[f.agent]
		profile.Approval = f.approval
		plan.Agents = map[string]pipeline.Profile{f.agent: profile}
	}
	dir, err := filepath.Abs(f.dir)
	if err != nil {
		return nil, err
	}
	return steps.NewJudge(plan, f.agent, dir, a.getenv("HOME")), nil
}

// policyPlan reads rules from where they stand: in a file of their own, or in a pipeline
// with the configurations beneath it.
func (a *app) policyPlan(f mcpFlags) (*pipeline.Plan, []pipeline.Warning, error) {
	if f.agent == "" {
		plan, warnings, err := pipeline.LoadPermissions(f.policy)
		if err != nil {
			err = policyError(f.policy, err)
		}
		return plan, warnings, err
	}
	o, warnings, err := a.options(f.policy)
	if err != nil {
		return nil, warnings, err
	}
	plan, own, err := check(f.policy, o)
	warnings = append(warnings, own...)
	if err != nil {
		return nil, warnings, err
	}
	if _, ok := plan.Agents[f.agent]; !ok {
		names := slices.Sorted(maps.Keys(plan.Agents))
		return nil, warnings, usageError{fmt.Errorf("pipeline %s has no agent %q\nhint: %s", f.policy, f.agent, orNames(names))}
	}
	return plan, warnings, nil
}

// policyError makes a policy that cannot be opened a mistake of the command line.
func policyError(file string, err error) error {
	if _, ok := errors.AsType[pipeline.Errors](err); ok {
		return err
	}
	return usageError{fmt.Errorf("%w\nhint: is %s the policy's path?", err, file)}
}
