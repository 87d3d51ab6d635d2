package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"flow/agents/proc"
)

func TestMain(m *testing.M) {
	proc.GuardianMain()
	testscript.Main(hungUp{m}, map[string]func(){"flow": func() { traceDisk(); os.Exit(realMain(testClock())) }, "fakeagent": fakeAgent})
}

// hungUp runs the tests with hangups as they are by default: tests that are started by nohup
// ignore them, and so would each flow that they start.
type hungUp struct{ *testing.M }

func (h hungUp) Run() int {
	if signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	return h.M.Run()
}

// TestScript runs testdata/script/*.txtar: what a user types, and what is seen.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			home := filepath.Join(e.WorkDir, "home")
			e.Setenv("HOME", home)
			e.Setenv("FLOW_STATE_DIR", filepath.Join(home, "state"))
			e.Setenv("GORACE", "atexit_sleep_ms=0") // flow starts itself as guardian and agent
			return os.MkdirAll(home, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"json": jsonCommand, "await": awaitCommand, "exits": exitsCommand,
			"nochild": noChildCommand, "lines": linesCommand, "sees": seesCommand,
		},
		Condition:           scriptCondition,
		UpdateScripts:       *update,
		RequireExplicitExec: true,
	})
}

// scriptCondition knows [root]: what only root can set up, such as a file of another user;
// [landlock]: what needs a kernel that can hold files; and [race]: the race detector.
func scriptCondition(name string) (bool, error) {
	switch name {
	case "race":
		return raceEnabled, nil
	case "root":
		return os.Getuid() == 0, nil
	case "landlock":
		return proc.New(proc.Options{}).HoldsFiles(), nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// exits runs a command and demands its exit status: exits 2 flow run x.yaml
func exitsCommand(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit interface{ ExitCode() int }
	if err != nil {
		if e, ok := err.(interface{ ExitCode() int }); ok {
			exit = e
			got = exit.ExitCode()
		} else {
			ts.Fatalf("%v", err)
		}
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// json looks into a JSON document: json stdout .steps.edit.status succeeded
// With ! the path must be absent or null.
func jsonCommand(ts *testscript.TestScript, neg bool, args []string) {
	var v any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &v))
	for key := range strings.SplitSeq(strings.TrimPrefix(args[1], "."), ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[key]
		case []any:
			i, err := strconv.Atoi(key)
			ts.Check(err)
			v = x[i]
		default:
			v = nil
		}
	}
	if neg {
		if v != nil {
			ts.Fatalf("%s is %v", args[1], v)
		}
		return
	}
	if v == nil {
		ts.Fatalf("%s is absent or null", args[1])
	}
	if len(args) < 3 {
		return
	}
	var want any
	if json.Unmarshal([]byte(args[2]), &want) == nil && reflect.DeepEqual(v, want) {
		return
	}
	if text := fmt.Sprint(v); text != args[2] {
		ts.Fatalf("%s is %q, want %q", args[1], text, args[2])
	}
}

// await waits until a file holds a text: await FILE REGEXP
func awaitCommand(ts *testscript.TestScript, _ bool, args []string) {
	re := regexp.MustCompile(args[1])
	matches, file := false, ts.MkAbs(args[0])
	if !eventually(func() bool {
		files, _ := filepath.Glob(file)
		for _, f := range files {
			data, err := os.ReadFile(f)
			matches = matches || err == nil && re.Match(data)
		}
		return matches
	}) {
		ts.Fatalf("%s never matched %s", args[0], args[1])
	}
}

// eventually polls until the condition holds, for at most 30 seconds.
func eventually(condition func() bool) bool {
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if condition() {
			return true
		}
		select {
		case <-deadline.C:
			return false
		case <-tick.C:
		}
	}
}

// nochild demands that no process of a run is left: nochild RUN
func noChildCommand(ts *testscript.TestScript, _ bool, args []string) {
	var left []string
	if !eventually(func() bool { left = processesOf(args[0], ts.Getenv("HOME")); return len(left) == 0 }) {
		ts.Fatalf("processes left: %v", left)
	}
}

// processesOf lists the live processes that carry the run's id, but for those of another home
// directory: other tests on the machine may have runs of the same id.
func processesOf(run, home string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		env, err := os.ReadFile(file)
		vars := "\x00" + string(env)
		elsewhere := strings.Contains(vars, "\x00HOME=") && !strings.Contains(vars, "\x00HOME="+home+"\x00")
		if err == nil && !elsewhere && strings.Contains(vars, "\x00FLOW_RUN_ID="+run+"\x00") {
			found = append(found, filepath.Base(filepath.Dir(file)))
		}
	}
	return found
}

// lines counts the lines of a file that match: lines 2 FILE REGEXP
func linesCommand(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	re := regexp.MustCompile(args[2])
	got := 0
	for line := range strings.Lines(ts.ReadFile(args[1])) {
		if re.MatchString(strings.TrimSuffix(line, "\n")) {
			got++
		}
	}
	if got != want {
		ts.Fatalf("%d lines of %s match %s, want %d", got, args[1], args[2], want)
	}
}
