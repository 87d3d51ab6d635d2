package proc

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var widths = []int{1, 2, 8}

// BenchmarkTrue runs /bin/true, 1, 2 or 8 at once. Compare with
// BenchmarkExecFloor; flow-us/op and guardian-us/op are CPU, children aside.
func BenchmarkTrue(b *testing.B) {
	for _, width := range widths {
		b.Run(strconv.Itoa(width), func(b *testing.B) {
			dir, s := b.TempDir(), newSupervisor(b, Options{})
			guardian := guardianOf(b, s)
			atOnce(b, width, func() (time.Duration, time.Duration) { return cpuOf(b, os.Getpid()), cpuOf(b, guardian) }, func(worker, n int) error {
				out := filepath.Join(dir, strconv.Itoa(worker))
				r, err := s.Run(context.Background(), Spec{
					Label: out + "." + strconv.Itoa(n), Path: "/bin/true", Env: os.Environ(), Dir: dir,
					Stdout: out + ".out", Stderr: out + ".err",
				}, Sink{Stdout: func(Line) {}})
				if r.Err != nil {
					return r.Err
				}
				return err
			})
		})
	}
}

// BenchmarkSandboxed is BenchmarkTrue, one at once, in a sandbox: what the shim costs.
func BenchmarkSandboxed(b *testing.B) {
	dir := b.TempDir()
	for name, box := range map[string]*Sandbox{
		"none": nil, "files": {Write: []string{dir}, Network: true}, "network": {Write: []string{dir}},
	} {
		b.Run(name, func(b *testing.B) {
			s := newSupervisor(b, Options{})
			for n := range b.N {
				r, err := s.Run(context.Background(), Spec{Label: dir + strconv.Itoa(n), Path: "/bin/true", Dir: dir, Sandbox: box}, Sink{})
				if err != nil || r.Err != nil || r.Code != 0 {
					b.Fatal(r, err)
				}
			}
		})
	}
}

// BenchmarkExecFloor does the same with os/exec and nothing else.
func BenchmarkExecFloor(b *testing.B) {
	for _, width := range widths {
		b.Run(strconv.Itoa(width), func(b *testing.B) {
			dir := b.TempDir()
			atOnce(b, width, func() (time.Duration, time.Duration) { return cpuOf(b, os.Getpid()), 0 }, func(worker, _ int) error {
				return execTrue(filepath.Join(dir, strconv.Itoa(worker)))
			})
		})
	}
}

func execTrue(out string) error {
	const flags = os.O_WRONLY | os.O_APPEND | os.O_CREATE
	stdout, err := os.OpenFile(out+".out", flags, 0o600)
	if err != nil {
		return err
	}
	defer stdout.Close()
	stderr, err := os.OpenFile(out+".err", flags, 0o600)
	if err != nil {
		return err
	}
	defer stderr.Close()
	return (&exec.Cmd{Path: "/bin/true", Args: []string{"true"}, Env: os.Environ(), Stdout: stdout, Stderr: stderr}).Run()
}

// atOnce does b.N runs in a number of workers and reports the rate and the CPU.
func atOnce(b *testing.B, workers int, cpu func() (flow, guardian time.Duration), run func(worker, n int) error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	flow, guardian := cpu()
	b.ResetTimer()
	for w := range workers {
		group.Go(func() {
			for n := left.Add(-1); n >= 0; n = left.Add(-1) {
				if err := run(w, int(n)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	b.StopTimer()
	flow2, guardian2 := cpu()
	b.ReportMetric(float64((flow2-flow).Microseconds())/float64(b.N), "flow-us/op")
	b.ReportMetric(float64((guardian2-guardian).Microseconds())/float64(b.N), "guardian-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "procs/s")
}

// cpuOf is the CPU time all threads of a process have used, exact to the
// nanosecond, that of its children aside.
func cpuOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	if pid == os.Getpid() {
		var usage unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
			t.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		t.Fatal("no schedstat", err)
	}
	var sum time.Duration
	for _, file := range files {
		ns, err := strconv.ParseInt(strings.Fields(read(t, file))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

const (
	chattyChildren = 500
	chattySeconds  = 3
	chattyRate     = 50
	chattyLine     = 500
)

// chattyChild prints lines at a steady rate, many children's worth of them in one
// process: each argument is a file to append to, so that the machine is not busy
// with the children.
func chattyChild(files []string) {
	line := append(bytes.Repeat([]byte("x"), chattyLine-1), '\n')
	var outs []*os.File
	for _, file := range files {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		check(err)
		outs = append(outs, f)
	}
	ticker := time.NewTicker(time.Second / chattyRate)
	for range chattySeconds * chattyRate {
		<-ticker.C
		for _, f := range outs {
			_, err := f.Write(line)
			check(err)
		}
	}
	fmt.Println("done")
}

// Benchmark500Chatty runs 500 processes whose files grow by 50 lines of 500 bytes a
// second each, for 3 s. %core is the CPU of flow and guardian while they do.
func Benchmark500Chatty(b *testing.B) {
	for range b.N {
		chatty(b)
	}
}

func chatty(b *testing.B) {
	b.Helper()
	dir, s := b.TempDir(), newSupervisor(b, Options{})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var got atomic.Int64
	var group sync.WaitGroup
	var files []string
	for i := range chattyChildren {
		out := filepath.Join(dir, strconv.Itoa(i))
		files = append(files, out)
		group.Go(func() {
			s.Run(ctx, Spec{Label: out, Path: "/bin/sleep", Args: []string{"60"}, Stdout: out}, Sink{Stdout: func(Line) { got.Add(1) }})
		})
	}
	eventually(b, "all run", func() bool { return len(labelled(b, dir)) == chattyChildren })
	guardian := guardianOf(b, s)
	before, began := cpuOf(b, os.Getpid())+cpuOf(b, guardian), time.Now()
	writer := exec.Command(executablePath(b), append([]string{"child:chatty"}, files...)...)
	if err := writer.Run(); err != nil {
		b.Fatal(err)
	}
	used := cpuOf(b, os.Getpid()) + cpuOf(b, guardian) - before
	b.ReportMetric(100*used.Seconds()/time.Since(began).Seconds(), "%core")
	cancel()
	group.Wait()
	if want := int64(chattyChildren * chattySeconds * chattyRate); got.Load() != want {
		b.Fatalf("%d lines, want %d", got.Load(), want)
	}
}
