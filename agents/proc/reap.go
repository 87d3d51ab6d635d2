package proc

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const maxLeftovers = 32

// reap collects children as they end, for ever. It needs no timer: a killed process
// ends, and its end is signalled, as is that of a dead process's dead child when it
// is handed over. Signals that come meanwhile are one.
func (g *guardian) reap(ended <-chan os.Signal) {
	for range ended {
		g.mu.Lock()
		g.collect()
		g.settle()
		g.flush()
		g.changed.Broadcast()
		g.mu.Unlock()
	}
}

// collect reaps all children that have ended.
func (g *guardian) collect() {
	for {
		var status syscall.WaitStatus
		var usage syscall.Rusage
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, &usage)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.ECHILD):
			g.childless = true
			return
		case err != nil || pid == 0:
			return
		}
		g.reaped(pid, status, &usage)
	}
}

// reaped notes the end of a process flow asked for, or of an orphan.
func (g *guardian) reaped(pid int, status syscall.WaitStatus, usage *syscall.Rusage) {
	delete(g.owners, pid)
	for _, a := range g.closing {
		delete(a.killed, pid)
	}
	a := g.live[pid]
	if a == nil {
		return
	}
	delete(g.live, pid)
	a.ended, a.end = true, newExit(a, status, usage)
	if a.report >= 0 {
		a.end.Failed = takeReport(a.report)
	}
	if !a.doomed {
		g.closing = append(g.closing, a)
	}
	g.exits = append(g.exits, Record{
		Label: a.label, PID: pid, Code: a.end.Code, Signal: signalName(a.end.Signal),
		EndedByGuardian: g.bereaved || a.asked, Time: time.Now(),
	})
}

func newExit(a *attempt, status syscall.WaitStatus, usage *syscall.Rusage) exit {
	e := exit{
		Label: a.label, Code: status.ExitStatus(), // -1 after a signal
		Started: a.started.UnixNano(), Elapsed: time.Since(a.started),
		User: time.Duration(usage.Utime.Nano()), System: time.Duration(usage.Stime.Nano()),
		MaxRSS: usage.Maxrss << 10,
	}
	if status.Signaled() {
		e.Signal = status.Signal()
	}
	return e
}

// settle kills what remains of the attempts in closing and reports those of which
// nothing does. If all is ending, it kills whatever there is.
func (g *guardian) settle() {
	if len(g.closing) == 0 && !g.ending {
		return
	}
	children, err := g.children.list()
	if err != nil {
		// Without /proc no promise can be kept.
		panic(fmt.Sprintf("cannot list children: %v", err))
	}
	orphans := g.orphans(children)
	k := killer{}
	keep := g.closing[:0]
	for _, a := range g.closing {
		if roots := g.roots(a, orphans); len(roots) > 0 {
			k.kill(a, roots)
			keep = append(keep, a)
			continue
		}
		g.report(a)
	}
	g.closing = keep
	if g.ending && len(children) > 0 {
		k.killAll(os.Getpid())
	}
}

// orphans are the children that flow did not ask for: others' descendants.
func (g *guardian) orphans(children []int) []int {
	var orphans []int
	for _, pid := range children {
		if g.live[pid] == nil {
			orphans = append(orphans, pid)
		}
	}
	return orphans
}

// roots are the children below which there is something of a to kill: the process
// itself, if it is doomed and runs, and the orphans that belong to it. Those nothing
// can be said of belong to whoever ends last.
func (g *guardian) roots(a *attempt, orphans []int) []int {
	var roots []int
	if !a.ended {
		roots = append(roots, a.pid)
	}
	for _, pid := range orphans {
		owner := g.owner(pid)
		if a.killed[pid] || owner == a.label || owner == "" && len(g.live) == 0 {
			g.owners[pid] = a.label
			roots = append(roots, pid)
		}
	}
	return roots
}

// owner is the label of the attempt an orphan belongs to, by its session or its
// environment; "" if neither tells. As the orphan is a child of the guardian, its
// pid stands for nothing else until it is reaped.
func (g *guardian) owner(pid int) string {
	label, known := g.owners[pid]
	if known {
		return label
	}
	if label = g.bySession(pid); label == "" {
		label = labelOf(pid)
	}
	if g.attempts[label] == nil {
		label = "" // of a flow within this one, say
	}
	g.owners[pid] = label
	return label
}

func (g *guardian) bySession(pid int) string {
	session, err := unix.Getsid(pid)
	if err != nil {
		return ""
	}
	for label, a := range g.attempts {
		if a.pid == session {
			return label
		}
	}
	return ""
}

// report tells flow that an attempt has ended and nothing of it is left.
func (g *guardian) report(a *attempt) {
	delete(g.attempts, a.label)
	if err := a.outputs.trim(a.outputs.stderr); err != nil {
		fmt.Fprintln(os.Stderr, "flow: guardian: standard error could not be shortened:", err)
	}
	a.end.Leftovers, a.end.Overflow = a.leftovers, a.overflow
	if a.more > 0 {
		a.end.Leftovers = append(a.end.Leftovers, fmt.Sprintf("and %d more", a.more))
	}
	g.send(kindExit, &a.end)
}

// A killer kills trees as one reading of the process table shows them. What is
// forked meanwhile is found in the next round.
type killer struct {
	table *tree
}

func (k *killer) tree() tree {
	if k.table == nil {
		t, err := readTree()
		if err != nil {
			panic(fmt.Sprintf("cannot read the process table: %v", err))
		}
		k.table = &t
	}
	return *k.table
}

// kill kills the trees below roots. It remembers which processes they were, as an
// orphan it makes may be in no way attributable.
func (k *killer) kill(a *attempt, roots []int) {
	if a.killed == nil {
		a.killed = map[int]bool{}
	}
	t := k.tree()
	for _, root := range roots {
		for _, pid := range t.below(root) {
			kill(pid, unix.SIGKILL)
			if !a.doomed && !a.killed[pid] && !t.byPID[pid].zombie {
				a.leave(t.byPID[pid].comm)
			}
			a.killed[pid] = true
		}
	}
}

// killAll kills all descendants of a process.
func (k *killer) killAll(ancestor int) {
	for _, pid := range k.tree().below(ancestor)[1:] {
		kill(pid, unix.SIGKILL)
	}
}

// kill sends a signal. That there is no such process any more is all that can go
// wrong, and is what was wanted.
func kill(pid int, signal syscall.Signal) { _ = unix.Kill(pid, signal) }

// leave lists one more leftover.
func (a *attempt) leave(comm string) {
	if len(a.leftovers) == maxLeftovers {
		a.more++
		return
	}
	a.leftovers = append(a.leftovers, printable(comm))
}

// signalName is the name of a signal without its prefix, "" for none.
func signalName(s syscall.Signal) string {
	if s == 0 {
		return ""
	}
	if name := unix.SignalName(s); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return fmt.Sprint(int(s))
}
