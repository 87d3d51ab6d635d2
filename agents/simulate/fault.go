package simulate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The faults of a process and its output. Every agent can have all of them, whatever its
// protocol.
const (
	faultStderr   = "stderr"
	faultFlood    = "flood"
	faultEvents   = "events"
	faultBOM      = "bom"
	faultNUL      = "nul"
	faultUTF8     = "invalid-utf8"
	faultNoInit   = "no-init"
	faultLateInit = "late-init"
	faultRepeat   = "repeat-result"
	faultCut      = "cut"
	faultStatus   = "status"
	faultDeaf     = "deaf"
	faultHolder   = "holder"
	faultDaemon   = "daemon"
)

// endless is the size of a flood that has no end.
const endless = -1

// A fault is one item of FLOW_SIMULATE that breaks a process or its output.
type fault struct {
	when when
	size int64         // of stderr and flood in bytes, of events in messages
	wait time.Duration // how long a process that is left behind lives
	code int           // the exit status
}

// addFault adds a fault and reports whether name is one.
func (s *script) addFault(name, value string, at when) (known bool, err error) {
	f := fault{when: at, wait: time.Minute}
	switch name {
	case faultStderr, faultEvents:
		f.size, err = parseSize(value)
	case faultFlood:
		if f.size = endless; value != "" {
			f.size, err = parseSize(value)
		}
	case faultStatus:
		f.code, err = strconv.Atoi(value)
	case faultHolder, faultDaemon:
		if value != "" {
			f.wait, err = time.ParseDuration(value)
		}
	case faultBOM, faultNUL, faultUTF8, faultNoInit, faultLateInit, faultRepeat, faultCut, faultDeaf:
	default:
		return false, nil
	}
	if s.faults == nil {
		s.faults = map[string]fault{}
	}
	s.faults[name] = f
	return true, err
}

// parseSize reads a number, with K, M or G for powers of 1024.
func parseSize(s string) (int64, error) {
	digits, factor := s, int64(1)
	if i := strings.IndexAny(s, "KMG"); i >= 0 && i == len(s)-1 {
		digits, factor = s[:i], 1<<(10*(strings.IndexByte("KMG", s[i])+1))
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no size: write a number, with K, M or G behind it if you like", s)
	}
	return n * factor, nil
}

// parseSignal reads a signal's name, with or without SIG, or its number; "" is SEGV.
func parseSignal(s string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(s); err == nil && n > 0 && n < 65 {
		return syscall.Signal(n), nil
	}
	if s == "" {
		return syscall.SIGSEGV, nil
	}
	if n := unix.SignalNum("SIG" + strings.TrimPrefix(strings.ToUpper(s), "SIG")); n != 0 {
		return n, nil
	}
	return 0, fmt.Errorf("%q is no signal: write its name or number", s)
}

// arm finds out which faults hold in this turn, and has the stream suffer those that are
// about its lines.
func (t *turn) arm() error {
	t.faults = map[string]fault{}
	for _, name := range slices.Sorted(maps.Keys(t.script.faults)) {
		f := t.script.faults[name]
		holds, err := t.holds(f.when)
		if err != nil {
			return err
		}
		if holds {
			t.faults[name] = f
		}
	}
	t.distortion = distortion{cut: t.has(faultCut)}
	return nil
}

func (t *turn) has(name string) bool {
	_, ok := t.faults[name]
	return ok
}

// begins prints the first lines, now, later or never.
func (t *turn) begins(v voice) {
	if t.has(faultBOM) {
		t.write([]byte("\xEF\xBB\xBF"))
	}
	t.holding = t.has(faultLateInit) || t.has(faultNoInit)
	v.open()
	t.holding = false
}

// misbehave does what a process can do wrong without ending its turn.
func (t *turn) misbehave(v voice) (int, bool, error) {
	var left []error
	for _, name := range []string{faultHolder, faultDaemon} {
		if f, ok := t.faults[name]; ok {
			left = append(left, t.leave(name, f.wait))
		}
	}
	if err := errors.Join(left...); err != nil {
		return 0, true, err
	}
	if f, ok := t.faults[faultStderr]; ok {
		t.floodStderr(f.size)
	}
	if f, ok := t.faults[faultFlood]; ok {
		t.flood(f.size)
	}
	for name, b := range map[string]string{faultNUL: "\x00", faultUTF8: "\xC3\x28"} {
		if t.has(name) {
			t.spoil = b
			v.say("These bytes are no text: " + spoilt)
			t.spoil = ""
		}
	}
	t.chatter(v, t.faults[faultEvents].size)
	return 0, false, nil
}

// floodSize is how much of a flood is written at once. Between two pieces the agent hears.
const floodSize = 1 << 20

// flood prints one line that is no JSON.
func (t *turn) flood(size int64) {
	piece := []byte(strings.Repeat("y", floodSize))
	for left := size; size == endless || left > 0; left -= floodSize {
		if size != endless {
			piece = piece[:min(left, floodSize)]
		}
		t.write(piece)
		if t.pause(time.Millisecond); t.interrupted() != nil {
			return
		}
	}
	t.write([]byte("\n"))
}

// floodStderr prints lines on standard error, size bytes in all.
func (t *turn) floodStderr(size int64) {
	const line = "simulated: this line is one of very many on standard error\n"
	piece := strings.Repeat(line, floodSize/len(line)+1)[:floodSize]
	for ; size > 0; size -= floodSize {
		if _, err := t.stderr.Write([]byte(piece[:min(size, floodSize)])); err != nil {
			return
		}
		if t.pause(time.Millisecond); t.interrupted() != nil {
			return
		}
	}
	t.complain("\nsimulated: this is the last line on standard error")
}

// chatter says n things that are no answer.
func (t *turn) chatter(v voice, n int64) {
	for i := range n {
		v.say(fmt.Sprintf("This is message %d of %d.", i+1, n))
		if i%1000 == 999 {
			t.pause(time.Millisecond)
		}
		if t.interrupted() != nil {
			return
		}
	}
}

// ends does what comes after the answer, or the failure, which would end the process
// with status.
func (t *turn) ends(v voice, status int) int {
	if t.has(faultRepeat) {
		t.write(t.last)
	}
	if t.has(faultLateInit) {
		t.release()
	}
	if t.odd.late {
		v.say("This comes after the end of the turn.")
	}
	if t.has(faultCut) {
		t.tear()
		t.gone = true
	}
	if f, ok := t.faults[faultStatus]; ok {
		status, t.gone = f.code, true
	}
	return status
}
