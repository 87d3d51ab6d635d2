package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAudit(t *testing.T) {
	s := openStore(t)
	r := createRun(t, s, "a")
	if err := r.AppendAudit([]byte("no line")); err == nil {
		t.Error("text that is no line was taken")
	}
	var none []string
	if err := r.Audit(collect(&none)); err != nil || none != nil {
		t.Errorf("%q, %v", none, err)
	}
	for _, line := range []string{"one\n", "two\n"} {
		if err := r.AppendAudit([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(r.Dir(), auditFile)
	closeRun(t, r)
	mustWrite(t, name, []byte("one\ntwo\nthr")) // a torn tail
	r = openRun(t, s, "a")
	if err := r.AppendAudit([]byte("three\n")); err != nil {
		t.Fatal(err)
	}
	var got []string
	if err := r.Audit(collect(&got)); err != nil || strings.Join(got, " ") != "one two three" {
		t.Errorf("%q, %v", got, err)
	}
	closeRun(t, r)
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func collect(into *[]string) func([]byte) error {
	return func(line []byte) error {
		*into = append(*into, string(line))
		return nil
	}
}
