package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// A misdeed is what a fake does wrong in a turn.
type misdeed struct {
	name string
	what string // it does, for the table
	do   func(*fake) int
	keys string // further keys of its step
	// prompt is the step's, "" for a short one.
	prompt string
	// never says that no protocol may take the turn for a success.
	never bool
}

// misdeeds are those of agents of every protocol.
func misdeeds() []misdeed {
	return []misdeed{
		{name: "calm", what: "does nothing wrong", do: func(f *fake) int {
			f.work()
			f.say(f.well)
			return f.leave()
		}},
		{name: "killed", what: "dies by SIGSEGV in the middle, with 30 lines on standard error", never: true, do: func(f *fake) int {
			f.work()
			for i := range 30 {
				fmt.Fprintf(os.Stderr, "line %d of the trace\n", i+1)
			}
			return dieBy("SEGV")
		}},
		{name: "exits-3", what: "exits 3 in the middle", never: true, do: func(f *fake) int {
			f.work()
			fmt.Fprintln(os.Stderr, "it went wrong")
			return 3
		}},
		{name: "silent", what: "says nothing any more", never: true, keys: "idle-timeout: 10s", do: func(f *fake) int {
			f.work()
			return stay()
		}},
		{name: "endless", what: "works for ever", never: true, keys: "timeout: 3s", do: func(f *fake) int {
			f.listen()
			f.say(f.begin...)
			for {
				f.speak("more")
				time.Sleep(50 * time.Millisecond)
			}
		}},
		{name: "bytes", what: "says bytes that are no UTF-8", do: func(f *fake) int {
			f.listen()
			f.say(f.begin...)
			f.speak("caf\xe9 done")
			f.say(f.well)
			return f.leave()
		}},
		{name: "nul", what: "says a raw NUL in a text", do: func(f *fake) int {
			f.listen()
			f.say(f.begin...)
			f.speak("a\x00b done")
			f.say(f.well)
			return f.leave()
		}},
		{name: "bom", what: "begins with a byte order mark", do: func(f *fake) int {
			f.listen()
			f.print("\ufeff")
			f.say(f.begin...)
			f.speak("done")
			f.say(f.well)
			return f.leave()
		}},
		{name: "shouts", what: `writes its end with "TYPE" and "METHOD" for "type" and "method"`, never: true, keys: "idle-timeout: 10s", do: func(f *fake) int {
			f.work()
			if f.well == "" {
				return 1
			}
			f.say(strings.NewReplacer(`"type"`, `"TYPE"`, `"method"`, `"METHOD"`, `"done"`, `"DONE"`, `"result"`, `"RESULT"`).Replace(f.well))
			return f.leave()
		}},
		{name: "twofold", what: "writes its end with every key twice, once for a success", never: true, keys: "idle-timeout: 10s", do: func(f *fake) int {
			f.work()
			if f.well == "" {
				return 1
			}
			f.say(strings.TrimSuffix(f.well, "}") + "," + strings.TrimPrefix(f.badly, "{"))
			return f.leave()
		}},
		{name: "torn-after", what: "stops in the middle of a line after its end", do: func(f *fake) int {
			f.work()
			f.say(f.well)
			f.print(`{"type":"telemetry","te`)
			return f.leave()
		}},
		{name: "torn-end", what: "stops in the middle of its end", never: true, do: func(f *fake) int {
			f.work()
			if f.well == "" {
				return 1
			}
			f.print(f.well[:len(f.well)-2])
			return 0
		}},
		{name: "noise", what: "prints npm's notices among its lines", do: func(f *fake) int {
			f.listen()
			f.say("npm notice New major version of npm available!", "> agent@1.0.0 start")
			f.say(f.begin...)
			f.say("[1,2]", "42", `"text"`, "(node:1) Warning: x")
			f.speak("done")
			f.say(f.well)
			return f.leave()
		}},
		{name: "end-twice", what: "succeeds, and then says that it failed", do: func(f *fake) int {
			f.work()
			f.say(f.well, f.badly)
			return f.leave()
		}},
		{name: "takes-back", what: "fails, and then says that it succeeded", never: true, do: func(f *fake) int {
			f.work()
			if f.badly == "" {
				return 1
			}
			f.say(f.badly, f.well)
			return f.leave()
		}},
		{name: "end-first", what: "ends its turn before it begins", do: func(f *fake) int {
			f.listen()
			f.speak("done")
			f.say(f.well)
			f.say(f.begin...)
			return f.leave()
		}},
		{name: "no-end", what: "exits 0 and never ended its turn", never: true, do: func(f *fake) int {
			f.listen()
			f.say(f.begin...)
			return 0
		}},
		{name: "mute", what: "exits 0 without a word", never: true, do: func(f *fake) int {
			f.listen()
			return 0
		}},
		{name: "well-exit-1", what: "succeeds, and exits 1", do: func(f *fake) int {
			f.work()
			f.say(f.well)
			return 1
		}},
		{name: "badly-exit-0", what: "fails, and exits 0", never: true, do: func(f *fake) int {
			f.work()
			if f.badly == "" {
				return 1
			}
			f.say(f.badly)
			return f.leave()
		}},
		{name: "goes-on", what: "says more after its end", do: func(f *fake) int {
			f.work()
			f.say(f.well)
			for range 20 {
				f.speak("more")
			}
			return f.leave()
		}},
		{name: "lingers", what: "does not exit after its end", keys: "timeout: 25s", do: func(f *fake) int {
			f.work()
			f.say(f.well)
			return stay()
		}},
		{name: "chatters", what: "says more for ever after its end", keys: "timeout: 25s", do: func(f *fake) int {
			f.work()
			f.say(f.well)
			for {
				f.say("still here")
				time.Sleep(50 * time.Millisecond)
			}
		}},
	}
}

// faults are what fakes do, by name.
func faults() map[string]func(*fake) int {
	all := map[string]func(*fake) int{}
	for _, m := range append(misdeeds(), mistalks()...) {
		all[m.name] = m.do
	}
	all["leak"], all["leak-asking"], all["limited"] = leak, leakAsking, limited
	return all
}

// A stepEnd is what a step whose agent misbehaves came to.
type stepEnd struct {
	Status string `json:"status"`
	Cause  string `json:"cause"`
	Error  string `json:"error"`
	Hint   string `json:"hint"`
}

func (c stepEnd) String() string {
	if c.Status == "succeeded" {
		return "succeeded"
	}
	text := fmt.Sprintf("%s %s: %s", c.Status, c.Cause, strings.ReplaceAll(c.Error, "\n", " | "))
	if c.Hint != "" {
		text += " | hint: " + c.Hint
	}
	return text
}

// TestMisbehaviour has agents of every protocol misbehave in every way, all in one run of
// flow. What each step comes to stands in testdata/misbehaviour.txt: no step may hang, end
// flow, lose events, or succeed without a result.
func TestMisbehaviour(t *testing.T) {
	t.Parallel()
	protocols := slices.Sorted(maps.Keys(voices()))
	r := newCrashRun(t, "misbehaviour")
	if err := os.WriteFile(filepath.Join(r.dir, r.pipeline), misbehaving(protocols, misdeeds()), 0o600); err != nil {
		t.Fatal(err)
	}
	cells, seen := r.misbehave(t, exitFailed)
	for row, cell := range map[string]string{
		"04-killed-agent": "codex_exec__killed", "14-noise": "claude_print__noise", "15-ends-twice": "gemini_headless__takes_back",
		"16-ends-first": "claude_print__end_first", "19-badly-exit-0": "gemini_headless__badly_exit_0",
	} {
		sees(t, row, about(cell, seen))
	}
	for _, row := range []string{"05a-silent", "05b-endless", "12-no-text", "13-torn", "18-well-exit-1", "20-does-not-exit"} {
		sees(t, row, seen)
	}
	golden(t, filepath.Join("testdata", "misbehaviour.txt"), tableOf(t, cells, misdeeds(), protocols))
}

// about is what the user reads about one step: the lines that name it, and those below them
// that name no other.
func about(cell, seen string) string {
	var text strings.Builder
	its := false
	for line := range strings.Lines(seen) {
		if strings.Contains(line, "__") {
			its = strings.Contains(line, " "+cell+" ")
		}
		if its {
			text.WriteString(line)
		}
	}
	return text.String()
}

// tableOf says what every step came to, and fails the test for each that succeeded although
// it must not.
func tableOf(t *testing.T, cells map[string]stepEnd, deeds []misdeed, protocols []string) string {
	t.Helper()
	var table strings.Builder
	for _, m := range deeds {
		fmt.Fprintf(&table, "%s: it %s\n", m.name, m.what)
		for _, p := range protocols {
			c := cells[cellOf(p, m.name)]
			if c.Status == "succeeded" && m.never {
				t.Errorf("%s: an agent that %s has succeeded", p, m.what)
			}
			fmt.Fprintf(&table, "  %-18s  %s\n", p, c)
		}
	}
	return table.String()
}

func cellOf(protocol, misdeed string) string {
	return strings.NewReplacer("/", "_", "-", "_").Replace(protocol + "__" + misdeed)
}

// misbehaving is a pipeline with a step for every protocol and misdeed, all at once.
func misbehaving(protocols []string, deeds []misdeed) []byte {
	var agents, steps strings.Builder
	for _, p := range protocols {
		for _, m := range deeds {
			use, transport, _ := strings.Cut(p, "/")
			name, besides := cellOf(p, m.name), ""
			switch {
			case p == "exec/jsonl":
				besides = ", exec: {format: jsonl, resume: [--resume, '{session}'], events: {session: .session, text: .text, done: .done, error: .error}}"
			case transport != "" && use != "exec":
				besides = ", transport: " + transport
			}
			fmt.Fprintf(&agents, "  %s: {use: %s, command: [fakeagent, %s, %s], sandbox: read-only%s}\n", name, use, p, m.name, besides)
			keys := m.keys
			if !strings.HasPrefix(keys, "timeout") {
				keys = strings.TrimSuffix("timeout: 2m, "+keys, ", ")
			}
			fmt.Fprintf(&steps, "  %s: {agent: %s, %s, %s}\n", name, name, cmp.Or(m.prompt, "prompt: Do it."), keys)
		}
	}
	return fmt.Appendf(nil, "concurrency: 100\nagents:\n%ssteps:\n%s", &agents, &steps)
}

// misbehave runs the pipeline, which must end with that exit status, and returns what its steps came to and what
// the user saw.
func (r crashRun) misbehave(t *testing.T, status int) (map[string]stepEnd, string) {
	t.Helper()
	guard := 2 * time.Minute
	if raceEnabled { // which takes several times as long
		guard *= 5
	}
	ctx, cancel := context.WithTimeout(t.Context(), guard)
	defer cancel()
	cmd := r.command("run", r.pipeline, "--run-id", r.id, "-o", "json")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	err := cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != status {
		t.Fatalf("exit status %d: %v\n%s", code, err, stderr.String())
	}
	var report struct {
		Steps map[string]stepEnd `json:"steps"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if left := processesOf(r.id, r.home()); len(left) > 0 {
		t.Errorf("processes left: %v", left)
	}
	return report.Steps, stderr.String()
}

// golden holds text against a file, or writes it with -update.
func golden(t *testing.T, file, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got; mend the one or the other):\n%s", file, diff)
	}
}
