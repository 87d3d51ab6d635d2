package state

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func exported(tb testing.TB, s *Store, id string) []byte {
	tb.Helper()
	v, err := s.Read(id)
	must(tb, err)
	var b bytes.Buffer
	must(tb, v.Export(&b))
	return b.Bytes()
}

func TestExportAndImport(t *testing.T) {
	s := openStore(t)
	fullRun(t, s, "a")
	for _, dir := range []string{"worktrees/x", "workspaces", "scratch", "agents/claude/deep"} {
		must(t, os.MkdirAll(filepath.Join(s.RunDir("a"), dir), dirMode))
	}
	for _, name := range []string{"worktrees/x/f", "workspaces/x.json", "scratch/f", "agents/claude/deep/session", "blobs/tmp-x"} {
		mustWrite(t, filepath.Join(s.RunDir("a"), name), []byte("{}"))
	}
	must(t, os.Symlink("/etc/passwd", filepath.Join(s.RunDir("a"), "agents", "link")))
	archive := exported(t, s, "a")
	if !bytes.Equal(archive, exported(t, s, "a")) {
		t.Error("the same run gives different archives")
	}
	to := openStoreIn(t, filepath.Join(t.TempDir(), "other"))
	id, err := to.Import(bytes.NewReader(archive), DefaultImportLimits())
	if err != nil || id != "a" {
		t.Fatal(id, err)
	}
	if v, found := to.CheckRun("a"); v == nil || len(found) > 0 {
		t.Errorf("%v", found)
	}
	if found, err := to.Check(); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	for _, name := range []string{journalFile, eventsFile, auditFile, headerFile, "agents/claude/deep/session", "attempts/a.1.1.stdout"} {
		if !bytes.Equal(mustRead(t, filepath.Join(to.RunDir("a"), name)), mustRead(t, filepath.Join(s.RunDir("a"), name))) {
			t.Errorf("%s is another", name)
		}
	}
	for _, name := range []string{"worktrees", "workspaces", "scratch", "agents/link", "blobs/tmp-x"} {
		if exists(filepath.Join(to.RunDir("a"), name)) {
			t.Errorf("%s went along", name)
		}
	}
	if list := listed(t, to, 0); list != "a succeeded" {
		t.Errorf("listed: %s", list)
	}
	if _, err := to.Import(bytes.NewReader(archive), DefaultImportLimits()); !errors.Is(err, ErrExists) {
		t.Errorf("imported twice: %v", err)
	}
	closeRun(t, openRun(t, to, "a"))
}

// An archived is one entry of an archive that a test makes.
type archived struct {
	name string
	kind byte
	data string
	link string
}

func archiveOf(tb testing.TB, entries ...archived) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		must(tb, w.WriteHeader(&tar.Header{Name: e.name, Typeflag: e.kind, Size: int64(len(e.data)), Linkname: e.link, Mode: 0o4777}))
		_, err := w.Write([]byte(e.data))
		must(tb, err)
	}
	must(tb, w.Close())
	return b.Bytes()
}

// smallArchive is a run, with more entries behind what it must have.
func smallArchive(tb testing.TB, more ...archived) []byte {
	tb.Helper()
	h := Header{Format: Format, ID: "a"}
	first, err := firstRecord(h)
	must(tb, err)
	return archiveOf(tb, append([]archived{
		{name: "a/", kind: tar.TypeDir},
		{name: "a/run.json", kind: tar.TypeReg, data: `{"format":1,"id":"a","created":"0001-01-01T00:00:00Z"}`},
		{name: "a/journal.jsonl", kind: tar.TypeReg, data: string(first)},
		{name: "a/events.jsonl", kind: tar.TypeReg},
	}, more...)...)
}

func TestImportRefuses(t *testing.T) {
	file := func(name, data string) []byte {
		return smallArchive(t, archived{name: name, kind: tar.TypeReg, data: data})
	}
	kind := func(kind byte) []byte {
		return smallArchive(t, archived{name: "a/x", kind: kind, link: "/etc/passwd"})
	}
	good := smallArchive(t)
	tests := map[string]struct {
		archive []byte
		want    string
	}{
		"nothing":           {nil, "no tar archive"},
		"text":              {bytes.Repeat([]byte("text "), 1000), "no tar archive"},
		"no directory":      {archiveOf(t, archived{name: "run.json", kind: tar.TypeReg}), "must begin with the directory"},
		"a hidden run":      {archiveOf(t, archived{name: ".a/", kind: tar.TypeDir}), "must begin with the directory"},
		"a path for a run":  {archiveOf(t, archived{name: "../a/", kind: tar.TypeDir}), "must begin with the directory"},
		"an absolute name":  {file("/etc/passwd", ""), "leads out"},
		"another directory": {file("b/run.json", ""), "leads out"},
		"dots":              {file("a/../b", ""), "leads out"},
		"inner dots":        {file("a/attempts/../../b", ""), "leads out"},
		"double slashes":    {file("a//x", ""), "leads out"},
		"a symbolic link":   {kind(tar.TypeSymlink), "neither a file nor a directory"},
		"a hard link":       {kind(tar.TypeLink), "neither a file nor a directory"},
		"a device":          {kind(tar.TypeChar), "neither a file nor a directory"},
		"a pipe":            {kind(tar.TypeFifo), "neither a file nor a directory"},
		"a lock":            {file("a/lock", ""), "no such file belongs"},
		"a workspace":       {file("a/workspaces/x.json", "{}"), "no such file belongs"},
		"a hidden file":     {file("a/.hidden", ""), "no such file belongs"},
		"a file twice":      {file("a/run.json", ""), "twice"},
		"no directory of it": {
			file("a/attempts/x", ""), "does not have its directory",
		},
		"a wrong blob": {smallArchive(t, archived{name: "a/blobs/", kind: tar.TypeDir}, archived{name: "a/blobs/sha256/", kind: tar.TypeDir},
			archived{name: "a/blobs/sha256/ab/", kind: tar.TypeDir}, archived{name: "a/blobs/sha256/ab/" + strings.Repeat("0", 62), kind: tar.TypeReg}), "do not match"},
		"a garbled audit log": {file("a/audit.jsonl", "x\n"), "no JSON objects"},
		"too much":            {file("a/big", strings.Repeat("x", 5000)), "too large"},
		"too many": {smallArchive(t, archived{name: "a/1", kind: tar.TypeReg}, archived{name: "a/2", kind: tar.TypeReg},
			archived{name: "a/3", kind: tar.TypeReg}, archived{name: "a/4", kind: tar.TypeReg}, archived{name: "a/5", kind: tar.TypeReg}), "too many files"},
		"the end is missing":  {good[:1600], "the archive"},
		"a journal of others": {bytes.Replace(good, []byte(`"id":"a","created"`), []byte(`"id":"b","created"`), 1), "first record"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			_, err := s.Import(bytes.NewReader(tt.archive), ImportLimits{Bytes: 4000, Files: 7})
			var e *Error
			if !errors.As(err, &e) || e.Hint == "" || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v", err)
			}
			nothingTakenIn(t, s)
		})
	}
	s := openStore(t)
	if _, err := s.Import(bytes.NewReader(good), ImportLimits{Bytes: 4000, Files: 7}); err != nil {
		t.Errorf("the archive that the others are made of: %v", err)
	}
}

// nothingTakenIn fails if an import that was refused left anything.
func nothingTakenIn(t *testing.T, s *Store) {
	t.Helper()
	if left := append(withPrefix(s.path(tempDir), ""), withPrefix(s.path(runsDir), "")...); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// FuzzImport: whatever an archive says, it writes nothing but files and directories into the
// one it is given, and what it does not refuse is a run that checks.
func FuzzImport(f *testing.F) {
	f.Add(smallArchive(f))
	f.Add(smallArchive(f, archived{name: "a/attempts/", kind: tar.TypeDir}, archived{name: "a/attempts/x.1.1.stdout", kind: tar.TypeReg, data: "x"}))
	f.Add(smallArchive(f, archived{name: "a/../../x", kind: tar.TypeReg, data: "x"}))
	f.Add(smallArchive(f, archived{name: "a/x", kind: tar.TypeSymlink, link: "/"}))
	f.Fuzz(func(t *testing.T, data []byte) {
		top := t.TempDir()
		dir := filepath.Join(top, "run")
		must(t, mkdir(dir))
		in := importer{tar: tar.NewReader(bytes.NewReader(data)), limits: ImportLimits{Bytes: 1 << 20, Files: 100}}
		_, err := in.begin()
		if err == nil {
			err = in.fill(dir) // without the syncs of Import: they take most of the time
		}
		if err == nil {
			_, err := ReadRun(dir)
			must(t, err)
		}
		must(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			must(t, err)
			if !d.IsDir() && !d.Type().IsRegular() {
				t.Errorf("%s is a %s", path, d.Type())
			}
			return nil
		}))
		if entries, err := os.ReadDir(top); err != nil || len(entries) != 1 {
			t.Errorf("outside of the directory: %v, %v", entries, err)
		}
	})
}

func TestRemove(t *testing.T) {
	s := openStore(t)
	fullRun(t, s, "a")
	fullRun(t, s, "b")
	locked := filepath.Join(s.RunDir("a"), "agents", "closed")
	must(t, os.MkdirAll(filepath.Join(locked, "x"), dirMode))
	must(t, os.Chmod(locked, 0o500))
	must(t, s.Remove(openRun(t, s, "a")))
	if exists(s.RunDir("a")) || len(withPrefix(s.path(tempDir), "")) > 0 {
		t.Error("something is left")
	}
	if list := listed(t, s, 0); list != "b succeeded" {
		t.Errorf("listed: %s", list)
	}
	if found, err := s.Check(); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
	fullRun(t, s, "a") // the id can be used again
}
