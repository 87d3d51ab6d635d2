package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestNoTemporary has no place for temporary files.
func TestNoTemporary(t *testing.T) {
	t.Parallel()
	r := gitRun(t, "homeless", "5m")
	full := filepath.Join(t.TempDir(), "full")
	for _, tmp := range []string{filepath.Join(full, "nowhere"), full} {
		if tmp == full {
			mountFull(t, full)
		}
		r.env = append(r.env, "TMPDIR="+tmp)
		r.finish(t, "run", r.pipeline, "--simulate")
		for _, command := range []string{"worktrees", "agents"} {
			sees(t, "44-no-tmpdir", r.exits(t, exitUsage, command))
		}
	}
}

// mountFull mounts a disk at dir that takes no more.
func mountFull(t *testing.T, dir string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a disk")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mountAt(t, "none", dir, "tmpfs", 0, "size=64k")
	if err := os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 128<<10), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
}

func mountAt(t *testing.T, source, dir, kind string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, dir, kind, flags, data); err != nil {
		t.Skipf("nothing can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// TestReadOnlyWorkspace has steps in a workspace that takes nothing.
func TestReadOnlyWorkspace(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can make a directory read-only for everybody")
	}
	r := gitRun(t, "readonly", "5m")
	writeText(t, filepath.Join(r.dir, r.pipeline), `
steps:
  reads: {run: cat pipeline.yaml, artifacts: [pipeline.yaml]}
  copied: {run: echo made >made, isolation: copy}
  tree: {run: echo made >made, isolation: worktree}
  script: {needs: [tree], if: always, run: echo made >made}
`)
	mountAt(t, r.dir, r.dir, "", unix.MS_BIND, "")
	if err := unix.Mount("", r.dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	out := r.exits(t, exitFailed, "run", r.pipeline, "--run-id", r.id)
	sees(t, "24a-read-only-workspace", out)
	for _, step := range []string{"✔ reads", "✔ copied"} {
		if !strings.Contains(out, step) {
			t.Errorf("no %q in\n%s", step, out)
		}
	}
	if err := unix.Mount("", r.dir, "", unix.MS_REMOUNT|unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	r.finish(t, "resume", r.id)
}

// TestNoRegularFiles puts what is no file in the place of every file that flow reads.
func TestNoRegularFiles(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "odd")
	for _, name := range oddFiles(t, r.dir) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range []struct {
				status int
				step   string
			}{
				{exitUsage, "{pipeline: ODD}"},
				{exitUsage, "{agent: claude, timeout: 5m, prompt-file: ODD}"},
				{exitUsage, "{set: {text: '{{ file `ODD` }}'}}"},
				{exitFailed, "{set: {text: '{{ file (lower `ODD`) }}'}}"},
				{0, "{agent: claude, timeout: 5m, prompt: x, cache: {key: '{{ file (lower `ODD`) }}'}}"},
			} {
				sees(t, "74a-socket-or-device", r.oddStep(t, c.status, name, c.step))
			}
			sees(t, "74a-socket-or-device", r.exits(t, exitUsage, "run", name))
			odd := r
			odd.env = append(odd.env, "FLOW_CONFIG="+filepath.Join(r.dir, name))
			sees(t, "74a-socket-or-device", odd.exits(t, exitUsage, "run", r.pipeline))
			if name != "directory" { // whose files would be meant
				sees(t, "74a-socket-or-device", r.oddStep(t, exitFailed, name, "{run: 'true', artifacts: [ODD]}"))
			}
		})
	}
}

// oddFiles makes what is no file, and returns the names.
func oddFiles(t *testing.T, dir string) []string {
	t.Helper()
	names := []string{"pipe", "socket", "directory"}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	const zero = 1<<8 | 5 // the number of /dev/zero
	if err := unix.Mknod(filepath.Join(dir, "device"), unix.S_IFCHR|0o600, zero); err == nil {
		names = append(names, "device")
	} else if os.Getuid() == 0 {
		t.Fatal(err)
	}
	return names
}

// oddStep runs a pipeline of one step, in which ODD is the name of what is no file.
func (r crashRun) oddStep(t *testing.T, status int, name, step string) string {
	t.Helper()
	f, err := os.CreateTemp(r.dir, "*.yaml")
	if err == nil {
		_, err = f.WriteString("steps:\n  a: " + strings.ReplaceAll(step, "ODD", name) + "\n")
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return r.exits(t, status, "run", f.Name(), "--simulate")
}
