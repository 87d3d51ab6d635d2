package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// processes are the children of every process of the machine, by parent.
type processes map[int][]int

func readProcesses() processes {
	all := processes{}
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name may hold anything
		parent, _ := strconv.Atoi(fields[1])
		all[parent] = append(all[parent], pid)
	}
	return all
}

// guardian finds the guardian of a flow process, 0 if it has none.
func (p processes) guardian(flow int) int {
	for _, pid := range p[flow] {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.Contains(line, []byte("\x00flow:guardian\x00")) {
			return pid
		}
	}
	return 0
}

// below are the descendants of a process, so many generations deep, none of process 0.
func (p processes) below(root, generations int) []int {
	if root == 0 || generations == 0 {
		return nil
	}
	var all []int
	for _, pid := range p[root] {
		all = append(append(all, pid), p.below(pid, generations-1)...)
	}
	return all
}

// kill reports whether there was a process to send the signal to.
func kill(pid int, signal syscall.Signal) bool { return pid > 1 && syscall.Kill(pid, signal) == nil }
