// Command launch runs a command and writes what it took to descriptor 3, as JSON.
//
// The benchmarks need it for the memory: a process's peak as rusage tells it
// includes that of the process which started it, and the test binary is larger
// than flow. This program is small.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"
)

func main() {
	if err := launch(os.Args[1], os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "launch:", err)
		os.Exit(1)
	}
}

func launch(path string, argv []string) error {
	began := time.Now()
	p, err := os.StartProcess(path, argv, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	state, err := p.Wait()
	if err != nil {
		return err
	}
	wall := time.Since(began)
	if !state.Success() {
		return fmt.Errorf("%v: %v", argv, state)
	}
	return json.NewEncoder(os.NewFile(3, "result")).Encode(map[string]int64{
		"wall": int64(wall), "cpu": int64(state.UserTime() + state.SystemTime()),
		"rss": state.SysUsage().(*syscall.Rusage).Maxrss << 10,
	})
}
