package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestDefaultDir(t *testing.T) {
	tests := []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"FLOW_STATE_DIR": "here", "XDG_STATE_HOME": "/x", "HOME": "/h"}, "here"},
		{map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/flow"},
		{map[string]string{"XDG_STATE_HOME": "relative", "HOME": "/h"}, "/h/.local/state/flow"},
		{map[string]string{"HOME": ""}, ""},
	}
	for _, tt := range tests {
		got, err := DefaultDir(func(name string) string { return tt.env[name] })
		if got != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%v: %q, %v", tt.env, got, err)
		}
	}
}

func TestIDs(t *testing.T) {
	id := NewID(time.Date(2026, 11, 21, 13, 11, 22, 0, time.FixedZone("", 3600)))
	if !strings.HasPrefix(id, "20261121-121122-") || len(id) != 22 || CheckID(id) != nil {
		t.Errorf("%q", id)
	}
	good := []string{"a", "A1", "fix.2_b-c", strings.Repeat("x", 64)}
	bad := []string{
		"", ".", "..", ".a", "-rf", "_a", "a/b", "a b", "a\n", "a..b", "é", "a\x00",
		strings.Repeat("x", 65), "last", "latest",
	}
	for _, id := range good {
		if err := CheckID(id); err != nil {
			t.Error(err)
		}
	}
	for _, id := range bad {
		if CheckID(id) == nil {
			t.Errorf("%q was accepted", id)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	tests := []struct {
		name, hint string
		prepare    func(t *testing.T, dir string)
	}{
		{"symlink", "name the directory", func(t *testing.T, dir string) { must(t, os.Symlink(t.TempDir(), dir)) }},
		{"file", "FLOW_STATE_DIR", func(t *testing.T, dir string) { mustWrite(t, dir, nil) }},
		{"group-writable", "chmod 700 ", func(t *testing.T, dir string) { makeDir(t, dir, 0o770) }},
		{"world-writable", "chmod 700 ", func(t *testing.T, dir string) { makeDir(t, dir, 0o707) }},
		{"foreign", "FLOW_STATE_DIR", func(t *testing.T, dir string) {
			makeDir(t, dir, 0o700)
			if err := os.Chown(dir, 12345, -1); err != nil {
				t.Skipf("needs root: %v", err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			tt.prepare(t, dir)
			_, err := Open(dir)
			var e *Error
			if !errors.As(err, &e) || e.Path != dir || !strings.Contains(e.Hint, tt.hint) {
				t.Fatalf("%v", err)
			}
		})
	}
}

func TestOpenRefusesReadOnlyMount(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, "ro,size=1m")
	_, err := Open(filepath.Join(dir, "state"))
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, syscall.EROFS) || e.Hint == "" {
		t.Fatalf("%v", err)
	}
}

// TestBecameReadOnly remounts the file system of a run: everything can be read, and
// what would write says why it cannot.
func TestBecameReadOnly(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, "size=1m")
	s := openStoreIn(t, filepath.Join(dir, "state"))
	must(t, createRun(t, s, "a").Close())
	must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))

	s = openStoreIn(t, s.Dir())
	if _, err := s.Read("a"); err != nil {
		t.Error(err)
	}
	if list, err := s.Runs(0); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
	_, createErr := s.Create(Header{ID: "b"}, nil)
	_, openErr := s.OpenRun(t.Context(), "a")
	for _, err := range []error{createErr, openErr} {
		var e *Error
		if !errors.As(err, &e) || !errors.Is(err, syscall.EROFS) || !strings.Contains(e.Hint, "writable") {
			t.Errorf("%v", err)
		}
	}
}

// mount mounts a tmpfs of its own at dir, which takes root.
func mount(t *testing.T, dir, options string) {
	t.Helper()
	var flags uintptr
	if rest, ro := strings.CutPrefix(options, "ro,"); ro {
		flags, options = unix.MS_RDONLY, rest
	}
	if err := unix.Mount("none", dir, "tmpfs", flags, options); err != nil {
		t.Skipf("cannot mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
}

func TestModesWhateverTheUmask(t *testing.T) {
	for _, umask := range []int{0, 0o777} {
		old := syscall.Umask(umask)
		s := openStoreIn(t, filepath.Join(mkTemp(t), "state"))
		r := createRun(t, s, "a")
		_, err := r.PutBlob([]byte("x"))
		syscall.Umask(old)
		must(t, err)
		must(t, s.Reindex())
		checkModes(t, s.Dir())
	}
}

// mkTemp makes a directory that a umask does not make unusable.
func mkTemp(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	return dir
}

func checkModes(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		must(t, err)
		fi, err := d.Info()
		must(t, err)
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if fi.Mode().Perm() != want {
			t.Errorf("%s has mode %04o, want %04o", path, fi.Mode().Perm(), want)
		}
		return nil
	})
	must(t, err)
}

func TestOpenSweepsWhatACrashLeft(t *testing.T) {
	s := openStore(t)
	left := s.path(tempDir, "a.XYZ")
	makeDir(t, left, 0o700)
	mustWrite(t, filepath.Join(left, lockFile), nil)
	mustWrite(t, s.path(tempDir, "index-XYZ"), nil)
	busy := s.path(tempDir, "b.XYZ")
	lock, err := s.reserve(busy, "b")
	must(t, err)
	defer lock.Close()
	openStoreIn(t, s.Dir())
	if got := withPrefix(s.path(tempDir), ""); !slices.Equal(got, []string{busy}) {
		t.Errorf("left: %q", got)
	}
}

func makeDir(t *testing.T, dir string, mode fs.FileMode) {
	t.Helper()
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.Chmod(dir, mode))
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
