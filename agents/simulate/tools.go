package simulate

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxOutput is how much of a command's output is read, in bytes.
const maxOutput = 1 << 20

// A call is one use of a tool: an edit if it has a path, else a command.
type call struct {
	path    string // relative to the turn's directory, or absolute
	text    string // what to add, a newline follows; "" for a line of our own
	command string

	target string // the path, absolute
	exists bool
	before string // the file's content, when it exists
	after  string
}

// A result is what became of a call that was made.
type result struct {
	output string // of a command, standard output and error
	status int    // of a command
	err    error  // why an edit failed
}

// look completes an edit with what the file holds.
func (t *turn) look(c *call) error {
	if c.command != "" {
		return nil
	}
	named := strings.NewReplacer("{session}", t.session.ID, "{turn}", strconv.Itoa(t.session.turn()))
	c.path = named.Replace(c.path)
	c.target = t.abs(c.path)
	c.text = named.Replace(cmp.Or(c.text, "Simulated edit by "+t.name+"."))
	data, err := os.ReadFile(c.target)
	switch {
	case err == nil:
		c.exists, c.before = true, string(data)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	c.after = c.before + c.text + "\n"
	return nil
}

// call does what c says. What goes wrong in a tool is part of the result.
func (t *turn) call(c call) (result, error) {
	if c.command != "" {
		return t.command(c.command)
	}
	err := os.MkdirAll(filepath.Dir(c.target), 0o755)
	if err == nil {
		err = os.WriteFile(c.target, []byte(c.after), 0o644)
	}
	return result{err: err}, nil
}

// command runs a shell command in a session of its own, as the CLIs do: a signal
// to the agent's process group does not reach it.
func (t *turn) command(command string) (result, error) {
	// A file and not a pipe: a command that survives us can go on writing, and a
	// child that it leaves behind does not keep us waiting for the end of the output.
	out, err := os.CreateTemp("", "flow-simulate-*")
	if err != nil {
		return result{}, err
	}
	defer func() { _ = out.Close() }()
	if err := os.Remove(out.Name()); err != nil {
		return result{}, err
	}
	cmd := exec.Command("/bin/sh", "-c", command) //nolint:noctx // ended below, or left alive on purpose
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	if finished, err := t.await(cmd); !finished {
		return result{}, err
	}
	output, err := io.ReadAll(io.NewSectionReader(out, 0, maxOutput))
	return result{output: string(output), status: exitStatus(cmd.ProcessState)}, err
}

// await waits for the command, or kills or leaves it when the turn is interrupted.
func (t *turn) await(cmd *exec.Cmd) (finished bool, err error) {
	ended := make(chan struct{})
	var failure error
	go func() { // not waited for only when the process is about to exit
		failure = cmd.Wait()
		close(ended)
	}()
	t.attend(t.ctx, ended)
	one := running{pid: cmd.Process.Pid, ended: ended}
	switch {
	case !one.alive():
		if _, ok := errors.AsType[*exec.ExitError](failure); ok {
			return true, nil
		}
		return failure == nil, failure
	case t.survives:
		t.left = append(t.left, one)
	default:
		one.kill()
	}
	return false, nil
}

// A running command is one that outlives the turn that made it.
type running struct {
	pid   int
	ended <-chan struct{}
}

func (r running) alive() bool {
	select {
	case <-r.ended:
		return false
	default:
		return true
	}
}

// kill ends the command with all that it started, and waits for its end.
func (r running) kill() {
	if r.alive() {
		_ = syscall.Kill(-r.pid, syscall.SIGKILL)
		<-r.ended
	}
}

func exitStatus(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

// leaveOrphan starts a process in a session of its own that nobody waits for.
func leaveOrphan(d time.Duration) error {
	seconds := strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
	cmd := exec.Command("sleep", seconds) //nolint:noctx // it is to outlive everything
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// leave starts a process in the background of a shell, so that it has lost its parent: a
// holder of standard output and error in the agent's own session, or a daemon in another
// that has none of its files.
func (t *turn) leave(kind string, d time.Duration) error {
	seconds := strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
	cmd := exec.Command("/bin/sh", "-c", "sleep "+seconds+" &") //nolint:noctx // it is to outlive everything
	if cmd.Stdout, cmd.Stderr = t.stdout, t.stderr; kind == faultDaemon {
		cmd.Stdout, cmd.Stderr = nil, nil
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	return cmd.Run()
}

// abs resolves a path in the turn's directory.
func (t *turn) abs(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(t.dir, path)
}

// within reports whether path lies in one of dirs, all absolute.
func within(path string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		rel, err := filepath.Rel(dir, path)
		return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
	})
}
