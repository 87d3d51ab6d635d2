package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"flow/agents"
	"flow/steps"
)

func (a *app) chatCommand() *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{
		Use:   "chat RUN STEP PROMPT",
		Short: "Ask a step's agent something more, in its session",
		Long: "chat sends a prompt into the native session of a step that has run, and prints the answer. It works in\n" +
			"the step's directory, with the rights of its profile. The step's result stays as it is.",
		Example: "  flow chat last review 'Why not?'",
		Args:    arguments(3, 3, "a run, a step and a prompt"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.chat(args[0], args[1], args[2], quiet) },
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "no progress, only the answer")
	return cmd
}

func (a *app) chat(name, step, prompt string, quiet bool) (err error) {
	if strings.TrimSpace(prompt) == "" {
		return usageError{errors.New("the prompt is empty\nhint: flow chat RUN STEP 'What is left to do?'")}
	}
	run, err := a.openRun(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	e := &engine{app: a, run: run, driveFlags: driveFlags{output: "text", quiet: quiet, noInput: true}}
	if err := e.reread(); err != nil {
		return err
	}
	c, err := conversation(run, e.machine, step)
	if err != nil {
		return err
	}
	before := run.Summary()
	text, err := e.converse(c, prompt)
	if !before.Ended.IsZero() { // the record of the chat would else leave the run unfinished
		err = errors.Join(err, e.finish(before.Status))
	}
	if err != nil {
		return err
	}
	return a.printText(strings.TrimRight(text, "\n"))
}

// reread brings the executor and the machine to where the run stands, and changes nothing.
func (e *engine) reread() (err error) {
	if _, err := e.thaw(); err != nil {
		return err
	}
	if e.secrets, err = e.app.secrets(e.plan); err != nil {
		return err
	}
	if err := e.prepare(); err != nil {
		return err
	}
	return e.replay()
}

// converse asks the agent and returns its answer.
func (e *engine) converse(c *steps.Conversation, prompt string) (string, error) {
	if err := e.supervisor.Start(); err != nil {
		return "", err
	}
	ctx, stop := e.watchSignals(context.Background())
	defer stop()
	text, problem, err := e.executor.Chat(ctx, c, prompt)
	if err = errors.Join(err, e.supervisor.Close()); err != nil {
		return "", err
	}
	if problem == nil {
		return text, nil
	}
	return "", unanswered(c.Path, problem)
}

// unanswered is the problem of a chat as an error.
func unanswered(step string, p *agents.Problem) error {
	if p.Hint == "" {
		return fmt.Errorf("step %s gave no answer: %w", step, p)
	}
	return fmt.Errorf("step %s gave no answer: %w\nhint: %s", step, p, p.Hint)
}
