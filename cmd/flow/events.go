package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"flow/state"
)

func (a *app) eventsCommand() *cobra.Command {
	var (
		output string
		follow bool
	)
	cmd := &cobra.Command{
		Use:   "events RUN [STEP]",
		Short: "Print what the agents of a run said and did",
		Long:  "events prints the unified events of a run, or of one step (and of the steps inside it).\ndocs/events.md says what each event means.",
		Args:  arguments(1, 2, "a run and perhaps a step"),
		RunE: func(_ *cobra.Command, args []string) error {
			step := ""
			if len(args) > 1 {
				step = args[1]
			}
			return a.events(args[0], step, output, follow)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json: one event a line")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the run ends")
	return cmd
}

func (a *app) events(name, step, output string, follow bool) error {
	if err := oneOf("--output", output, "text", "json"); err != nil {
		return err
	}
	v, err := a.view(name)
	if err != nil {
		return err
	}
	a.maskKnown(v)
	if step != "" {
		if err := knownStep(v, step); err != nil {
			return err
		}
	}
	out := bufio.NewWriter(a.out(output))
	show := a.eventPrinter(out, output, step)
	if !follow || v.Summary().Status != state.StatusRunning {
		return errors.Join(v.Events(show), out.Flush())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err = v.Follow(ctx, func(line []byte) error { return errors.Join(show(line), out.Flush()) })
	if errors.Is(err, context.Canceled) {
		return exitError{exitSignal + int(syscall.SIGINT)}
	}
	return err
}

// knownStep refuses a step that the run does not have.
func knownStep(v *state.View, step string) error {
	plan, _, err := frozen(v)
	if err != nil {
		return err
	}
	if plan.Step(step) == nil {
		return usageError{fmt.Errorf("run %s has no step %q\nhint: flow show %s lists its steps", v.Header().ID, step, v.Header().ID)}
	}
	return nil
}

// eventPrinter prints the events of step, and of the steps inside it, or all.
func (a *app) eventPrinter(w io.Writer, output, step string) func([]byte) error {
	of := []byte(`"step":"` + step) // to look for is cheaper than to read the line
	return func(line []byte) error {
		if step != "" && !bytes.Contains(line, of) {
			return nil
		}
		var e eventLine
		if step != "" || output == "text" {
			if err := json.Unmarshal(line, &e); err != nil {
				return err
			}
		}
		if step != "" && e.Step != step && !strings.HasPrefix(e.Step, step+".") {
			return nil
		}
		if output == "json" {
			_, err := w.Write(append(slices.Clip(line), '\n'))
			return err
		}
		_, err := fmt.Fprintf(w, "%s  %s  %s\n", e.Timestamp.Local().Format(time.TimeOnly), e.Step, oneLine(e.text(), 200))
		return err
	}
}

// eventLine is what a person reads of an event.
type eventLine struct {
	Timestamp  time.Time `json:"timestamp"`
	Step       string    `json:"step"`
	Type       string    `json:"type"`
	Subtype    string    `json:"subtype"`
	Model      string    `json:"model"`
	Reason     string    `json:"reason"`
	Decision   string    `json:"decision"`
	NativeName string    `json:"nativeName"`
	Target     string    `json:"target"`
	ChangeType string    `json:"changeType"`
	FilePath   string    `json:"filePath"`
	NativeType string    `json:"nativeType"`
	Message    string    `json:"message"`
	Content    string    `json:"content"`
	Text       string    `json:"text"`
	Error      string    `json:"error"`
}

func (e eventLine) text() string {
	words := []string{
		e.Type, e.Subtype, e.Model, e.Decision, e.Reason, e.NativeName, e.Target, e.ChangeType, e.FilePath, e.NativeType,
		e.Message, e.Content, e.Text, e.Error,
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}
