package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"flow/agents"
	"flow/pipeline/dag"
	"flow/state"
	"flow/steps"
)

func (a *app) attachCommand() *cobra.Command {
	var show bool
	cmd := &cobra.Command{
		Use:   "attach RUN STEP",
		Short: "Go on in a step's session yourself, in its agent's own terminal interface",
		Long: "attach opens the native session of a step in its agent's CLI, in the step's directory: what was said\n" +
			"and done is there, and you go on. The run and the step's result stay as they are.",
		Example: "  flow attach last review\n  flow attach last fix.0.2.edit --print",
		Args:    arguments(2, 2, "a run and a step"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.attach(args[0], args[1], show) },
	}
	cmd.Flags().BoolVar(&show, "print", false, "print the command instead of running it")
	return cmd
}

func (a *app) attach(name, step string, show bool) error {
	run, err := a.openRun(name)
	if err != nil {
		return err
	}
	argv, cmd, err := attachment(run, step, show)
	if err = errors.Join(err, run.Close()); err != nil {
		return err
	}
	if show {
		_, err := fmt.Fprintln(a.stdout, attachLine(argv, cmd))
		return err
	}
	return a.become(argv, cmd)
}

// attachment is the command that opens a step's session at a terminal.
func attachment(run *state.Run, step string, show bool) ([]string, agents.Command, error) {
	m, err := machine(&run.View)
	if err != nil {
		return nil, agents.Command{}, err
	}
	c, err := conversation(run, m, step)
	if err != nil {
		return nil, agents.Command{}, err
	}
	adapter := adapters()[c.Launch.Use]
	if run.Header().Simulated {
		if !show {
			return nil, agents.Command{}, errors.New("the run's agents were simulated: there is no session to open\nhint: flow chat asks a simulated agent something")
		}
		c.Launch.Path, c.Launch.Args = adapter.Info().Executable, nil // as it would be
	}
	return c.Attach(adapter)
}

// conversation is the session of a step that has run.
func conversation(run *state.Run, m *dag.Machine, step string) (*steps.Conversation, error) {
	if err := knownStep(&run.View, step); err != nil {
		return nil, err
	}
	if st := speaker(m.Steps(), step); st != nil {
		return steps.ConversationOf(run.Dir(), *st)
	}
	return nil, fmt.Errorf("step %s has not run\nhint: flow sessions %s lists the steps that have a session", step, run.Header().ID)
}

// speaker is the step, or within it the last round or the candidate whose session it took
// over. It is nil where there is no such step.
func speaker(all []dag.StepState, step string) *dag.StepState {
	var found *dag.StepState
	session := ""
	for i, st := range all {
		r, err := steps.DecodeResult(st.Result)
		switch {
		case err != nil:
		case st.Path == step:
			found, session = &all[i], r.Session
		case session != "" && st.Form == dag.Single && r.Session == session && strings.HasPrefix(st.Path, step+"."):
			found = &all[i]
		}
	}
	return found
}

// attachLine is the command as one types it.
func attachLine(argv []string, cmd agents.Command) string {
	words := []string{"cd", quoteArg(cmd.Dir), "&&"}
	for _, one := range cmd.Env {
		name, value, _ := strings.Cut(one, "=")
		words = append(words, name+"="+quoteArg(value))
	}
	for _, arg := range argv {
		words = append(words, quoteArg(arg))
	}
	return strings.Join(words, " ")
}

// become replaces flow by the agent's CLI, which then has the terminal to itself.
func (a *app) become(argv []string, cmd agents.Command) error {
	if err := os.Chdir(cmd.Dir); err != nil {
		return err
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("%w\nhint: flow attach --print shows the command", err)
	}
	return os.NewSyscallError("exec "+path, syscall.Exec(path, argv, append(a.environ(), cmd.Env...)))
}
