package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fullRun makes a finished run with everything that this package checks, about 24 KiB of journal.
func fullRun(t *testing.T, s *Store, id string) {
	t.Helper()
	r := createRun(t, s, id)
	pad := strings.Repeat("x", 700)
	for i := range 30 {
		must(t, r.Append(t.Context(), "fact", map[string]any{"n": i, "pad": pad}, false))
		must(t, r.AppendEvents(fmt.Appendf(nil, "{\"seq\":%d}\n", i+1)))
		must(t, r.AppendAudit(fmt.Appendf(nil, "{\"n\":%d}\n", i)))
	}
	for _, text := range []string{"one", "two"} {
		_, err := r.PutBlob([]byte(text))
		must(t, err)
	}
	must(t, os.WriteFile(filepath.Join(r.Dir(), r.AttemptPath("a.1.1", "stdout")), []byte("out\n"), fileMode))
	must(t, r.Finish("succeeded"))
	closeRun(t, r)
}

// keepAll selects all that is whole.
func keepAll(from *Salvage) Selection {
	return Selection{
		Records: len(from.Records()),
		Event:   func([]byte) bool { return true },
		Attempt: func(string) bool { return true },
	}
}

func harmful(found []Finding) []Finding {
	return slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return f.Harmless })
}

func TestAGoodRunHasNoFindings(t *testing.T) {
	s := openStore(t)
	fullRun(t, s, "a")
	v, found := s.CheckRun("a")
	if v == nil || len(found) > 0 {
		t.Errorf("%v", found)
	}
	if found, err := s.Check(); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// prefixOf fails unless got is the beginning of want.
func prefixOf(t *testing.T, got, want []Record) {
	t.Helper()
	if len(got) == 0 || len(got) > len(want) {
		t.Fatalf("%d records of %d", len(got), len(want))
	}
	for i, r := range got {
		if r.Seq != want[i].Seq || r.Type != want[i].Type || !bytes.Equal(r.Data, want[i].Data) || !r.Time.Equal(want[i].Time) {
			t.Fatalf("record %d is %+v, was %+v", i+1, r, want[i])
		}
	}
}

// TestEveryCutOfTheJournal: whatever is missing at the end, a check says so, or all records
// before it are there, and the list of runs misses its end. What can be salvaged is the same.
func TestEveryCutOfTheJournal(t *testing.T) {
	s := openStore(t)
	fullRun(t, s, "a")
	name := filepath.Join(s.RunDir("a"), journalFile)
	whole := mustRead(t, name)
	want, _, err := scanJournal(whole)
	must(t, err)
	for size := range len(whole) {
		if size > 600 && size < len(whole)-200 && size%997 != 0 && whole[size-1] != '\n' {
			continue // all of the first and last records, all borders, and some between
		}
		mustWrite(t, name, whole[:size])
		v, found := s.CheckRun("a")
		if v != nil {
			prefixOf(t, v.Records(), want)
			index, err := s.Check()
			must(t, err)
			if len(harmful(index)) == 0 {
				t.Fatalf("cut at %d: nobody misses the end", size)
			}
		} else if len(harmful(found)) == 0 {
			t.Fatalf("cut at %d: the run cannot be read, and the check is silent", size)
		}
		if atLine := size == 0 || whole[size-1] == '\n'; !atLine && len(found) == 0 {
			t.Fatalf("cut at %d: the torn line is not mentioned", size)
		}
		from, err := ReadSalvage(s.RunDir("a"))
		must(t, err)
		prefixOf(t, from.Records(), want)
		if n := max(1, bytes.Count(whole[:size], []byte("\n"))); len(from.Records()) != n {
			t.Fatalf("cut at %d: %d records were salvaged of %d", size, len(from.Records()), n)
		}
	}
}

// TestEveryPageOfTheJournal damages one page after the other, in several ways: the check finds
// it, and the repaired run opens, has all records before the page, and goes on.
func TestEveryPageOfTheJournal(t *testing.T) {
	s := openStore(t)
	fullRun(t, s, "a")
	name := filepath.Join(s.RunDir("a"), journalFile)
	whole := mustRead(t, name)
	want, _, err := scanJournal(whole)
	must(t, err)
	const page = 4096
	for at := 0; at < len(whole); at += page {
		end := min(at+page, len(whole))
		for kind, damage := range map[string]func([]byte) []byte{
			"zeros":   func(b []byte) []byte { clear(b[at:end]); return b },
			"garbage": func(b []byte) []byte { copy(b[at:end], bytes.Repeat([]byte("\xff\x00\n{"), page)); return b },
			"missing": func(b []byte) []byte { return slices.Delete(b, at, end) },
			"twice":   func(b []byte) []byte { return slices.Insert(b, at, slices.Clone(b[at:end])...) },
			"cut":     func(b []byte) []byte { return b[:at] },
		} {
			t.Run(fmt.Sprintf("%s at %d", kind, at), func(t *testing.T) {
				mustWrite(t, name, damage(slices.Clone(whole)))
				before := snapshot(t, s.RunDir("a"))
				_, found := s.CheckRun("a")
				if len(found) == 0 {
					t.Error("not found")
				}
				from, err := ReadSalvage(s.RunDir("a"))
				must(t, err)
				prefixOf(t, from.Records(), want)
				if n := bytes.Count(whole[:at], []byte("\n")); len(from.Records()) < n {
					t.Errorf("%d records were salvaged of %d", len(from.Records()), n)
				}
				reopens(t, from, want)
				if snapshot(t, s.RunDir("a")) != before {
					t.Error("the damaged run was changed")
				}
			})
		}
	}
}

// reopens restores a run elsewhere, checks it, and goes on with it.
func reopens(t *testing.T, from *Salvage, want []Record) {
	t.Helper()
	to := openStoreIn(t, filepath.Join(t.TempDir(), "fixed"))
	lost, err := to.Restore(from, keepAll(from))
	must(t, err)
	if len(lost) == 0 && len(from.Records()) < len(want)-1 {
		t.Error("it is not said what is lost")
	}
	v, found := to.CheckRun("a")
	if v == nil || len(found) > 0 {
		t.Fatalf("the repaired run: %v", found)
	}
	prefixOf(t, v.Records(), want)
	if found, err := to.Check(); err != nil || len(found) > 0 {
		t.Errorf("the new state directory: %v, %v", found, err)
	}
	r := openRun(t, to, "a")
	appendFacts(t, r, 1, true)
	must(t, r.Finish("succeeded"))
	closeRun(t, r)
}

// TestCheckFinds makes one fault after the other.
func TestCheckFinds(t *testing.T) {
	blob := blobRef([]byte("one"))[len(blobScheme):]
	blobFile := "blobs/sha256/" + blob[:2] + "/" + blob[2:]
	appendTo := func(text string) func(*testing.T, string) {
		return func(t *testing.T, name string) { t.Helper(); mustWrite(t, name, append(mustRead(t, name), text...)) }
	}
	become := func(put func(string) error) func(*testing.T, string) {
		return func(t *testing.T, name string) { t.Helper(); must(t, os.RemoveAll(name)); must(t, put(name)) }
	}
	link := become(func(name string) error { return os.Symlink("/etc/passwd", name) })
	remove := func(t *testing.T, name string) { t.Helper(); must(t, os.RemoveAll(name)) }
	mode := func(m os.FileMode) func(*testing.T, string) {
		return func(t *testing.T, name string) { t.Helper(); must(t, os.Chmod(name, m)) }
	}
	tests := []struct {
		name, file string
		damage     func(*testing.T, string)
		want       string
	}{
		{"another blob", blobFile, appendTo("x"), "do not match the name"},
		{"a strange blob", "blobs/sha256/zz", become(func(n string) error { return os.WriteFile(n, nil, 0o600) }), "no name of a blob"},
		{"a garbled event", eventsFile, appendTo("\x00\x00\n{\"seq\":32}\n"), "1 lines are no JSON objects"},
		{"an event that is a list", eventsFile, appendTo("[]\n"), "1 lines are no JSON objects"},
		{"no events", eventsFile, remove, "no such file"},
		{"a garbled decision", auditFile, appendTo("{\n"), "1 lines are no JSON objects"},
		{"linked events", eventsFile, link, "symbolic link"},
		{"a linked header", headerFile, link, "symbolic link"},
		{"a linked blob", blobFile, link, "symbolic link"},
		{"a linked attempt", "attempts/a.1.1.stdout", link, "symbolic link"},
		{"a directory for a journal", journalFile, become(func(n string) error { return os.Mkdir(n, 0o700) }), "not a regular file"},
		{"an open file", "attempts/a.1.1.stdout", mode(0o640), "chmod 600"},
		{"an open directory", "blobs", mode(0o711), "chmod 700"},
		{"an open run", ".", mode(0o755), "chmod 700"},
		{"no header", headerFile, remove, "missing"},
		{"another header", headerFile, become(func(n string) error {
			return os.WriteFile(n, []byte(`{"format":1,"id":"b"}`), 0o600)
		}), "first record must be that of the creation of run b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openStore(t)
			fullRun(t, s, "a")
			tt.damage(t, filepath.Join(s.RunDir("a"), tt.file))
			_, found := s.CheckRun("a")
			bad := harmful(found)
			if text := fmt.Sprint(bad); len(bad) == 0 || !strings.Contains(text, tt.want) {
				t.Errorf("%v", found)
			}
			for _, f := range found {
				if f.Path == "" || f.What == "" || f.Hint == "" {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

func TestCheckOfARunUnderWay(t *testing.T) {
	s := openStore(t)
	r := createRun(t, s, "a")
	appendFacts(t, r, 2, true)
	mustWrite(t, filepath.Join(r.Dir(), eventsFile), []byte(`{"seq":1`))
	if _, found := s.CheckRun("a"); len(found) > 0 {
		t.Errorf("a line in the making was reported: %v", found)
	}
	if found, err := s.Check(); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	_, err := ReadSalvage(r.Dir())
	if _, ok := errors.AsType[*LockedError](err); !ok {
		t.Errorf("salvaged under the hands of its owner: %v", err)
	}
}

func TestCheckOfWhatIsBesideTheRuns(t *testing.T) {
	s := openStore(t)
	fullRun(t, s, "a")
	must(t, os.Symlink(s.RunDir("a"), s.RunDir("linked")))
	must(t, os.WriteFile(s.path(runsDir, "a file"), nil, 0o600))
	must(t, os.Chmod(s.path(runsDir), 0o755))
	found, err := s.Check()
	must(t, err)
	text := fmt.Sprint(found)
	for _, want := range []string{"linked: a symbolic link", "a file: this is no run", "runs: others have access"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing in %s", want, text)
		}
	}
}

// TestRestoreSelects: what is whole but not selected stays aside.
func TestRestoreSelects(t *testing.T) {
	s := openStore(t)
	fullRun(t, s, "a")
	from, err := ReadSalvage(s.RunDir("a"))
	must(t, err)
	keep := keepAll(from)
	keep.Records = 3
	keep.Attempt = func(string) bool { return false }
	keep.Event = func(line []byte) bool {
		var e struct {
			Seq int `json:"seq"`
		}
		return json.Unmarshal(line, &e) == nil && e.Seq < 3
	}
	to := openStoreIn(t, filepath.Join(t.TempDir(), "fixed"))
	lost, err := to.Restore(from, keep)
	must(t, err)
	if !strings.Contains(fmt.Sprint(lost), "behind record 3") {
		t.Errorf("lost: %v", lost)
	}
	v, err := to.Read("a")
	must(t, err)
	if got := typesOf(v.Records()); got != "created fact fact" {
		t.Errorf("records: %s", got)
	}
	if got := eventsOf(t, v); len(got) != 2 {
		t.Errorf("events: %q", got)
	}
	for _, name := range []string{"lost/attempts/a.1.1.stdout", "lost/events.jsonl", "lost/journal.jsonl"} {
		if data, err := v.File(name); err != nil || len(data) == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := to.Restore(from, keep); !errors.Is(err, ErrExists) {
		t.Errorf("restored over a run: %v", err)
	}
	again, err := ReadSalvage(to.RunDir("a"))
	must(t, err)
	third := openStoreIn(t, filepath.Join(t.TempDir(), "third"))
	_, err = third.Restore(again, keepAll(again))
	must(t, err)
	if !exists(filepath.Join(third.RunDir("a"), "lost", "lost", "journal.jsonl")) {
		t.Error("what the first repair put aside is gone")
	}
}
