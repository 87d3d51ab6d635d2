package proc

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// A process in a sandbox begins as a shim: this executable once more, which bounds
// itself and then executes the program, in the same process. What it does to itself
// cannot be undone and goes over to all descendants.

const (
	shimArg = "flow:sandbox" // argv[1] of a shim; shimArgs has the others
	// reportFD is where a shim says why it could not execute the program. It is closed
	// by executing it.
	reportFD = 3
	// shimFailed is the exit status of a shim whose report nobody takes.
	shimFailed = 126
)

// shimArgs are the arguments of a shim, before the path of the program and its argv.
// They are text, so that a path may be any bytes.
func shimArgs(argv0 string, b *bound, write []string) []string {
	args := []string{argv0, shimArg, strconv.Itoa(b.landlock), strconv.FormatBool(b.network), strconv.FormatBool(b.namespace != NoNamespace), strconv.Itoa(len(write))}
	return append(args, write...)
}

func isShim(args []string) bool { return len(args) > 1 && args[1] == shimArg }

// probeArgs are those of a shim that does nothing: that it could be started is what is
// to be known.
func probeArgs() []string { return []string{os.Args[0], shimArg} }

// A shim is what the arguments of one say.
type shim struct {
	landlock  int
	network   bool // to be forbidden by Landlock
	namespace bool // it has one, to be set up
	write     []string
	argv      []string // the program's file, then its argv
}

func parseShim(args []string) (shim, error) {
	var s shim
	var count int
	if len(args) < 6 {
		return s, errors.New("arguments are missing")
	}
	for i, into := range []any{&s.landlock, &s.network, &s.namespace, &count} {
		if _, err := fmt.Sscan(args[2+i], into); err != nil {
			return s, err
		}
	}
	rest := args[6:]
	if count < 0 || len(rest) < count+2 {
		return s, errors.New("arguments are missing")
	}
	s.write, s.argv = rest[:count], rest[count:]
	return s, nil
}

// shimMain is the whole life of a shim. It returns only if it fails.
func shimMain(args []string) int {
	if len(args) == len(probeArgs()) {
		return 0
	}
	// The thread that executes the program is to be the one that is bounded, and the one
	// whose parent's death is watched.
	runtime.LockOSThread()
	unix.CloseOnExec(reportFD)
	s, err := parseShim(args)
	if err == nil {
		err = s.restrict()
	}
	if err != nil {
		return report(failure{Sandbox: err.Error(), Errno: unix.EPERM})
	}
	return report(failure{Errno: errno(syscall.Exec(s.argv[0], s.argv[1:], os.Environ()))})
}

// report tells the guardian why the program was not executed.
func report(f failure) int {
	_, _ = unix.Write(reportFD, f.encode()) // it is shorter than a pipe is deep
	return shimFailed
}

// takeReport reads what a shim that has ended said, and closes fd. A shim that executed
// its program said nothing.
func takeReport(fd int) failure {
	defer unix.Close(fd)
	text := make([]byte, 16<<10)
	n, err := unix.Read(fd, text) // it does not block: the only writer has ended
	if err != nil || n == 0 {
		return failure{}
	}
	var f failure
	if err := parse(string(text[:n]), &f); err != nil {
		return failure{Errno: unix.EIO}
	}
	return f
}

// restrict bounds this process.
func (s shim) restrict() error {
	// Set for the thread that the guardian made, and this may be another.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("cannot watch the guardian: %w", err)
	}
	if s.namespace {
		loopback()
	}
	if s.landlock == 0 {
		return nil
	}
	config, err := landlock.NewConfig(s.handled()...)
	if err != nil {
		return err
	}
	return config.Restrict(s.rules()...)
}

// The rights that are there to write. A device node is none: it would reach a device
// from wherever it stands.
const (
	fileWrite landlock.AccessFSSet = ll.AccessFSWriteFile | ll.AccessFSTruncate
	dirWrite  landlock.AccessFSSet = fileWrite | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile | ll.AccessFSMakeDir |
		ll.AccessFSMakeReg | ll.AccessFSMakeSock | ll.AccessFSMakeFifo | ll.AccessFSMakeSym | ll.AccessFSRefer
	heldWrite = dirWrite | ll.AccessFSMakeChar | ll.AccessFSMakeBlock | ll.AccessFSIoctlDev | ll.AccessFSResolveUnix
)

// files are the rights on files that this version of Landlock knows.
func (s shim) files() landlock.AccessFSSet {
	known := heldWrite
	for since, rights := range map[int]landlock.AccessFSSet{
		2: ll.AccessFSRefer, landlockTruncate: ll.AccessFSTruncate, 5: ll.AccessFSIoctlDev, 9: ll.AccessFSResolveUnix,
	} {
		if s.landlock < since {
			known &^= rights
		}
	}
	return known
}

// handled is what is forbidden where no rule allows it. Reading is not among it.
func (s shim) handled() []any {
	handled := []any{s.files()}
	if s.landlock >= 6 {
		handled = append(handled, landlock.ScopedSet(ll.ScopeAbstractUnixSocket|ll.ScopeSignal))
	}
	if s.network {
		network := landlock.AccessNetSet(ll.AccessNetBindTCP | ll.AccessNetConnectTCP)
		if s.landlock >= landlockUDP {
			network |= ll.AccessNetBindUDP | ll.AccessNetConnectSendUDP
		}
		handled = append(handled, network)
	}
	return handled
}

// rules are what is allowed.
func (s shim) rules() []landlock.Rule {
	known := s.files()
	rules := []landlock.Rule{
		landlock.PathAccess(known&(ll.AccessFSWriteFile|ll.AccessFSTruncate|ll.AccessFSIoctlDev), "/dev/null", "/dev/zero", "/dev/full").IgnoreIfMissing(),
	}
	for _, path := range s.write {
		if rule, ok := writeRule(known, path); ok {
			rules = append(rules, rule)
		}
	}
	return rules
}

// writeRule allows writing a file or what is below a directory. What is looked at and what
// is allowed are the same file: a descriptor, which stays open until the program is executed.
func writeRule(known landlock.AccessFSSet, path string) (landlock.Rule, bool) {
	if path != "." {
		fd, err := openSettled(path)
		if err != nil {
			return nil, false
		}
		path = descriptorPath(fd)
	}
	rights := known & fileWrite
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		rights = known & dirWrite
	}
	return landlock.PathAccess(rights, path).IgnoreIfMissing(), true
}

// loopback switches the loopback interface of a new network namespace on, so that what
// is in it can talk to itself. A program that does without does not miss it.
func loopback() {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if ifr, err := unix.NewIfreq("lo"); err == nil {
		ifr.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		_ = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
	}
}
