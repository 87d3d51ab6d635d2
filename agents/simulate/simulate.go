// Package simulate holds agents that need no model: for `flow run --simulate`,
// flow starts itself in the place of the real CLIs, with the same arguments,
// environment and standard input, and everything but the model is real. A
// simulated agent checks its command line as strictly as the real one, keeps
// sessions between processes, really edits files and runs commands, prints the
// CLI's own protocols, one-way and two-way, and ends as the CLI would, signals included.
// Where a protocol has the client asked, the agent asks and does what it is answered.
//
// The models are Claude Code 2.1.329, Codex CLI 0.169.0, Gemini CLI 0.61.0 and, for
// all others that speak ACP, OpenCode 1.18.33, as recorded; the tests hold what is
// printed against those recordings.
//
// What an agent does is deterministic: the same prompt in the same turn of a
// session gives the same answer. Only ids and times differ from run to run. The
// environment variable FLOW_SIMULATE makes it do particular things; see Help.
package simulate

import (
	"errors"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// The names of the simulated agents, as in `use: claude`.
const (
	Claude = "claude"
	Codex  = "codex"
	Gemini = "gemini"
	ACP    = "acp"  // any other agent that speaks the Agent Client Protocol
	Exec   = "exec" // a command that reads a prompt and prints an answer
)

// The environment variables that simulated agents read.
const (
	EnvScript = "FLOW_SIMULATE"      // what to do; see Help. With _CLAUDE … behind it, of that agent alone
	EnvHome   = "FLOW_SIMULATE_HOME" // the directory of the sessions
	EnvLog    = "FLOW_SIMULATE_LOG"  // a file that gets a line when a turn starts and one when it is completed
)

// Names lists the simulated agents.
func Names() []string { return []string{Claude, Codex, Gemini, ACP, Exec} }

// known are agents that speak ACP, by the names that pipelines have for them.
func known() []string { return []string{ACP, "opencode", "copilot", "qwen", "goose", "kimi", "cursor"} }

// Main is a whole process of the agent called name, one of Names or an agent that speaks
// ACP under its own name (opencode, copilot, qwen, goose, kimi, cursor): it takes what the real CLI
// would be given and returns its exit status. It owns the process: it handles the
// signals that the CLI handles, and may end the process by a signal where the CLI
// would be. The commands of `run=` get the environment of the process.
func Main(name string, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	// The program around may catch signals. Until the prompt is read nobody here
	// would answer to them, so they do what they do by default.
	signal.Reset(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	p := &process{name: name, args: args, stdin: stdin, stdout: stdout, stderr: stderr, env: env}
	switch name {
	case Claude:
		return p.exit(runClaude(p))
	case Codex:
		return p.exit(runCodex(p))
	case Gemini:
		return p.exit(runGemini(p))
	case Exec:
		return p.exit(runProgram(p))
	}
	if slices.Contains(known(), name) {
		return p.exit(runACP(p))
	}
	return p.exit(0, quit(2, "flow: no simulated agent is called %q; there are %s", name, strings.Join(Names(), ", ")))
}

// A process is what one simulated CLI was started with.
type process struct {
	name           string
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) string
}

// A quitError ends a process before its turn began, as a mistake in the arguments
// does: a message on standard error and an exit status.
type quitError struct {
	status  int
	message string
}

func (e *quitError) Error() string { return e.message }

func quit(status int, format string, args ...any) error {
	return &quitError{status: status, message: fmt.Sprintf(format, args...)}
}

// exit turns the end of an agent's main function into an exit status.
func (p *process) exit(status int, err error) int {
	if err == nil {
		return status
	}
	p.complain("%s", err)
	if q, ok := errors.AsType[*quitError](err); ok {
		return q.status
	}
	return 1
}

// complain writes a line to standard error.
func (p *process) complain(format string, args ...any) {
	_, _ = fmt.Fprintf(p.stderr, format+"\n", args...)
}
