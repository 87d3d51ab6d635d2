package proc

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"flow/state/failpoint"
)

// start starts a process and enters it, or reports why it could not. mu is held,
// and the calling thread lives as long as the guardian.
func (g *guardian) start(m start) {
	began := time.Now()
	pid, report, failed := g.spawn(m)
	if failed.Errno != 0 {
		g.send(kindExit, &exit{Label: m.Label, Failed: failed, Code: -1})
		return
	}
	// A copy, as the label is part of the whole message, which is not to be kept.
	a := &attempt{label: strings.Clone(m.Label), pid: pid, report: report, started: began}
	a.outputs = outputs{limits: m.Limits, stdout: strings.Clone(m.Stdout), stderr: strings.Clone(m.Stderr)}
	g.attempts[a.label], g.live[pid] = a, a
	g.childless = false
	failpoint.Reach("guardian-spawned")
	if !g.watching && m.Stdout+m.Stderr != "" {
		g.watching = true
		go g.watchOutputs()
	}
}

// spawn forks and executes. Of the resource limits, the Go runtime gives the child
// the soft RLIMIT_NOFILE flow was started with, not its own raised one.
//
// report is where a shim says that it failed, -1 without one.
func (g *guardian) spawn(m start) (pid, report int, failed failure) {
	if err := failpoint.Fail("process-fork"); err != nil {
		return 0, -1, failure{Errno: errno(err)}
	}
	fds, failed := g.open(m)
	defer func() { g.close(fds) }()
	if failed.Errno != 0 {
		return 0, -1, failed
	}
	program, argv, report := m.Program, m.Argv, -1
	if len(m.Shim) > 0 {
		program, argv = "/proc/self/exe", slices.Concat(m.Shim, []string{m.Program}, m.Argv)
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			return 0, -1, failure{Errno: errno(err)}
		}
		report, fds = pipe[0], append(fds, uintptr(pipe[1])) // as reportFD
	}
	dir, release, err := m.directory()
	if err != nil {
		closeReport(report)
		return 0, -1, failure{File: m.Dir, Errno: errno(err)}
	}
	defer release()
	pid, err = syscall.ForkExec(program, argv, &syscall.ProcAttr{
		Dir: dir, Env: m.Env, Files: fds,
		Sys: m.Namespace.attributes(&syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}),
	})
	if err != nil {
		closeReport(report)
		return 0, -1, notForked(m, errno(err))
	}
	return pid, report, failure{}
}

// directory is the path to start the process in, which is good until release is called.
func (m *start) directory() (path string, release func(), err error) {
	if !m.Settled {
		return m.Dir, func() {}, nil
	}
	fd, err := openSettled(m.Dir)
	if err != nil {
		return "", nil, err
	}
	return descriptorPath(fd), func() { unix.Close(fd) }, nil
}

// notForked says why a process could not be made. Namespaces have limits of their own, and
// ENOSPC is the word for that.
func notForked(m start, n syscall.Errno) failure {
	if m.Namespace != NoNamespace && (n == syscall.EPERM || n == syscall.ENOSPC || n == syscall.EUSERS) {
		return failure{Sandbox: "a network namespace cannot be made: " + n.Error(), Errno: n}
	}
	return failure{Errno: n}
}

func closeReport(fd int) {
	if fd >= 0 {
		unix.Close(fd)
	}
}

// open opens the three standard streams.
func (g *guardian) open(m start) ([]uintptr, failure) {
	const write = unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT
	var fds []uintptr
	for i, file := range []string{m.Stdin, m.Stdout, m.Stderr} {
		var fd int
		var err error
		switch {
		case file == "":
			file = "/dev/null"
			fd, err = g.null()
		case i == 0:
			fd, err = openStdin(file)
		default:
			if err = failpoint.Fail("output-create"); err == nil {
				fd, err = unix.Open(file, write|unix.O_CLOEXEC, 0o600)
			}
		}
		if err != nil {
			return fds, failure{File: file, Errno: errno(err)}
		}
		fds = append(fds, uintptr(fd))
	}
	return fds, failure{}
}

// openStdin opens a file for reading. A named pipe nobody writes to must not block
// the guardian, nor may the process get it non-blocking.
func openStdin(file string) (int, error) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.SetNonblock(fd, false) // cannot fail for an open file
	}
	return fd, err
}

// null is /dev/null, opened once for all.
func (g *guardian) null() (fd int, err error) {
	if g.devNull < 0 {
		g.devNull, err = unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	}
	return g.devNull, err
}

func (g *guardian) close(fds []uintptr) {
	for _, fd := range fds {
		if int(fd) != g.devNull {
			unix.Close(int(fd))
		}
	}
}

// errno is the number in err. The calls used here return nothing else.
func errno(err error) syscall.Errno {
	var n syscall.Errno
	if errors.As(err, &n) && n != 0 {
		return n
	}
	return syscall.EIO
}
