package state

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"flow/state/disk"
)

// The test binary plays other processes of flow: helperVar names the part, and the
// arguments are the state directory and the run.
const helperVar = "FLOW_STATE_TEST_HELPER"

func TestMain(m *testing.M) {
	parts := map[string]func(dir, id string) error{"append": appendForever, "open": openAndHold, "orphan": leaveOrphan, "hold": hold}
	part, ok := parts[os.Getenv(helperVar)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := part(os.Args[1], os.Args[2]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// appendForever lets 4 goroutines append records and events, and prints each record
// "writer number" once it is acknowledged.
func appendForever(dir, id string) error {
	r, err := openIn(dir, id)
	if err != nil {
		return err
	}
	pad := strings.Repeat("x", 2000)
	var g errgroup.Group
	for w := range 4 {
		g.Go(func() error {
			for i := 0; ; i++ {
				rec := ack{W: w, N: i, PID: os.Getpid(), Pad: pad[:i%len(pad)]}
				if err := r.AppendEvents([]byte("{\"event\":\"" + rec.Pad + "\"}\n")); err != nil {
					return err
				}
				if err := r.Append(context.Background(), "fact", rec, true); err != nil {
					return err
				}
				if _, err := fmt.Printf("%d %d\n", w, i); err != nil {
					return err
				}
			}
		})
	}
	return g.Wait()
}

type ack struct {
	W   int    `json:"w"`
	N   int    `json:"n"`
	PID int    `json:"pid"`
	Pad string `json:"pad"`
}

func openIn(dir, id string) (*Run, error) {
	s, err := Open(dir)
	if err != nil {
		return nil, err
	}
	return s.OpenRun(context.Background(), id)
}

// openAndHold opens a run and holds it until its standard input ends.
func openAndHold(dir, id string) error {
	if _, err := openIn(dir, id); err != nil {
		return err
	}
	fmt.Println("open")
	return hold(dir, id)
}

// leaveOrphan opens a run and starts a child that inherits its lock, as a guardian does.
func leaveOrphan(dir, id string) error {
	r, err := openIn(dir, id)
	if err != nil {
		return err
	}
	child := helper(context.Background(), "hold", dir, id)
	child.Stdin, child.ExtraFiles = os.Stdin, []*os.File{r.LockFile()}
	if err := child.Start(); err != nil {
		return err
	}
	fmt.Println("open")
	return hold(dir, id)
}

func hold(string, string) error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func helper(ctx context.Context, part, dir, id string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", dir, id)
	cmd.Env = append(os.Environ(), helperVar+"="+part, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// process is a running helper. The end of in tells it to end.
type process struct {
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Reader
}

func startHelper(t *testing.T, part string, s *Store, id string) *process {
	t.Helper()
	in, inW, err := os.Pipe()
	must(t, err)
	outR, out, err := os.Pipe()
	must(t, err)
	p := &process{cmd: helper(t.Context(), part, s.dir, id), in: inW, out: bufio.NewReader(outR)}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in, out, os.Stderr
	must(t, p.cmd.Start())
	must(t, errors.Join(in.Close(), out.Close()))
	t.Cleanup(func() {
		_ = inW.Close()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		_ = outR.Close()
	})
	return p
}

func (p *process) line(t *testing.T) string {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func (p *process) kill(t *testing.T) {
	t.Helper()
	must(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
}

// However a writer is killed, what it acknowledged is there, and the next goes on.
func TestKill9LosesNothingAcknowledged(t *testing.T) {
	runs, kills := 12, 10 // of each run
	if testing.Short() {
		runs = 1
	}
	s := openStore(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range runs {
		id := fmt.Sprint("run", i)
		closeRun(t, createRun(t, s, id))
		for range kills {
			killWriter(t, s, id, rng.IntN(30))
		}
		r := openRun(t, s, id)
		appendFacts(t, r, 1, true)
		must(t, r.Finish("succeeded"))
		closeRun(t, r)
	}
}

// killWriter lets a process write until it has acknowledged some records, kills it
// and checks that all is there.
func killWriter(t *testing.T, s *Store, id string, after int) {
	t.Helper()
	p := startHelper(t, "append", s, id)
	acked := p.acks(t, after)
	p.kill(t)
	rest, err := io.ReadAll(p.out) // acknowledged before the kill, read after it
	must(t, err)
	acked = append(acked, strings.Fields(strings.ReplaceAll(string(rest), " ", "/"))...)
	v, err := s.Read(id)
	must(t, err)
	checkAcked(t, v, p.cmd.Process.Pid, acked)
	if got := v.Summary().Status; got != StatusInterrupted {
		t.Fatalf("status %s", got)
	}
}

// acks reads n acknowledgements.
func (p *process) acks(t *testing.T, n int) []string {
	t.Helper()
	var got []string
	for range n {
		line := p.line(t)
		if _, err := strconv.Atoi(strings.ReplaceAll(line, " ", "")); err != nil {
			t.Fatalf("the writer said %q", line)
		}
		got = append(got, strings.ReplaceAll(line, " ", "/"))
	}
	return got
}

func checkAcked(t *testing.T, v *View, pid int, acked []string) {
	t.Helper()
	found := map[string]bool{}
	for i, rec := range v.Records() {
		var a ack
		must(t, json.Unmarshal(rec.Data, &a))
		if rec.Seq != int64(i+1) {
			t.Fatalf("record %d has seq %d", i+1, rec.Seq)
		}
		if a.PID == pid {
			found[fmt.Sprintf("%d/%d", a.W, a.N)] = true
		}
	}
	for _, a := range acked {
		if !found[a] {
			t.Fatalf("acknowledged, but lost: %s of process %d", a, pid)
		}
	}
	must(t, v.Events(func(line []byte) error {
		if !json.Valid(line) {
			return fmt.Errorf("event %q", line)
		}
		return nil
	}))
}

func TestOneOfManyProcessesOpensARun(t *testing.T) {
	r := createRun(t, openStore(t), "a")
	closeRun(t, r)
	var procs []*process
	for range 20 {
		procs = append(procs, startHelper(t, "open", r.store, "a"))
	}
	var won []*process
	for _, p := range procs {
		switch line := p.line(t); {
		case line == "open":
			won = append(won, p)
		case !strings.Contains(line, "in use by process"):
			t.Errorf("%q", line)
		}
	}
	if len(won) != 1 {
		t.Fatalf("%d opened it", len(won))
	}
	host, err := os.Hostname()
	must(t, err)
	_, err = r.store.OpenRun(t.Context(), "a")
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != won[0].cmd.Process.Pid || locked.Host != host || locked.Dead || locked.Since.IsZero() {
		t.Errorf("%v", err)
	}
	if v, err := r.store.Read("a"); err != nil || v.Summary().Status != StatusRunning {
		t.Errorf("a reader while it is locked: %v", err)
	}
	won[0].kill(t) // its text stays, and is stale
	if len(mustRead(t, filepath.Join(r.Dir(), lockFile))) == 0 {
		t.Error("the lock had no text")
	}
	closeRun(t, openRun(t, r.store, "a"))
}

func TestWaitsForWhatADeadOwnerLeft(t *testing.T) {
	r := createRun(t, openStore(t), "a")
	closeRun(t, r)
	p := startHelper(t, "orphan", r.store, "a")
	if line := p.line(t); line != "open" {
		t.Fatal(line)
	}
	p.kill(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*lockPoll)
	defer cancel()
	_, err := r.store.OpenRun(ctx, "a")
	var locked *LockedError
	if !errors.As(err, &locked) || !locked.Dead || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	if v, err := r.store.Read("a"); err != nil || v.Summary().Status != StatusRunning {
		t.Errorf("while it is cleaned up: %v", err)
	}
	opened := make(chan error, 1)
	go func() {
		again, err := r.store.OpenRun(t.Context(), "a")
		if err == nil {
			err = again.Close()
		}
		opened <- err
	}()
	must(t, p.in.Close()) // the orphan ends
	must(t, <-opened)
}

func TestGivesUpOnOrphans(t *testing.T) {
	s := openStore(t)
	closeRun(t, createRun(t, s, "a"))
	name := filepath.Join(s.path(runsDir, "a"), lockFile)
	f, err := disk.OpenFile(name, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	must(t, flock(f, unix.LOCK_EX))
	for _, text := range []string{"", "garbage", deadOwner(t)} {
		mustWrite(t, name, []byte(text))
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			_, err := s.OpenRun(t.Context(), "a")
			var locked *LockedError
			if !errors.As(err, &locked) || !errors.Is(err, errOrphans) || time.Since(start) != lockWait {
				t.Errorf("%q: %v", text, err)
			}
		})
	}
}

// deadOwner is the text of this process under a start time that is not its own: its
// pid was used again.
func deadOwner(t *testing.T) string {
	t.Helper()
	o, err := thisProcess()
	must(t, err)
	o.Start--
	text, err := json.Marshal(o)
	must(t, err)
	return string(text) + "\n"
}

func TestOwnerAlive(t *testing.T) {
	o, err := thisProcess()
	must(t, err)
	other, reused, gone := o, o, o
	other.Host, other.PID = "elsewhere", 1<<30
	reused.Start++
	gone.PID = 1 << 30
	for i, tt := range []struct {
		owner owner
		alive bool
	}{{o, true}, {other, true}, {reused, false}, {gone, false}} {
		if got := tt.owner.alive(); got != tt.alive {
			t.Errorf("%d: alive %t", i, got)
		}
	}
	zombie := helper(t.Context(), "hold", "", "")
	must(t, zombie.Start())
	z := o
	z.PID = zombie.Process.Pid
	z.Start, _, err = procStat(z.PID)
	must(t, err)
	waitFor(t, "a zombie", func() bool { return !z.alive() })
	must(t, zombie.Wait())
}

// Asking whether a run is locked must not keep anyone from opening it.
func TestLockProbesDoNotDisturb(t *testing.T) {
	s := openStore(t)
	closeRun(t, createRun(t, s, "a"))
	ctx, cancel := context.WithCancel(t.Context())
	var probes sync.WaitGroup
	for range 2 {
		probes.Go(func() {
			for ctx.Err() == nil {
				lockHeld(s.path(runsDir, "a"))
			}
		})
	}
	for range 20 {
		closeRun(t, openRun(t, s, "a"))
	}
	cancel()
	probes.Wait()
}
