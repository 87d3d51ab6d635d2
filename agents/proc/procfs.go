package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A childList reads the children of this process from
// /proc/self/task/TID/children. The kernel keeps them per thread: those a thread
// started, and with the first thread the orphans that came by.
type childList struct {
	files []*os.File // nil where the kernel has no such file
	buf   []byte
	pids  []int
}

// newChildList is for a process that starts children from the calling thread only.
func newChildList() *childList {
	l := &childList{buf: make([]byte, 4096)}
	tids := []int{unix.Getpid()}
	if tid := unix.Gettid(); tid != tids[0] {
		tids = append(tids, tid)
	}
	for _, tid := range tids {
		f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/children", tid))
		if err != nil {
			l.close()
			return &childList{}
		}
		l.files = append(l.files, f)
	}
	return l
}

func (l *childList) close() {
	for _, f := range l.files {
		f.Close()
	}
}

// list returns the pids of all children, zombies included. The slice is valid
// until the next call.
func (l *childList) list() ([]int, error) {
	if len(l.files) == 0 {
		return l.scan()
	}
	l.pids = l.pids[:0]
	for _, f := range l.files {
		if err := l.read(f); err != nil {
			return nil, err
		}
	}
	return l.pids, nil
}

// read appends the pids of one file, "12 13 ". The kernel gives whole numbers, at
// most a page of them at once. As children leave only when this process reaps
// them, the list stands still meanwhile.
func (l *childList) read(f *os.File) error {
	for at := int64(0); ; {
		n, err := f.ReadAt(l.buf, at)
		for field := range bytes.FieldsSeq(l.buf[:n]) {
			pid, err := strconv.Atoi(string(field))
			if err != nil {
				return fmt.Errorf("unexpected text in %s: %w", f.Name(), err)
			}
			l.pids = append(l.pids, pid)
		}
		at += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// scan is the slow way, for kernels without CONFIG_PROC_CHILDREN.
func (l *childList) scan() ([]int, error) {
	t, err := readTree()
	if err != nil {
		return nil, err
	}
	l.pids = append(l.pids[:0], t.children[unix.Getpid()]...)
	return l.pids, nil
}

// A process is a line of the process table.
type process struct {
	pid, parent, session int
	zombie               bool
	comm                 string // the name, at most 15 bytes of anything
}

// A tree is the process table at one moment, more or less.
type tree struct {
	byPID    map[int]process
	children map[int][]int
}

// readTree reads /proc/PID/stat of all processes. Those that end meanwhile are
// left out.
func readTree() (tree, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return tree{}, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return tree{}, err
	}
	t := tree{byPID: map[int]process{}, children: map[int][]int{}}
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		if p, ok := parseStat(string(stat)); ok {
			t.byPID[p.pid] = p
			t.children[p.parent] = append(t.children[p.parent], p.pid)
		}
	}
	return t, nil
}

// parseStat reads the start of a stat line, "pid (comm) state ppid pgrp session".
// comm may hold anything, parentheses too.
func parseStat(stat string) (process, bool) {
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 1 || end < open {
		return process{}, false
	}
	f := strings.Fields(stat[end+1:])
	if len(f) < 4 {
		return process{}, false
	}
	pid, err1 := strconv.Atoi(stat[:open-1])
	parent, err2 := strconv.Atoi(f[1])
	session, err3 := strconv.Atoi(f[3])
	if errors.Join(err1, err2, err3) != nil {
		return process{}, false
	}
	return process{pid, parent, session, f[0] == "Z" || f[0] == "X", stat[open+1 : end]}, true
}

// below is root and all its descendants, parents first.
func (t tree) below(root int) []int {
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, t.children[pids[i]]...)
	}
	return pids
}

// labelOf reads the label from the environment of a process; "" if it has none,
// or has hidden it.
func labelOf(pid int) string {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return ""
	}
	return variable(strings.Split(string(env), "\x00"), attemptVar)
}

// printable is a name that may be shown: programs choose theirs freely.
func printable(comm string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, comm)
}
