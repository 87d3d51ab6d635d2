package proc

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"flow/state/failpoint"
)

const (
	guardianArg = "flow:guardian" // argv[1] of a guardian; argv[2] is Options.Record
	lifelineFD  = 3               // its end of the socket; Options.KeepOpen come after it
	// grace is how long processes may take to end by themselves after flow has died.
	grace = 300 * time.Millisecond
)

// GuardianMain serves as a guardian, or puts a process into its sandbox, and exits, if
// this process was started for that. Otherwise it returns at once. Call it first in main
// and in every TestMain of a program that uses a [Supervisor].
func GuardianMain() {
	switch {
	case isGuardian(os.Args):
		os.Exit(guard(os.Args[2]))
	case isShim(os.Args):
		os.Exit(shimMain(os.Args))
	}
}

func isGuardian(args []string) bool { return len(args) == 3 && args[1] == guardianArg }

// A guardian starts, reaps and ends processes. One goroutine serves what flow asks,
// one reaps. mu is held by whoever works, from fork to the entry in live as well,
// so that no child is reaped before it is known.
type guardian struct {
	conn    *os.File // to flow
	devNull int

	mu        sync.Mutex
	changed   sync.Cond // of mu; after every round of reaping
	children  *childList
	attempts  map[string]*attempt // by label, until reported
	live      map[int]*attempt    // by pid, until reaped
	closing   []*attempt          // being killed, or reaped and not yet reported
	owners    map[int]string      // orphan to label; an entry lives until it is reaped
	childless bool                // no child is left, not even a zombie
	ending    bool                // everything is to be killed
	bereaved  bool                // flow is dead
	watching  bool                // watchOutputs runs
	out       []byte              // frames to send
	exits     []Record
}

// An attempt is one process the guardian started for flow.
type attempt struct {
	label     string
	pid       int
	report    int // where its shim says why it failed; -1: it has none
	started   time.Time
	asked     bool // it was signalled or killed, and does not end by itself any more
	doomed    bool // the whole tree is to be killed
	ended     bool // reaped; end is set
	end       exit
	outputs   outputs
	overflow  bool         // doomed for what it printed
	killed    map[int]bool // descendants that were sent SIGKILL
	leftovers []string
	more      int // leftovers beyond those listed
}

// guard is the whole life of a guardian. It returns its exit status.
func guard(record string) int {
	// Children die with the thread that started them (Pdeathsig), so that must be
	// one that lives as long as the guardian.
	runtime.LockOSThread()
	// One processor is enough, and saves a quarter of the CPU: no thread spins for
	// work.
	runtime.GOMAXPROCS(1)
	// Caught, not ignored, as children inherit what is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)

	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)

	g := newGuardian(lifeline())
	if err := prepare(); err != nil {
		g.send(kindHello, &hello{Trouble: err.Error()})
		g.flush()
		return 1
	}
	warmUp()
	g.send(kindHello, &hello{})
	g.flush()
	go g.reap(ended)
	if g.serve() {
		return 0
	}
	return g.mourn(record)
}

// lifeline is the guardian's end of the socket. It is non-blocking, as are the ways
// the guardian waits for anything: a thread that blocks in a system call keeps the
// runtime's monitor polling, which was 40 % of the guardian's CPU.
func lifeline() *os.File {
	_ = unix.SetNonblock(lifelineFD, true) // if it fails, so does the first write
	return os.NewFile(lifelineFD, "lifeline")
}

// warmUp has the runtime make threads to spare. When the user may have no more
// processes, it could not make one, and would end flow, or the guardian with all its
// processes.
func warmUp() {
	const spare = 8
	var all, none sync.WaitGroup
	all.Add(spare)
	for range spare {
		none.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			all.Done()
			all.Wait()
		})
	}
	none.Wait()
}

func newGuardian(conn *os.File) *guardian {
	g := &guardian{
		conn: conn, devNull: -1, childless: true, children: newChildList(),
		attempts: map[string]*attempt{}, live: map[int]*attempt{}, owners: map[int]string{},
	}
	g.changed.L = &g.mu
	return g
}

// prepare makes this process a subreaper that leaks no descriptor.
func prepare() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot become a subreaper: %w", err)
	}
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("flow needs /proc mounted: %w", err)
	}
	for _, entry := range fds {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// serve does what flow asks until the connection ends. It reports whether flow
// said that it is done.
func (g *guardian) serve() bool {
	r := bufio.NewReaderSize(g.conn, 1<<16)
	for {
		kind, body, err := readFrame(r)
		if err != nil {
			return false
		}
		if kind == kindEnd {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.endAll()
			return true
		}
		if err := g.do(kind, body); err != nil {
			fmt.Fprintln(os.Stderr, "flow: guardian:", err)
			return false
		}
	}
}

// do obeys one message.
func (g *guardian) do(kind byte, body string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.flush()
	if kind == kindStart {
		var m start
		if err := parse(body, &m); err != nil {
			return err
		}
		g.start(m)
		return nil
	}
	var o order
	if kind != kindKillAll {
		if err := parse(body, &o); err != nil {
			return err
		}
	}
	switch a := g.attempts[o.Label]; {
	case kind == kindKillAll:
		for _, a := range g.live {
			g.doom(a)
		}
		g.settle()
	case a == nil: // it ended meanwhile
	case kind == kindSignal:
		a.signal(o)
	case kind == kindKill:
		g.doom(a)
		g.settle()
	}
	return nil
}

// signal sends the signal of o, unless the process was reaped and its pid may be
// another's.
func (a *attempt) signal(o order) {
	target := a.pid
	if o.Group {
		target = -target
	}
	if !a.ended {
		a.asked = true
		kill(target, o.Signal)
	}
}

// doom has the tree of a running process killed by the next settle.
func (g *guardian) doom(a *attempt) {
	if !a.doomed && !a.ended {
		a.doomed, a.asked = true, true
		g.closing = append(g.closing, a)
	}
}

// endAll kills whatever is left and returns once there is no child any more. mu is
// held.
func (g *guardian) endAll() {
	g.ending = true
	g.settle()
	g.flush()
	for !g.childless {
		g.changed.Wait()
	}
}

// mourn ends everything after flow has died, writes down how, and returns the exit
// status. Only with the process that then ends are the descriptors of
// Options.KeepOpen released.
func (g *guardian) mourn(record string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	failpoint.Reach("guardian-bereaved")
	g.collect() // what ended before ended by itself
	g.settle()
	g.bereaved = true
	for pid := range g.live {
		kill(-pid, unix.SIGTERM)
	}
	g.waitForLive(grace)
	g.endAll()
	if record == "" || len(g.exits) == 0 {
		return 0
	}
	if err := appendRecords(record, g.exits); err != nil {
		fmt.Fprintln(os.Stderr, "flow: guardian: cannot write the exit records:", err)
		return 1
	}
	return 0
}

// waitForLive waits until all processes flow asked for have ended, but no longer
// than d. mu is held.
func (g *guardian) waitForLive(d time.Duration) {
	late := false
	timer := time.AfterFunc(d, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		late = true
		g.changed.Broadcast()
	})
	defer timer.Stop()
	for len(g.live) > 0 && !late {
		g.changed.Wait()
	}
}

// send queues a message for flow.
func (g *guardian) send(kind byte, m message) {
	g.out = appendFrame(g.out, kind, m)
}

// flush sends what is queued. It can fail only if flow is gone, which serve notices.
func (g *guardian) flush() {
	if len(g.out) > 0 {
		_, _ = g.conn.Write(g.out)
		g.out = g.out[:0]
	}
}
