package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityPage is that every test that docs/SECURITY.md names as a proof is there.
func TestSecurityPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(top, "docs", "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| threat | what holds | shown by |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	proof := regexp.MustCompile("`([a-z/]+) ([A-Za-z0-9]+|[a-z_]+\\.txtar)`")
	rows := strings.Split(table, "\n")
	if len(rows) < 20 {
		t.Fatalf("%d rows: the table is not found", len(rows))
	}
	for _, row := range rows {
		cells := strings.Split(row, " | ")
		found := proof.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(found) == 0 {
			t.Errorf("nothing shows this: %s", row)
		}
		for _, f := range found {
			if !hasTest(t, f[1], f[2]) {
				t.Errorf("there is no %s in %s", f[2], f[1])
			}
		}
	}
}

// hasTest reports whether a package has a test function, or a script, of a name.
func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	if strings.HasSuffix(name, ".txtar") {
		_, err := os.Stat(filepath.Join(top, pkg, "testdata", "script", name))
		return err == nil
	}
	files, err := filepath.Glob(filepath.Join(top, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
