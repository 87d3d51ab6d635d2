package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	"gopkg.in/yaml.v3"
)

// A fault is a row of docs/reliability.md. It stands in testdata/faults/NAME.yaml, where
// NAME begins with the number of the row.
type fault struct {
	Fault   string   `yaml:"fault"`   // what goes wrong
	Happens string   `yaml:"happens"` // what flow does then
	Sees    string   `yaml:"sees"`    // what the user then reads; "…" stands for anything
	Shown   []string `yaml:"shown"`   // the tests that prove it: "cmd/flow TestName" or "cmd/flow name.txtar"
}

func readFault(name string) (f fault, err error) {
	data, err := os.ReadFile(filepath.Join("testdata", "faults", name+".yaml"))
	if err != nil {
		return f, err
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		return f, fmt.Errorf("%s: %w", name, err)
	}
	if f.Fault == "" || f.Happens == "" || f.Sees == "" || len(f.Shown) == 0 {
		return f, fmt.Errorf("%s: fault, happens, sees and shown must be there", name)
	}
	return f, nil
}

// seen is an error unless the text holds what the row promises that the user sees.
func (f fault) seen(text string) error {
	parts := strings.Split(f.Sees, "…")
	for i, p := range parts {
		parts[i] = regexp.QuoteMeta(p)
	}
	if !regexp.MustCompile(strings.Join(parts, `(?s:.*?)`)).MatchString(text) {
		return fmt.Errorf("after %q the user does not see %q but\n%s", f.Fault, f.Sees, text)
	}
	return nil
}

// sees fails the test unless what the user got (standard output and error) holds what the
// row of docs/reliability.md promises.
func sees(t testing.TB, name, text string) {
	t.Helper()
	f, err := readFault(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.seen(text); err != nil {
		t.Error(err)
	}
}

// seesCommand is the same for the last command of a script: sees 23-disk-full
func seesCommand(ts *testscript.TestScript, _ bool, args []string) {
	f, err := readFault(args[0]) // the script has another directory, this process has not
	ts.Check(err)
	ts.Check(f.seen(ts.ReadFile("stdout") + ts.ReadFile("stderr")))
}

// TestReliabilityPage is that docs/reliability.md has the rows of testdata/faults, and that
// each is asserted by the tests that it names.
func TestReliabilityPage(t *testing.T) {
	names, err := filepath.Glob(filepath.Join("testdata", "faults", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, path := range names {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		f, err := readFault(name)
		if err != nil {
			t.Fatal(err)
		}
		number, _, _ := strings.Cut(name, "-")
		var shown []string
		for _, s := range f.Shown {
			pkg, test, _ := strings.Cut(s, " ")
			if !hasTest(t, pkg, test) {
				t.Errorf("%s: there is no %s in %s", name, test, pkg)
			}
			shown = append(shown, "`"+s+"`")
		}
		if !assertsSight(t, name) {
			t.Errorf("%s: no test asserts what the user sees: call sees(t, %q, output)", name, name)
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s |\n", strings.TrimLeft(number, "0"), f.Fault, tableCell(f.Happens), "`"+strings.ReplaceAll(tableCell(strings.TrimRight(f.Sees, "\n")), "<br>", "`<br>`")+"`", strings.Join(shown, "<br>"))
	}
	checkTable(t, filepath.Join(top, "docs", "reliability.md"), table.String())
}

// tableCell is text in a cell of a table: on one line of the page.
func tableCell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", "<br>").Replace(text)
}

// checkTable holds the rows below the page's table head against those wanted, or writes them.
func checkTable(t *testing.T, file, rows string) {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const head = "| | fault | what flow does | what the user sees | shown by |\n|---|---|---|---|---|\n"
	before, rest, found := strings.Cut(string(page), head)
	got, after, _ := strings.Cut(rest, "\n\n")
	if !found {
		t.Fatalf("%s has no table with the head\n%s", file, head)
	}
	diff := cmp.Diff(rows, got+"\n")
	if diff == "" {
		return
	}
	if !*update {
		t.Fatalf("%s is not what testdata/faults says; go test ./cmd/flow -run ReliabilityPage -update\n%s", file, diff)
	}
	if err := os.WriteFile(file, []byte(before+head+rows+"\n"+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// assertsSight reports whether a test of this package, or a script, has the name of a row.
func assertsSight(t *testing.T, name string) bool {
	t.Helper()
	for _, pattern := range []string{"*_test.go", filepath.Join("testdata", "script", "*.txtar")} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(data, []byte(`"`+name+`"`)) || bytes.Contains(data, []byte("sees "+name+"\n")) {
				return true
			}
		}
	}
	return false
}
