package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
)

// probeTimeout bounds how long an agent may take to say its version.
const probeTimeout = 20 * time.Second

func (a *app) agentsCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "agents",
		Short: "Show which agent CLIs are installed and what they can do",
		Long: "agents looks for the agent CLIs, asks each for its version, and says whether it is logged in where\n" +
			"that can be known without a model call. Exit status 3 when none is installed.",
		Args: noArguments,
		RunE: func(*cobra.Command, []string) error { return a.agents(output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return cmd
}

// installed is what is known of one agent on this machine.
type installed struct {
	Name         string              `json:"name"`
	Title        string              `json:"title"`
	Executable   string              `json:"executable"`
	Path         *string             `json:"path"`     // null: not installed
	Version      *string             `json:"version"`  // null: unknown
	LoggedIn     *bool               `json:"loggedIn"` // null: cannot be known for free
	Problem      string              `json:"problem,omitempty"`
	Hint         string              `json:"hint,omitempty"`
	Capabilities agents.Capabilities `json:"capabilities"`
	Sandbox      string              `json:"sandbox"` // what holds it to its sandbox on this machine
}

func (a *app) agents(output string) error {
	if err := oneOf("--output", output, "text", "json"); err != nil {
		return err
	}
	all, machine, err := a.discover()
	if err != nil {
		return err
	}
	if output == "json" {
		err = printJSON(a.out("json"), all)
	} else {
		err = agentTable(a, all, machine)
	}
	if err == nil && !slices.ContainsFunc(all, func(i installed) bool { return i.Path != nil }) {
		return exitError{exitPreflight}
	}
	return err
}

func (a *app) discover() (all []installed, machine proc.Machine, err error) {
	own, err := a.below(pipeline.ProjectConfig) // a project does not say what is started to look at agents
	if err != nil {
		return nil, machine, err
	}
	configured := pipeline.Configured(own).Agents
	supervisor := proc.New(proc.Options{})
	defer func() { err = errors.Join(err, supervisor.Close()) }()
	if machine, err = supervisor.Machine(); err != nil {
		return nil, machine, err
	}
	dir, err := temporary("flow-agents-")
	if err != nil {
		return nil, machine, err
	}
	defer os.RemoveAll(dir)
	p := prober{app: a, supervisor: supervisor, dir: dir}
	for _, name := range known() {
		i, err := p.agent(withCommand(adapters()[name].Info(), configured[name].Command))
		if err != nil {
			return nil, machine, err
		}
		i.Sandbox = machine.String()
		if i.Capabilities.NativeSandbox {
			i.Sandbox = "its own"
		}
		all = append(all, i)
	}
	return all, machine, nil
}

// withCommand is what is known of an agent that is started by another command.
func withCommand(info agents.Info, command []string) agents.Info {
	if len(command) == 0 {
		return info
	}
	info.Executable = command[0]
	info.VersionArgs = slices.Concat(command[1:], info.VersionArgs)
	if len(info.LoginArgs) > 0 {
		info.LoginArgs = slices.Concat(command[1:], info.LoginArgs)
	}
	return info
}

// known are the agents that have an executable of their own, and not only one that a
// profile names.
func known() []string {
	all := slices.Sorted(maps.Keys(adapters()))
	return slices.DeleteFunc(all, func(name string) bool { return adapters()[name].Info().Executable == "" })
}

type prober struct {
	*app
	supervisor *proc.Supervisor
	dir        string
}

func (p prober) agent(info agents.Info) (installed, error) {
	i := installed{Name: info.Name, Title: info.Title, Executable: info.Executable, Capabilities: info.Capabilities}
	path, err := exec.LookPath(info.Executable)
	if err != nil {
		i.Problem, i.Hint = err.Error(), info.Install
		return i, nil
	}
	i.Path = &path
	out, res, err := p.run(path, info.Name+"-version", info.VersionArgs)
	switch {
	case err != nil:
		return i, err
	case res.Err != nil:
		i.Problem, i.Hint = res.Err.Error(), info.Install
		return i, nil
	case res.Code != 0 || out == "":
		i.Problem, i.Hint = "it does not say its version: "+oneLine(out+" "+res.StderrTail, 200), info.Install
		return i, nil
	}
	first, _, _ := strings.Cut(out, "\n")
	i.Version = some(first)
	i.LoggedIn, err = p.login(path, info)
	if i.LoggedIn != nil && !*i.LoggedIn {
		i.Hint = info.Login
	}
	return i, err
}

// login says whether the agent is logged in: a key in the environment will do,
// otherwise the agent is asked where that is free.
func (p prober) login(path string, info agents.Info) (*bool, error) {
	yes := true
	if slices.ContainsFunc(info.KeyVariables, func(name string) bool { return p.getenv(name) != "" }) {
		return &yes, nil
	}
	if len(info.LoginArgs) == 0 {
		return nil, nil //nolint:nilnil // unknown, which is no error
	}
	_, res, err := p.run(path, info.Name+"-login", info.LoginArgs)
	if err != nil || res.Err != nil {
		return nil, err
	}
	yes = res.Code == 0
	return &yes, nil
}

func (p prober) run(path, label string, args []string) (string, proc.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	file := filepath.Join(p.dir, label)
	res, err := p.supervisor.Run(ctx, proc.Spec{
		Label: label, Path: path, Args: args, Env: p.environ(), Dir: p.dir,
		Stdout: file + ".out", Stderr: file + ".err",
		Ladder: []proc.Rung{},
	}, proc.Sink{})
	if err != nil || res.Err != nil {
		return "", res, err
	}
	out, err := os.ReadFile(file + ".out")
	return strings.TrimSpace(string(out)), res, err
}

func agentTable(a *app, all []installed, machine proc.Machine) error {
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "AGENT\tVERSION\tLOGIN\tPATH")
	for _, i := range all {
		path, login := "not installed", "unknown"
		if i.Path != nil {
			path = *i.Path
		}
		if i.LoggedIn != nil {
			login = map[bool]string{true: "yes", false: "no"}[*i.LoggedIn]
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", i.Name, oneLine(deref(i.Version), 40), login, path)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(a.stdout, "\nSandbox of agents that have none of their own, and of scripts: %s\n", machine); err != nil {
		return err
	}
	for _, i := range all {
		if i.Hint != "" {
			fmt.Fprintf(a.stderr, "hint: %s: %s\n", i.Name, i.Hint)
		}
	}
	return nil
}
