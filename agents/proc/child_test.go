package proc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// flowChild is a flow that is going to be killed. It holds the lock of a directory
// and runs the scripts given, again and again if they end, and prints a byte for
// each thing that happens.
func flowChild(args []string) {
	dir, name, scripts := args[0], args[1], args[2:]
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	check(err)
	check(unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	s := New(Options{Record: filepath.Join(dir, "records"), KeepOpen: []*os.File{lock}, MaxStderr: testHead})
	happened := func() { os.Stdout.Write([]byte{'.'}) }
	var group sync.WaitGroup
	for i, script := range scripts {
		group.Go(func() {
			for round := 0; ; round++ {
				happened()
				_, err := s.Run(context.Background(), Spec{
					Label: fmt.Sprintf("%s.%d.%d", name, i, round), Path: "/bin/sh", Args: []string{"-c", script},
					Env: os.Environ(), Dir: dir, Stdout: filepath.Join(dir, fmt.Sprint(i)), Stderr: filepath.Join(dir, fmt.Sprint(i, ".err")),
				}, Sink{Stdout: func(Line) { happened() }})
				check(err)
			}
		})
	}
	group.Wait()
}

// guardedChild prints its guardian's pid, runs a script, and prints the error of
// that.
func guardedChild(args []string) {
	s := New(Options{})
	check(s.Start())
	fmt.Println(s.client.cmd.Process.Pid)
	_, err := s.Run(context.Background(), Spec{
		Label: args[0], Path: "/bin/sh", Args: []string{"-c", args[1]}, Env: os.Environ(),
	}, Sink{})
	fmt.Println(err)
	fmt.Println(s.Close())
	_, err = s.Run(context.Background(), Spec{Label: args[0], Path: "/bin/true"}, Sink{})
	fmt.Println(err)
}

// daemonChild starts a daemon that has left everything behind: it has a session of
// its own, its parent is gone, it ignores signals and, unless that is "inherited", it
// has an environment of its own. It holds the standard output and writes its pid to a
// file.
func daemonChild(args []string) {
	cmd := exec.Command("/proc/self/exe", "child:daemon2", args[0])
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if env := args[1]; env != "inherited" {
		cmd.Env = []string{env}
	}
	check(cmd.Start())
	for !exists(args[0]) {
		time.Sleep(time.Millisecond)
	}
}

func daemon2Child(args []string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	check(os.WriteFile(args[0]+"~", []byte(strconv.Itoa(os.Getpid())), 0o600))
	check(os.Rename(args[0]+"~", args[0]))
	time.Sleep(time.Hour)
}

// crowdedChild runs a process while its user may have no more of them, and again
// when it may. It prints how both went.
func crowdedChild([]string) {
	retried := make(chan struct{}, 100)
	s := New(Options{Logger: noticing(retried), Patience: time.Second})
	check(s.Start())
	guardian := s.client.cmd.Process.Pid
	var old unix.Rlimit
	check(unix.Prlimit(guardian, unix.RLIMIT_NPROC, nil, &old))
	check(unix.Prlimit(guardian, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 0, Max: old.Max}, nil))
	go func() {
		for range 10 { // the first Run gives up after 8
			<-retried
		}
		check(unix.Prlimit(guardian, unix.RLIMIT_NPROC, &old, nil))
	}()
	for i := range 2 {
		r, err := s.Run(context.Background(), Spec{Label: fmt.Sprint(i), Path: "/bin/sh", Args: []string{"-c", "exit 3"}}, Sink{})
		check(err)
		fmt.Println(errors.Is(r.Err, syscall.EAGAIN), r.Code)
	}
	check(s.Close())
}

// lineChild prints one line of so many MiB, and a short one.
func lineChild(args []string) {
	size, err := strconv.Atoi(args[0])
	check(err)
	chunk := []byte(strings.Repeat("a", 1<<20))
	for range size {
		_, err := os.Stdout.Write(chunk)
		check(err)
	}
	fmt.Print("\nnext\n")
}

// linesChild prints so many numbered lines of different lengths, cut at odd places.
func linesChild(args []string) {
	count, err := strconv.Atoi(args[0])
	check(err)
	w := bufio.NewWriterSize(os.Stdout, 777)
	for i := range count {
		fmt.Fprintf(w, "%d %0*d\n", i, i*7%301, i)
	}
	check(w.Flush())
}
