package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestEnvironmentIsPrivate: what an ordinary user's flow starts cannot read secrets from the
// environment of flow, or of its guardian, that it was not given.
func TestEnvironmentIsPrivate(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	const uid = 54321
	dir := t.TempDir()
	bin, err := exec.LookPath("flow")
	if err == nil {
		err = os.Chmod(filepath.Dir(dir), 0o755) // so that the other user reaches it
	}
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "flow")
	data, err := os.ReadFile(bin)
	if err == nil {
		err = os.WriteFile(own, data, 0o755)
	}
	pipeline := []byte("steps:\n  look: {run: 'cat /proc/[0-9]*/environ 2>/dev/null | tr \"\\0\" \"\\n\"; echo looked'}\n  apart: {run: echo apart, sandbox: {mode: workspace-write, network: off}}\n")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "look.yaml"), pipeline, 0o644)
	}
	for _, path := range []string{dir, own, filepath.Join(dir, "look.yaml")} {
		if err == nil {
			err = os.Chown(path, uid, uid)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(own, "run", "look.yaml", "-o", "json")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "FLOW_CONFIG=none", "NOT_GIVEN=to-what-flow-starts"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("looked")) {
		t.Fatalf("%v\n%s", err, out)
	}
	if bytes.Contains(out, []byte("to-what-flow-starts")) {
		t.Errorf("a process that flow started has read its environment:\n%s", out)
	}
}
