package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"flow/state/failpoint"
)

const (
	defaultTick    = 25 * time.Millisecond
	defaultMaxLine = 32 << 20

	// A start the system has no room for now is tried again after this pause, which then
	// doubles.
	firstPause      = 10 * time.Millisecond
	defaultPatience = 10 * time.Second
)

var errClosed = errors.New("the process supervisor is closed")

// Options configure a Supervisor.
type Options struct {
	// Record is the file the guardian appends exit records to when flow dies; ""
	// for none. [ReadRecords] reads it.
	Record string
	// KeepOpen are descriptors the guardian holds until nothing of the run lives:
	// that of the run's lock.
	KeepOpen []*os.File
	// Tick is how often output is read; 0 is 25 ms.
	Tick time.Duration
	// MaxLine is the longest line that is delivered whole, in bytes; 0 is 32 MiB.
	MaxLine int
	// MaxOutput is how much a process may print on its standard output, in bytes; 0 is 1 GiB.
	// One that prints more is killed.
	MaxOutput int64
	// MaxStderr is how much of the beginning of its standard error is kept besides the end,
	// in bytes; 0 is 8 MiB.
	MaxStderr int64
	// Patience is how long a start is tried again that the system has no room for, one
	// pause more or less; 0 is 10 s.
	Patience time.Duration
	// Machine is what the machine is taken for, in tests; nil: it is asked.
	Machine *Machine
	// Logger may be nil.
	Logger hclog.Logger
}

// A Supervisor runs processes. Its methods may be called concurrently.
type Supervisor struct {
	options    Options
	tailer     *tailer
	namespaces func() Namespace // once found out

	mu     sync.Mutex
	client *client
	closed bool
}

// New returns a Supervisor. It starts its guardian when it needs it; Close ends
// that.
func New(o Options) *Supervisor {
	if o.Tick <= 0 {
		o.Tick = defaultTick
	}
	if o.MaxLine <= 0 {
		o.MaxLine = defaultMaxLine
	}
	if o.MaxOutput <= 0 {
		o.MaxOutput = defaultMaxOutput
	}
	if o.MaxStderr <= 0 {
		o.MaxStderr = defaultHeadSize
	}
	if o.Patience <= 0 {
		o.Patience = defaultPatience
	}
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	return &Supervisor{options: o, tailer: newTailer(o.Tick), namespaces: sync.OnceValue(namespaces)}
}

// Start starts the guardian, unless it runs already. Run does it when needed; call
// it to have Options.KeepOpen held from now on.
func (s *Supervisor) Start() error {
	_, err := s.guardian()
	return err
}

func (s *Supervisor) guardian() (*client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.client != nil {
		return s.client, nil
	}
	record := s.options.Record
	if record != "" {
		var err error
		if record, err = absolute(record); err != nil {
			return nil, err
		}
	}
	c, err := launch(record, s.options.KeepOpen, s.options.Logger)
	if err != nil {
		return nil, err
	}
	s.options.Logger.Debug("guardian started", "pid", c.cmd.Process.Pid)
	s.client = c
	return c, nil
}

// Run runs one process. It returns when that has ended, whatever it left over is
// killed, and all its output is delivered. Once ctx is done, the process is asked
// to end, as Spec.Ladder says; Run still waits for that.
//
// How the process ended, or why it could not be started, is in the Result. An error
// means that flow itself is broken: no guardian, a sink that panicked, a file that
// cannot be read.
func (s *Supervisor) Run(ctx context.Context, spec Spec, sink Sink) (Result, error) {
	if err := spec.check(); err != nil {
		return Result{Code: -1}, err
	}
	c, err := s.guardian()
	if err != nil {
		return Result{Code: -1}, err
	}
	m, err := spec.request()
	if err != nil {
		return Result{Code: -1, Err: err}, nil
	}
	if spec.Input != nil {
		var p *pipe
		err := s.insist(ctx, spec.Label, func() (err error) {
			p, err = spec.Input.open()
			return err
		})
		if err != nil {
			return Result{Code: -1, Err: err}, nil
		}
		defer p.close()
		m.Stdin = p.path()
	}
	held, err := s.sandbox(spec.Sandbox, &m)
	if err != nil {
		return Result{Code: -1, Err: err}, nil
	}
	r := Result{Code: -1}
	var broken error
	r.Err = s.insist(ctx, spec.Label, func() error {
		r, broken = s.run(ctx, c, m, spec, sink)
		return r.Err
	})
	if r.Err == nil {
		r.Sandbox = held
	}
	return r, broken
}

// insist does what the system may have no room for, again and again until it has, or the
// patience is at its end.
func (s *Supervisor) insist(ctx context.Context, label string, do func() error) error {
	for pause, paused := firstPause, time.Duration(0); ; pause *= 2 {
		if err := context.Cause(ctx); err != nil {
			return fmt.Errorf("not started: %w", err)
		}
		err := do()
		if !temporary(err) {
			return err
		}
		if paused >= s.options.Patience {
			return &shortageError{err}
		}
		s.options.Logger.Warn("cannot start now, trying again", "label", label, "error", err, "pause", pause)
		sleep(ctx, pause)
		paused += pause
	}
}

// sandbox has m started as box wants it, and says what that comes to.
func (s *Supervisor) sandbox(box *Sandbox, m *start) (string, error) {
	if box == nil {
		return "", nil
	}
	b, err := s.machine(!box.Network).bounded(box)
	if err != nil {
		return "", err
	}
	b.apply(m)
	return b.String(), nil
}

// Machine says what there is to put processes into sandboxes with. An error means that
// there is no guardian.
func (s *Supervisor) Machine() (Machine, error) {
	if _, err := s.guardian(); err != nil { // GuardianMain is called, or namespaces would start this program anew
		return Machine{}, err
	}
	return s.machine(true), nil
}

// HoldsFiles reports whether a sandbox keeps files from being changed here.
func (s *Supervisor) HoldsFiles() bool { return s.machine(false).HoldsFiles() }

// machine asks the machine; for network namespaces, which takes a process, only if they
// are needed.
func (s *Supervisor) machine(network bool) Machine {
	if s.options.Machine != nil {
		return *s.options.Machine
	}
	m := Machine{Landlock: landlockABI()}
	if network {
		m.Namespace = s.namespaces()
	}
	return m
}

// run runs one process, or fails to start it.
func (s *Supervisor) run(ctx context.Context, c *client, m start, spec Spec, sink Sink) (Result, error) {
	m.Limits = limits{
		MaxOutput: s.options.MaxOutput, Head: s.options.MaxStderr,
		StdoutBegan: fileSize(m.Stdout), StderrBegan: fileSize(m.Stderr),
	}
	x, err := openTail(m, sink, int64(s.options.MaxLine))
	if err != nil {
		return Result{Code: -1, Err: err}, nil
	}
	ctx, x.stop = context.WithCancel(ctx) // a broken sink ends its process
	defer x.stop()
	ended, err := c.start(m)
	if err != nil {
		x.close()
		return Result{Code: -1}, err
	}
	s.tailer.add(x)
	e := c.await(ctx, ended, spec)
	if e.broken != nil {
		e.broken = errors.Join(e.broken, m.Limits.trim(m.Stderr)) // the guardian did not
	}
	err = s.tailer.finish(x)
	if e.broken != nil {
		return Result{Code: -1}, e.broken
	}
	if e.Failed.Errno != 0 {
		return Result{Code: -1, Err: explain(m, e.Failed)}, err
	}
	if len(e.Leftovers) > 0 {
		s.options.Logger.Warn("leftover processes killed", "label", m.Label, "processes", e.Leftovers)
	}
	tail, tailErr := lastText(m.Stderr, m.Limits.StderrBegan)
	return e.result(tail), errors.Join(err, tailErr)
}

func (e exit) result(stderrTail string) Result {
	began := time.Unix(0, e.Started)
	return Result{
		Code: e.Code, Signal: signalName(e.Signal), Leftovers: e.Leftovers, StderrTail: stderrTail, Overflow: e.Overflow,
		Started: began, Ended: began.Add(e.Elapsed),
		UserTime: e.User, SystemTime: e.System, MaxRSS: e.MaxRSS,
	}
}

// sleep waits for d, or until ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// KillAll kills the trees of all running processes at once. It is for the second
// Ctrl-C: cancel the contexts first, so that nothing else starts.
func (s *Supervisor) KillAll() {
	s.mu.Lock()
	c := s.client
	s.mu.Unlock()
	if c != nil {
		c.write(kindKillAll, nil)
	}
}

// Close kills whatever still runs, ends the guardian and waits for that. It returns
// an error if the guardian had died. Call it once all Runs have returned.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	c, again := s.client, s.closed
	s.closed = true
	s.mu.Unlock()
	if c == nil || again {
		return nil
	}
	failpoint.Reach("guardian-closing")
	err := c.close()
	failpoint.Reach("guardian-closed")
	s.tailer.group.Wait()
	return err
}
