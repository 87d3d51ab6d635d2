package simulate

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/google/uuid"

	"flow/agents"
)

// program is a command that speaks no protocol: it prints its answer as text, whatever
// its tools did.
type program struct{ *turn }

// runProgram is the process of a command that reads a prompt: on standard input or, if
// that is empty, in its last argument or the file that this names.
func runProgram(p *process) (int, error) {
	prompt, err := programPrompt(p)
	if err != nil {
		return 0, err
	}
	c := &program{&turn{process: p, prompt: prompt, schema: agents.SchemaOf(prompt), mode: modeNew}}
	if c.dir, err = os.Getwd(); err != nil {
		return 0, err
	}
	if err := c.prepare(c); err != nil {
		return 0, err
	}
	if c.store, err = p.openStore(); err != nil {
		return 0, err
	}
	c.session = &session{ID: uuid.NewString(), Dir: c.dir}
	if err := c.accept(); err != nil {
		return 0, err
	}
	return c.run(c)
}

func programPrompt(p *process) (string, error) {
	data, err := io.ReadAll(p.stdin)
	if err != nil {
		return "", err
	}
	prompt := string(data)
	if prompt == "" && len(p.args) > 0 {
		prompt = p.args[len(p.args)-1]
		if data, err := os.ReadFile(prompt); err == nil {
			prompt = string(data)
		}
	}
	if strings.TrimSpace(prompt) == "" {
		return "", quit(1, "no prompt: give it on standard input or as the last argument")
	}
	return prompt, nil
}

func (c *program) open() {}

func (c *program) say(text string) { c.write([]byte(text + "\n")) }

func (c *program) begin(x call) (call, bool) { return x, true }

func (c *program) end(call, result) {}

func (c *program) answer(a answer) int {
	c.say(a.text)
	return 0
}

func (c *program) fails(cause agents.Cause) error {
	if _, ok := openFailures()[cause]; !ok {
		return fmt.Errorf("flow simulate: a command has no failure %q; see the causes in\n%s", cause, Help)
	}
	return nil
}

func (c *program) fail(cause agents.Cause) int {
	c.complain("%s", openFailures()[cause])
	return 1
}

// interrupt ends a turn as a program without handlers ends.
func (c *program) interrupt(cause error) int {
	if s, ok := cause.(signalled); ok { //nolint:errorlint // never wrapped
		return dieBy(s.signal)
	}
	return dieBy(syscall.SIGPIPE)
}
