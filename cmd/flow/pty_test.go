package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A pty is a terminal with one command at it, and the test in the place of the person.
type pty struct {
	person *os.File // what is typed, and what is seen
	cmd    *exec.Cmd
	ended  chan struct{} // closed when nothing more will be seen

	mu   sync.Mutex
	seen bytes.Buffer
}

// atTerminal starts a command with a terminal of that many columns as its standard streams
// but those that it has already. It is the first of a session, as a shell's are that a terminal
// starts.
func atTerminal(t *testing.T, cmd *exec.Cmd, columns uint16) *pty {
	t.Helper()
	person, terminal := openPTY(t)
	defer terminal.Close()
	p := &pty{person: person, cmd: cmd, ended: make(chan struct{})}
	p.resize(t, columns)
	if cmd.Stdin == nil {
		cmd.Stdin = terminal
	}
	if cmd.Stdout == nil {
		cmd.Stdout = terminal
	}
	if cmd.Stderr == nil {
		cmd.Stderr = terminal
	}
	cmd.ExtraFiles = []*os.File{terminal}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.watch()
	t.Cleanup(func() { person.Close() })
	return p
}

// openPTY returns the two ends of a terminal that shows what is written to it as it is.
func openPTY(t *testing.T) (person, terminal *os.File) {
	t.Helper()
	// Not by os.File.Fd, which would have a read keep the file open when it is closed.
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	person = os.NewFile(uintptr(fd), "/dev/ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	mode.Oflag &^= unix.OPOST
	mode.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, mode); err != nil {
		t.Fatal(err)
	}
	return person, terminal
}

// watch takes what is shown until the last process has left the terminal.
func (p *pty) watch() {
	defer close(p.ended)
	buf := make([]byte, 4096)
	for {
		n, err := p.person.Read(buf)
		p.mu.Lock()
		p.seen.Write(buf[:n])
		p.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// screen is all that was seen.
func (p *pty) screen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.String()
}

// await waits until a text is seen.
func (p *pty) await(t *testing.T, text string) {
	t.Helper()
	if !eventually(func() bool { return strings.Contains(p.screen(), text) }) {
		t.Fatalf("%q is not seen but\n%s", text, p.screen())
	}
}

// enter types something. Control characters are those of a keyboard: \x03 is Ctrl-C.
func (p *pty) enter(t *testing.T, keys string) {
	t.Helper()
	if _, err := p.person.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

func (p *pty) resize(t *testing.T, columns uint16) {
	t.Helper()
	conn, err := p.person.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	})
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
}

// end waits for the end of the command and returns its exit status, and all that was seen.
func (p *pty) end(t *testing.T) (int, string) {
	t.Helper()
	err := p.cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	<-p.ended
	return p.cmd.ProcessState.ExitCode(), p.screen()
}
