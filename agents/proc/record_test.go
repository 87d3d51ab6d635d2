package proc

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "records")
	if got, err := ReadRecords(path); got != nil || err != nil {
		t.Fatalf("absent file: %v, %v", got, err)
	}
	first := Record{Label: "a.1", PID: 7, Code: 3, Time: time.Unix(1, 5).UTC()}
	second := Record{Label: "b.1", PID: 8, Code: -1, Signal: "KILL", EndedByGuardian: true, Time: time.Unix(2, 0).UTC()}
	if err := appendRecords(path, []Record{first}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"label":"torn","pi`)
	f.Close()
	want := []Record{first}
	for range 2 {
		got, err := ReadRecords(path)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
		if err := appendRecords(path, []Record{second}); err != nil {
			t.Fatal(err)
		}
		want = append(want, second)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := ReadRecords(t.TempDir()); err == nil {
		t.Error("a directory was read")
	}
}
