package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"flow/state/failpoint"
)

// helloTimeout is how long a guardian may take to start. It is a matter of
// milliseconds, but machines may be loaded.
const helloTimeout = 30 * time.Second

// A client is flow's side of one guardian. One goroutine listens; the other
// methods may be called concurrently.
type client struct {
	conn *os.File
	cmd  *exec.Cmd
	gone chan struct{} // closed once the guardian is, and all it left

	writing sync.Mutex // held for one frame

	mu      sync.Mutex
	waiting map[string]chan<- exit // by label
	closing bool
	lost    error // why there is no guardian any more
}

// launch starts a guardian and waits until it is ready.
func launch(record string, keep []*os.File, log hclog.Logger) (*client, error) {
	if isGuardian(os.Args) {
		return nil, errors.New("this process is a guardian: call proc.GuardianMain first in main and in TestMain")
	}
	warmUp()
	// If the guardian dies, its orphans shall come to flow.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("cannot become a subreaper: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot make the guardian's socket: %w", err)
	}
	mine, its := os.NewFile(uintptr(pair[0]), "lifeline"), os.NewFile(uintptr(pair[1]), "lifeline")
	defer its.Close()
	c := &client{
		conn: mine, waiting: map[string]chan<- exit{}, gone: make(chan struct{}),
		cmd: guardianCmd(record, append([]*os.File{its}, keep...)),
	}
	if err := c.cmd.Start(); err != nil {
		mine.Close()
		return nil, fmt.Errorf("cannot start the guardian: %w", err)
	}
	r := bufio.NewReaderSize(mine, 1<<16)
	if err := awaitHello(mine, r); err != nil {
		mine.Close() // ends it, unless it is none
		return nil, errors.Join(err, c.end())
	}
	go c.listen(r)
	go c.rouse(log)
	return c, nil
}

// end kills a guardian that is none and waits for it.
func (c *client) end() error {
	kill(c.cmd.Process.Pid, unix.SIGKILL)
	return c.cmd.Wait()
}

// guardianCmd starts this executable again, even if its file was replaced. argv[0]
// stays, as some programs look at it first.
func guardianCmd(record string, files []*os.File) *exec.Cmd {
	return &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{os.Args[0], guardianArg, record},
		Env:         guardianEnv(os.Environ()),
		Stderr:      os.Stderr, // for the trace of a panic
		ExtraFiles:  files,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
}

// guardianEnv is what of flow's environment its guardian has: whatever it starts is given its
// own, and who may look into /proc/PID/environ shall find no secret there.
func guardianEnv(environ []string) []string {
	keep := []string{
		"HOME", "FLOW_RUN_ID", attemptVar, "FLOW_FAILPOINT", "FLOW_FAILPOINT_LOG",
		"GORACE", "GODEBUG", "GOTRACEBACK", "GOCOVERDIR", "GOMAXPROCS", "GOGC", "GOMEMLIMIT",
	}
	return slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return !slices.Contains(keep, name)
	})
}

// awaitHello waits for the guardian's first word.
func awaitHello(conn *os.File, r *bufio.Reader) error {
	if err := conn.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return fmt.Errorf("cannot set the guardian's timeout: %w", err)
	}
	var m hello
	kind, body, err := readFrame(r)
	if err == nil && kind == kindHello {
		err = parse(body, &m)
	}
	if err != nil || kind != kindHello {
		return fmt.Errorf("the guardian does not answer; is proc.GuardianMain called first in main? %w", err)
	}
	if m.Trouble != "" {
		return fmt.Errorf("the guardian cannot work: %s", m.Trouble)
	}
	return conn.SetReadDeadline(time.Time{})
}

// start asks for a process. Its end comes on the channel, exactly once.
func (c *client) start(m start) (<-chan exit, error) {
	ended := make(chan exit, 1)
	c.mu.Lock()
	if err := c.lost; err != nil {
		c.mu.Unlock()
		return nil, err
	}
	if c.waiting[m.Label] != nil {
		c.mu.Unlock()
		return nil, fmt.Errorf("a process labelled %q runs already; labels must be unique", m.Label)
	}
	c.waiting[m.Label] = ended
	c.mu.Unlock()
	c.write(kindStart, &m)
	return ended, nil
}

// await waits for the end of a process, and brings it about once ctx is done.
func (c *client) await(ctx context.Context, ended <-chan exit, spec Spec) exit {
	ladder := spec.Ladder
	if ladder == nil {
		ladder = defaultLadder()
	}
	signal := func(r Rung) {
		c.write(kindSignal, &order{Label: spec.Label, Signal: r.Signal, Group: spec.Group})
	}
	return climb(ctx, ended, ladder, signal, func() { c.write(kindKill, &order{Label: spec.Label}) })
}

// write sends one frame. If it cannot, the guardian is gone, and the listener
// notices that and tells all who wait.
func (c *client) write(kind byte, m message) {
	frame := appendFrame(nil, kind, m)
	c.writing.Lock()
	defer c.writing.Unlock()
	_, _ = c.conn.Write(frame)
}

// listen passes ends on to those who wait for them, until the guardian ends.
func (c *client) listen(r *bufio.Reader) {
	defer close(c.gone)
	err := c.receive(r)
	if !errors.Is(err, io.EOF) {
		kill(c.cmd.Process.Pid, unix.SIGKILL) // it speaks nonsense
	}
	if c.cmd.Wait() == nil && c.isClosing() {
		c.fail(errClosed)
		return
	}
	died := fmt.Errorf("the guardian died (%v) and all processes with it; start again or resume: %w", c.cmd.ProcessState, err)
	c.fail(errors.Join(died, killAdopted()))
}

func (c *client) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

func (c *client) receive(r *bufio.Reader) error {
	for {
		kind, body, err := readFrame(r)
		if err != nil {
			return err
		}
		var e exit
		if kind != kindExit {
			return fmt.Errorf("%w: kind %q", errFrame, kind)
		}
		if err := parse(body, &e); err != nil {
			return err
		}
		c.mu.Lock()
		ended := c.waiting[e.Label]
		delete(c.waiting, e.Label)
		c.mu.Unlock()
		failpoint.Reach("process-reported")
		if ended != nil {
			ended <- e
		}
	}
}

// fail ends all that wait, and all that will.
func (c *client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = err
	for label, ended := range c.waiting {
		ended <- exit{Label: label, broken: err}
		delete(c.waiting, label)
	}
}

// close has the guardian kill what is left and end, and waits for that. It returns
// an error if the guardian has died instead, now or before.
func (c *client) close() error {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.write(kindEnd, nil)
	<-c.gone
	c.conn.Close()
	if errors.Is(c.lost, errClosed) { // nobody writes it any more
		return nil
	}
	return c.lost
}
