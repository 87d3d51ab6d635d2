package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"flow/agents"
)

// maxLine is the longest native line that is decoded, in bytes.
const maxLine = 32 << 20

type translateFlags struct {
	agent, transport, signal, stderr string
	exit                             int
}

func (a *app) translateCommand() *cobra.Command {
	var f translateFlags
	cmd := &cobra.Command{
		Use:   "translate --agent NAME < STREAM",
		Short: "Turn an agent's native stream into unified events",
		Long: "translate reads what an agent CLI printed on its standard output and prints the unified\n" +
			"events that flow makes of it, one JSON object a line. The last one is sessionEnded: it says\n" +
			"what the end of the process (--exit, --signal, --stderr) means after all that was seen.",
		Example: "  claude -p --output-format stream-json --verbose 'hello' | flow translate --agent claude",
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return a.translate(f) },
	}
	cmd.Flags().StringVar(&f.agent, "agent", "", agentNames()+" (required)")
	cmd.Flags().StringVar(&f.transport, "transport", "", "the protocol, where an agent has several; a two-way one wants lines {\"dir\": \"in\", \"msg\": …}")
	cmd.Flags().IntVar(&f.exit, "exit", 0, "exit status of the process")
	cmd.Flags().StringVar(&f.signal, "signal", "", "signal that killed the process, name or number")
	cmd.Flags().StringVar(&f.stderr, "stderr", "", "file with what the process printed on standard error")
	return cmd
}

func (a *app) translate(f translateFlags) error {
	adapter, err := translator(f)
	if err != nil {
		return err
	}
	exit, err := f.end()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(a.out("json"), 256<<10)
	var (
		buf    []byte
		broken error
	)
	dialog := adapter.Dialog(agents.Request{Transport: f.transport})
	tr := agents.NewTranslator(dialog, agents.Envelope{Agent: f.agent}, a.now,
		func(e agents.Event) {
			buf = append(e.AppendJSON(buf[:0]), '\n')
			if _, err := out.Write(buf); err != nil && broken == nil {
				broken = err
			}
		})
	line := tr.Stdout
	if _, ok := dialog.(agents.Conversation); ok {
		line = recorded(tr)
	}
	if err := eachLine(a.stdin, maxLine, line, tr.Oversized); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	if err := eachLine(strings.NewReader(exit.Stderr), maxLine, tr.Stderr, tr.Stderr); err != nil {
		return fmt.Errorf("%s: %w", f.stderr, err)
	}
	tr.End(exit)
	return errors.Join(broken, out.Flush())
}

func translator(f translateFlags) (agents.Adapter, error) {
	adapter, ok := adapters()[f.agent]
	switch {
	case f.agent == "":
		return nil, usageError{fmt.Errorf("which agent?\nhint: --agent %s", agentNames())}
	case !ok:
		return nil, usageError{fmt.Errorf("agent %q is unknown\nhint: %s", f.agent, agentNames())}
	case f.transport != "" && !slices.Contains(adapter.Info().Transports, f.transport):
		return nil, usageError{fmt.Errorf("agent %s has no transport %q\nhint: %s", f.agent, f.transport, orNames(adapter.Info().Transports))}
	}
	return adapter, nil
}

// end is the process's end as the flags tell it.
// agentNames lists the agents that flow speaks to, for people.
func agentNames() string { return orNames(slices.Sorted(maps.Keys(adapters()))) }

func orNames(names []string) string {
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func (f translateFlags) end() (agents.Exit, error) {
	exit := agents.Exit{Code: f.exit}
	if f.signal != "" {
		name, err := signalName(f.signal)
		if err != nil {
			return exit, err
		}
		exit.Code, exit.Signal = -1, name
	}
	if f.stderr == "" {
		return exit, nil
	}
	text, err := os.ReadFile(f.stderr)
	if err != nil {
		return exit, usageError{err}
	}
	exit.Stderr = string(text[max(0, len(text)-64<<10):])
	return exit, nil
}

// signalName accepts TERM, SIGTERM and 15.
func signalName(s string) (string, error) {
	if n, err := strconv.Atoi(s); err == nil {
		return agents.SignalName(n), nil
	}
	name := strings.TrimPrefix(strings.ToUpper(s), "SIG")
	if unix.SignalNum("SIG"+name) == 0 {
		return "", usageError{fmt.Errorf("signal %q is unknown", s)}
	}
	return name, nil
}

// eachLine calls line for every line of r, newline excluded, and oversized with
// the beginning of a line that is longer than limit bytes. A last line without a
// newline counts.
func eachLine(r io.Reader, limit int, line, oversized func([]byte, agents.Native)) error {
	in := bufio.NewReaderSize(r, 256<<10)
	var long []byte // the beginning of a line that does not fit the reader's buffer
	var at agents.Native
	for {
		part, err := in.ReadSlice('\n')
		at.Length += int64(len(part))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, part[:min(len(part), max(0, limit-len(long)))]...)
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case err != nil && at.Length == 0:
			return nil
		}
		read := at.Length
		if err == nil {
			part, at.Length = part[:len(part)-1], at.Length-1
		}
		text := part
		if len(long) > 0 {
			text = append(long, part[:min(len(part), max(0, limit-len(long)))]...)
		}
		if at.Length > int64(limit) {
			oversized(text, at)
		} else {
			line(text, at)
		}
		long = long[:0]
		at = agents.Native{Offset: at.Offset + read}
		if err != nil {
			return nil
		}
	}
}
