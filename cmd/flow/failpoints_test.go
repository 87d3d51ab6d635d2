package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// failpoints are the names of the failpoints in flow's own source, by package. Those of the
// file operations are the kinds and groups that state/disk names.
func failpoints(t testing.TB) map[string][]string {
	t.Helper()
	call := regexp.MustCompile(`failpoint\.(?:Reach|Fail)\("([^"]*)"\)`)
	operation := regexp.MustCompile(`= "(disk(?:-[a-z]+)?)"\n`)
	found := map[string][]string{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), filepath.ToSlash(top)+"/")
		pattern := call
		if pkg == "state/disk" {
			pattern = operation
		}
		for _, m := range pattern.FindAllSubmatch(source, -1) {
			found[pkg] = append(found[pkg], string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestFailpoints is that the names of failpoints are written as they should be, that each is
// one place, that flow knows them all, and that docs/reliability.md lists them.
func TestFailpoints(t *testing.T) {
	name, seen := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`), map[string]string{}
	points := failpoints(t)
	var list, lines strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(points)) {
		slices.Sort(points[pkg])
		for _, point := range points[pkg] {
			if !name.MatchString(point) {
				t.Errorf("%s: %q is no name of a failpoint", pkg, point)
			}
			if other, again := seen[point]; again {
				t.Errorf("the failpoint %s is in %s and in %s", point, other, pkg)
			}
			seen[point] = pkg
		}
		fmt.Fprintf(&list, "- %s: %s\n", pkg, strings.Join(points[pkg], ", "))
		fmt.Fprintf(&lines, "\t\t%s\n", strings.Join(points[pkg], " "))
	}
	checkBelow(t, filepath.Join(top, "state", "failpoint", "names.go"), "strings.Fields(`\n", lines.String(), "\t`)")
	checkBelow(t, filepath.Join(top, "docs", "reliability.md"), "These are the points:\n\n", list.String(), "\n")
}

// checkBelow holds what a file has between head and foot, or its end, against want, or
// writes that.
func checkBelow(t *testing.T, file, head, want, foot string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, got, ok := strings.Cut(string(text), head)
	if !ok {
		t.Fatalf("%s has no line %q", file, head)
	}
	after := ""
	if end := strings.Index("\n"+got, "\n"+foot); end >= 0 {
		got, after = got[:end], got[end:]
	}
	switch diff := cmp.Diff(want, got); {
	case diff == "":
	case !*update:
		t.Errorf("%s: go test ./cmd/flow -run Failpoints -update\n%s", file, diff)
	default:
		if err := os.WriteFile(file, []byte(before+head+want+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
