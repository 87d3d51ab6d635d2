package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"flow/agents"
	"flow/agents/acp"
	"flow/agents/claude"
	"flow/agents/codex"
	"flow/agents/gemini"
	"flow/agents/program"
	"flow/cmd/flow/internal/console"
	"flow/state"
	"flow/state/failpoint"
)

// app is what every command shares: the process's edges and the global flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer // for people; see out and exact
	getenv         func(string) string
	environ        func() []string
	now            func() time.Time

	stateDir string
	logLevel string
	noConfig bool

	origins map[string]string // of flags that the command line or a variable gave, by name
}

// adapters are the agents that flow speaks to, by `use` name.
func adapters() map[string]agents.Adapter {
	m := map[string]agents.Adapter{}
	for _, a := range append([]agents.Adapter{claude.Adapter{}, codex.Adapter{}, gemini.Adapter{}, program.Adapter{}}, acp.Adapters()...) {
		m[a.Info().Name] = a
	}
	return m
}

// main runs one command line and returns the exit status.
func (a *app) main(args []string) int {
	status := a.report(a.dispatch(args))
	if err := console.Flush(a.stdout); err != nil && status == 0 {
		status = a.report(err)
	}
	_ = console.Flush(a.stderr)
	return status
}

func (a *app) dispatch(args []string) error {
	if err := failpoint.Check(a.getenv(failpoint.Variable)); err != nil {
		return usageError{err}
	}
	root := a.root()
	root.SetArgs(args)
	return root.Execute()
}

// out is standard output for text, or with the format json for JSON.
func (a *app) out(format string) io.Writer {
	if format == "json" {
		return console.As(a.stdout, console.JSON)
	}
	return a.stdout
}

// exact is standard output for what programs read byte for byte.
func (a *app) exact() io.Writer { return console.As(a.stdout, console.Exact) }

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "flow",
		Short: "Run multi-agent pipelines from YAML",
		Long: "flow runs pipelines of coding agents and shell commands, written in YAML.\n" +
			"Every run is recorded, and goes on after anything: flow resume RUN.",
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
		Args:              noArguments,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.setFlags(cmd) },
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.PersistentFlags().StringVar(&a.stateDir, "state-dir", "", "where runs are kept (default $FLOW_STATE_DIR, else the user's state directory)")
	root.PersistentFlags().StringVar(&a.logLevel, "log-level", "off", "log to stderr: off, error, warn, info, debug or trace")
	root.PersistentFlags().BoolVar(&a.noConfig, "no-config", false, "read no configuration, neither the user's nor the project's")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\nhint: flow %s --help lists the flags", err, cmd.Name())}
	})
	root.AddCommand(
		a.initCommand(), a.runCommand(), a.resumeCommand(), a.approveCommand(), a.rerunCommand(),
		a.validateCommand(), a.planCommand(), a.graphCommand(), a.configCommand(), a.lspCommand(), a.rpcCommand(), a.serveCommand(), a.schemaCommand(),
		a.runsCommand(), a.showCommand(), a.eventsCommand(), a.auditCommand(), a.outputCommand(), a.artifactsCommand(), a.sessionsCommand(), a.worktreesCommand(), a.stateCommand(),
		a.attachCommand(), a.chatCommand(),
		a.agentsCommand(), a.mcpCommand(), a.translateCommand(), a.versionCommand(),
	)
	return root
}

// store opens the state directory that the flags, the environment or the user's
// configuration name.
func (a *app) store() (*state.Store, error) {
	dir, _, err := a.program("state-dir", a.stateDir)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		if dir, err = state.DefaultDir(a.getenv); err != nil {
			return nil, &state.Error{Path: "state directory", Msg: err.Error()}
		}
	}
	return state.Open(dir)
}

func (a *app) logger() (hclog.Logger, error) {
	name, _, err := a.program("log-level", a.logLevel)
	if err != nil {
		return nil, err
	}
	level := hclog.LevelFromString(name)
	if level == hclog.NoLevel {
		return nil, usageError{fmt.Errorf("log level %q is unknown\nhint: off, error, warn, info, debug or trace", name)}
	}
	return hclog.New(&hclog.LoggerOptions{Name: "flow", Level: level, Output: a.stderr}), nil
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%q is not a command or argument of `%s`\nhint: flow --help lists the commands", args[0], cmd.CommandPath())}
	}
	return nil
}

// arguments accepts from lo to hi arguments; names says what they are.
func arguments(lo, hi int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < lo || len(args) > hi {
			return usageError{fmt.Errorf("`%s` takes %s, got %d argument(s)\nhint: %s --help", cmd.CommandPath(), names, len(args), cmd.CommandPath())}
		}
		return nil
	}
}

// oneOf checks a value against its choices; what says whose it is.
func oneOf(what, value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return usageError{fmt.Errorf("%s %q is unknown\nhint: one of %s", what, value, strings.Join(choices, ", "))}
}

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }
