package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// talkative asks a question while steps end that a test lets go on.
const talkative = `
concurrency: {steps: 4}
steps:
  ask: {ask: "Which?", output: {type: object, required: [a], properties: {a: {type: string}}}}
  first: {run: "while ! test -e first; do sleep 0.05; done"}
  second: {run: "while ! test -e second; do sleep 0.05; done"}
  third: {run: "while ! test -e third; do sleep 0.05; done"}
`

// TestTerminals has a person asked at terminals of all kinds, with lines that come while the
// question stands: only where the question fits into a line of a terminal that knows control
// sequences is it taken away for a moment. The width may change meanwhile.
func TestTerminals(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		env     string
		columns [3]uint16 // when the steps end
		erased  [3]bool
		row     string
	}{
		{"TERM=xterm", [3]uint16{80, 80, 80}, [3]bool{true, true, true}, "39a-resized"},
		{"TERM=xterm", [3]uint16{80, 20, 200}, [3]bool{true, false, true}, "39a-resized"},
		{"TERM=xterm", [3]uint16{20, 0, 1}, [3]bool{}, "39b-narrow"},
		{"TERM=dumb", [3]uint16{80, 80, 80}, [3]bool{}, "39c-dumb"},
		{"NO_COLOR=1", [3]uint16{80, 80, 80}, [3]bool{}, "39c-dumb"},
	} {
		t.Run(fmt.Sprint(c.env, c.columns), func(t *testing.T) {
			t.Parallel()
			r := signalRun(t, fmt.Sprint("terminal", i), talkative)
			r.env = append(r.env, c.env)
			p := atTerminal(t, r.start(), c.columns[0])
			p.await(t, "answer, or n to deny: ")
			for n, step := range []string{"first", "second", "third"} {
				before := len(p.screen())
				p.resize(t, c.columns[n])
				write(t, r.dir, step)
				p.await(t, "✔ "+step)
				p.awaitAfter(t, before, "answer, or n to deny: ")
				if got := strings.Contains(p.screen()[before:], eraseLine); got != c.erased[n] {
					t.Errorf("%s: erased: %t\n%q", step, got, p.screen()[before:])
				}
			}
			p.enter(t, "{\"a\": \"b\"}\n")
			p.ends(t, 0)
			if rest := strings.ReplaceAll(p.screen(), eraseLine, ""); !disarmed(rest) {
				t.Errorf("%q", rest)
			}
			switch c.row { // each in full, for the page
			case "39a-resized":
				sees(t, "39a-resized", p.screen())
			case "39b-narrow":
				sees(t, "39b-narrow", p.screen())
			default:
				sees(t, "39c-dumb", p.screen())
			}
		})
	}
}

// awaitAfter waits until a text is seen behind a part of the screen.
func (p *pty) awaitAfter(t *testing.T, from int, text string) {
	t.Helper()
	if !eventually(func() bool { return strings.Contains(p.screen()[from:], text) }) {
		t.Fatalf("%q is not seen but\n%q", text, p.screen()[from:])
	}
}

// printing is a run that goes on after a reader has left, and whose steps have signals as
// ever.
const printing = `
steps:
  first: {run: "echo said"}
  second: {needs: [first], run: "while ! test -e go; do sleep 0.05; done"}
  third: {needs: [second], run: "awk '/^SigIgn/ {print $2}' /proc/self/status"}
outputs: {ignored: "{{ .steps.third.text }}"}
`

// shell runs a script in the run's directory, where "$@" begins the run.
func (r crashRun) shell(script string, args ...string) *exec.Cmd {
	cmd := r.start(args...)
	cmd.Args = append([]string{"sh", "-c", script, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	return cmd
}

// TestReaders has standard output and error lead to readers that leave, that never were, and
// to a full device. The run ends as it would have, and nothing is left.
func TestReaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, output string
		exit           string // of flow
		row            string
	}{
		"head of progress":  {`{ "$@" 2>&1; echo $? > status; } | { head -1; touch go; }`, "text", "0", "40a-reader-leaves"},
		"head of outputs":   {`touch go; { "$@"; echo $? > status; } | true`, "text", "0", ""},
		"head of a report":  {`touch go; { "$@"; echo $? > status; } | head -1`, "json", "0", ""},
		"no output":         {`touch go; "$@" >&-; echo $? > status`, "json", "0", ""},
		"no error":          {`touch go; "$@" 2>&-; echo $? > status`, "text", "0", ""},
		"nothing":           {`touch go; "$@" <&- >&- 2>&-; echo $? > status`, "text", "0", ""},
		"full device":       {`touch go; "$@" > /dev/full; echo $? > status`, "text", "1", "40c-full-device"},
		"full device, JSON": {`touch go; "$@" > /dev/full; echo $? > status`, "json", "1", "40c-full-device"},
		"full progress":     {`touch go; "$@" 2> /dev/full; echo $? > status`, "text", "0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := signalRun(t, strings.NewReplacer(" ", "-", ",", "").Replace(name), printing)
			cmd := r.shell(c.script, "-o", c.output)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if status, err := os.ReadFile(filepath.Join(r.dir, "status")); err != nil || strings.TrimSpace(string(status)) != c.exit {
				t.Errorf("exit status %q, %v, want %s\n%s", status, err, c.exit, out)
			}
			switch c.row {
			case "40a-reader-leaves":
				sees(t, "40a-reader-leaves", string(out))
			case "40c-full-device":
				sees(t, "40c-full-device", string(out))
			}
			r.succeeded(t)
		})
	}
}

// succeeded demands that the run has succeeded, that its commands ignored no signal, and that
// no process is left.
func (r crashRun) succeeded(t *testing.T) {
	t.Helper()
	var report struct {
		Status  string            `json:"status"`
		Outputs map[string]string `json:"outputs"`
	}
	out, err := r.command("show", r.id, "-o", "json").Output()
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	if err != nil || report.Status != "succeeded" || strings.Trim(report.Outputs["ignored"], "0") != "" {
		t.Errorf("%v: %+v", err, report)
	}
	r.nothingLeft(t)
}

// TestStalledReader has nobody read what flow says of its progress. The run ends all the same,
// and who reads at last learns that lines are missing or gets them.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	read, filled := fullPipe(t)
	r := signalRun(t, "stalled", printing)
	write(t, r.dir, "go")
	cmd := r.start()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, filled
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	filled.Close()
	if !strings.Contains(out.String(), "ignored:") {
		t.Errorf("standard output is %q", &out)
	}
	r.succeeded(t)
	sees(t, "40b-reader-stalls", r.finish(t, "show", r.id))
	read.Close()
}

// fullPipe is a pipe that takes no more.
func fullPipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; size > 0; size /= 2 {
		for {
			if _, err := unix.Write(fds[1], make([]byte, size)); err != nil {
				break
			}
		}
	}
	if err := unix.SetNonblock(fds[1], false); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "read"), os.NewFile(uintptr(fds[1]), "write")
}
