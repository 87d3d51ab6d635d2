package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// badInputRows is how many rows the catalogue of bad inputs has. Files of testdata/badinput
// begin with the number of theirs.
const badInputRows = 66

// otherBadInput names the scripts that have the rows which are not about a pipeline's text.
func otherBadInput() map[int]string {
	return map[int]string{
		54: "badinput.txtar",    // a pipeline that is a pipe, a device or standard input
		62: "badinput.txtar",    // a state directory that cannot be trusted
		64: "keys_inputs.txtar", // -i of what is no input, and without a value
	}
}

// largeBadInput makes the files that are too large to keep.
func largeBadInput() map[string]string {
	const good = "steps: {a: {run: x}}\n"
	var steps strings.Builder
	for i := range 10_001 {
		fmt.Fprintf(&steps, "  s%d: {run: x}\n", i)
	}
	return map[string]string{
		"01-larger-than-1-mib.yaml":     good + "#" + strings.Repeat("x", 3<<20),
		"02-too-many-nodes.yaml":        good + "name: [" + strings.Repeat("x,", 200_001) + "]",
		"03-too-many-keys.yaml":         good + "env: {" + strings.Repeat("K: v,", 1001) + "}",
		"05-aliases-of-many-nodes.yaml": good + "x: &x [" + strings.Repeat("y,", 5000) + "]\nz: [*x, *x]",
		"34-too-many-steps.yaml":        "steps:\n" + steps.String(),
		"48a-nested-200000-deep.yaml":   "steps: {a: {run: '" + strings.Repeat("{{if true}}", 20_000) + strings.Repeat("{{end}}", 20_000) + "'}}",
		"55a-too-many-items.yaml":       "steps: {a: {foreach: [" + strings.Repeat("1,", 10_001) + "], run: x}}\n",
	}
}

// TestBadInput gives every bad input to flow validate and to flow run, as a user would. Both say
// the same about it, with a place and a hint, and nothing of it is recorded. What is only wrong
// when it is rendered, or not at all, is run.
func TestBadInput(t *testing.T) {
	t.Parallel()
	dir := badInputDir(t)
	files, err := filepath.Glob(filepath.Join(dir, "[0-9][0-9]*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[int]bool{}
	for row, script := range otherBadInput() {
		rows[row] = hasTest(t, "cmd/flow", script)
	}
	for _, file := range files {
		name := filepath.Base(file)
		var row int
		if _, err := fmt.Sscanf(name, "%2d", &row); err != nil {
			t.Fatal(err)
		}
		rows[row] = true
		t.Run(strings.TrimSuffix(name, ".yaml"), func(t *testing.T) {
			t.Parallel()
			checkBadInput(t, dir, name)
		})
	}
	for row := 1; row <= badInputRows; row++ {
		if !rows[row] {
			t.Errorf("row %d has no file and no script", row)
		}
	}
}

// badInputDir is a directory with the files, and with what a pipeline had better not name.
func badInputDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	err := errors.Join(
		os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "badinput"))),
		write("binary", "a\x00b"),
		write("large", strings.Repeat("x", 300<<10)),
		os.Mkdir(filepath.Join(dir, "sub"), 0o700),
		os.Symlink("/etc/passwd", filepath.Join(dir, "link")),
		syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600),
		write("c12.yaml", "steps: {a: {run: x}}\n"),
	)
	for i := range 12 { // a chain of calls
		err = errors.Join(err, write(fmt.Sprintf("c%d.yaml", i), fmt.Sprintf("steps: {a: {pipeline: c%d.yaml}}\n", i+1)))
	}
	for name, text := range largeBadInput() {
		err = errors.Join(err, write(name, text))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// checkBadInput holds what flow says about a file against testdata/badinput/NAME.golden.
func checkBadInput(t *testing.T, dir, name string) {
	t.Helper()
	r := crashRun{dir: dir, id: "bad"}
	state := t.TempDir()
	validated := r.said(t, state, "validate", name)
	ran := r.said(t, state, "run", name, "--simulate", "--no-input", "-q", "--run-id", "bad")
	got := validated
	if strings.HasSuffix(validated, "exit 2\n") {
		checkRefused(t, name, validated, ran, state)
	} else {
		got += "\n" + ran
	}
	golden := filepath.Join("testdata", "badinput", strings.TrimSuffix(name, ".yaml")+".golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("after a look, go test -update (-want +got):\n%s", diff)
	}
}

// checkRefused is that a mistake has a place in the file, that flow run says the same as flow
// validate, and that there is no run.
func checkRefused(t *testing.T, name, validated, ran, state string) {
	t.Helper()
	if place := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `:[1-9]\d*:[1-9]\d*: `); !place.MatchString(validated) {
		t.Errorf("no place is named:\n%s", validated)
	}
	_, said, _ := strings.Cut(validated, "\n")
	if _, also, _ := strings.Cut(ran, "\n"); also != said {
		t.Errorf("flow run says something else (-validate +run):\n%s", cmp.Diff(said, also))
	}
	if runs, err := os.ReadDir(filepath.Join(state, "runs")); !errors.Is(err, fs.ErrNotExist) && len(runs) > 0 {
		t.Errorf("there are runs: %v %v", runs, err)
	}
}

// said is a command line of flow, what it prints, and its exit status. A minute is more than
// any bad input may take.
func (r crashRun) said(t *testing.T, state string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	like := r.command(args...)
	cmd := exec.CommandContext(ctx, like.Path, args...)
	cmd.Dir, cmd.Env = like.Dir, slices.Concat(like.Env, []string{"FLOW_STATE_DIR=" + state})
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && (cmd.ProcessState == nil || !cmd.ProcessState.Exited()) {
		t.Fatalf("flow %s: %v", args, err)
	}
	text := regexp.MustCompile(`(?m)^(run \w+ failed in ).*$`).ReplaceAllString(out.String(), "${1}…")
	return fmt.Sprintf("$ flow %s\n%sexit %d\n", strings.Join(args, " "), text, cmd.ProcessState.ExitCode())
}
