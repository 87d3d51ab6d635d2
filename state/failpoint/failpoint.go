// Package failpoint ends flow, or makes an operation of it fail, at points that are named
// in the code, so that tests can show that nothing is lost there.
//
// The environment says where:
//
//	FLOW_FAILPOINT=journal-synced:3          at the third time there the process kills itself
//	FLOW_FAILPOINT=disk-write:7=ENOSPC       the seventh write fails with this error
//	FLOW_FAILPOINT=disk:7+=EIO,run-ready:1   from the seventh on; several, with commas
//	FLOW_FAILPOINT=fact-made:2=panic         the goroutine panics there
//	FLOW_FAILPOINT_LOG=FILE                  appends a line for each point that is reached:
//	                                         the process, the name, how often it was reached
//
// A name that no point has is an error: see [Names].
//
// Without these variables a point costs the reading of one pointer. The package imports
// nothing of flow, so that all of it may have points.
package failpoint

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// The variables of the environment that the package reads.
const (
	Variable    = "FLOW_FAILPOINT"
	LogVariable = "FLOW_FAILPOINT_LOG"
)

//nolint:gochecknoglobals // what the environment of the process says, read once
var active = sync.OnceValue(fromEnvironment)

// Reach marks a point where flow may die: it kills the process, or panics, when the
// environment asks for that. An error that the environment asks for has no effect here.
func Reach(name string) { _ = Fail(name) }

// Fail marks an operation that may fail: it returns the error that the environment asks
// for, a [syscall.Errno], which the operation must then return instead of being done. It
// also does what [Reach] does.
func Fail(name string) error {
	p := active()
	if p == nil {
		return nil
	}
	act, n := p.reached(name)
	switch act {
	case "":
		return nil
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until it comes
	case "panic":
		panic(fmt.Sprintf("failpoint %s:%d", name, n))
	}
	return errnos()[act]
}

// Check returns what is wrong with a value of FLOW_FAILPOINT.
func Check(value string) error {
	_, err := parse(value)
	return err
}

// A rule is one point of FLOW_FAILPOINT.
type rule struct {
	name   string
	n      int
	onward bool // also every time after the n-th
	action string
}

func (r rule) matches(name string, n int) bool {
	return r.name == name && (n == r.n || r.onward && n > r.n)
}

type points struct {
	rules []rule
	log   *os.File // nil: none

	mu    sync.Mutex
	count map[string]int
}

func (p *points) reached(name string) (action string, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count[name]++
	n = p.count[name]
	if p.log != nil {
		_, _ = fmt.Fprintf(p.log, "%d %s %d\n", os.Getpid(), name, n)
	}
	for _, r := range p.rules {
		if r.matches(name, n) {
			return r.action, n
		}
	}
	return "", n
}

// fromEnvironment is nil when the environment asks for nothing. A value that cannot be
// understood ends the process: a test that fails nothing must not pass.
func fromEnvironment() *points {
	value, log := os.Getenv(Variable), os.Getenv(LogVariable)
	if value == "" && log == "" {
		return nil
	}
	p := &points{count: map[string]int{}}
	var err error
	if p.rules, err = parse(value); err == nil && log != "" {
		p.log, err = os.OpenFile(log, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "flow:", err)
		os.Exit(2)
	}
	return p
}

func parse(value string) (rules []rule, err error) {
	for part := range strings.SplitSeq(value, ",") {
		if part == "" {
			continue
		}
		r, err := parseRule(part)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func parseRule(part string) (rule, error) {
	where, action, hasAction := strings.Cut(part, "=")
	name, times, _ := strings.Cut(where, ":")
	r := rule{name: name, action: "kill"}
	if hasAction {
		r.action = action
	}
	times, r.onward = strings.CutSuffix(times, "+")
	if name != "" && !slices.Contains(Names(), name) {
		return rule{}, fmt.Errorf("%s: no point is named %q\nhint: one of %s", Variable, name, strings.Join(Names(), ", "))
	}
	n, err := strconv.Atoi(times)
	if _, isErrno := errnos()[r.action]; err != nil || n < 1 || name == "" || r.action != "kill" && r.action != "panic" && !isErrno {
		return rule{}, fmt.Errorf("%s: %q is no point\nhint: write name:n, name:n=panic or name:n+=ENOSPC", Variable, part)
	}
	r.n = n
	return r, nil
}

func errnos() map[string]syscall.Errno {
	return map[string]syscall.Errno{
		"EACCES": unix.EACCES, "EAGAIN": unix.EAGAIN, "EBADF": unix.EBADF, "EINTR": unix.EINTR, "EIO": unix.EIO,
		"EMFILE": unix.EMFILE, "ENFILE": unix.ENFILE, "ENOENT": unix.ENOENT, "ENOMEM": unix.ENOMEM, "ENOSPC": unix.ENOSPC,
		"EDQUOT": unix.EDQUOT, "EPERM": unix.EPERM, "EPIPE": unix.EPIPE, "EROFS": unix.EROFS,
	}
}
