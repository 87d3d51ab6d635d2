package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// committing is a pipeline whose steps write a secret into workspaces of their own, and put a
// link to a directory outside in the place of one that git knows.
const committing = `
secrets: LEAK_TOKEN
env: {LEAK_TOKEN: "{{ .secrets.LEAK_TOKEN }}"}
agents:
  writer: {use: exec, command: [sh, -c, 'printf "%%s\n" "$LEAK_TOKEN" >written.txt; printf "KEY=%%s\n" "$LEAK_TOKEN" >>known.txt; echo "wrote $LEAK_TOKEN"']}
steps:
  write: {agent: writer, prompt: Write it., timeout: 1m, isolation: %[1]s}
  script:
    isolation: %[1]s
    run: |
      printf %%s "$LEAK_TOKEN" | base64 >encoded.txt
      rm -r dir
      ln -s '%[2]s' dir
  tell: {run: "echo {{ .steps.write.diff }}"}
`

// TestNoSecretIsCommitted: what steps write into workspaces of their own has no secret any
// more when it is committed, and none stands in any object of git, a message or a diff that
// flow keeps. Files outside of the workspace are left.
func TestNoSecretIsCommitted(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"worktree", "copy"} {
		t.Run(isolation, func(t *testing.T) {
			t.Parallel()
			r := newLeakRun(t, "committed", "")
			outside := filepath.Join(t.TempDir(), "file")
			putText(t, outside, leakKeys()["LEAK_TOKEN"])
			putText(t, filepath.Join(r.dir, r.pipeline), fmt.Sprintf(committing, isolation, filepath.Dir(outside)))
			putText(t, filepath.Join(r.dir, "known.txt"), "known\n")
			putText(t, filepath.Join(r.dir, "dir", "file"), "inside\n")
			if isolation == "worktree" {
				r.git(t, "init", "-q", "-b", "main")
				r.git(t, "add", ".")
				r.git(t, "commit", "-qm", "first")
			}
			r.checkCommitted(t, map[string][]byte{"run": r.says("run", r.pipeline, "--run-id", r.id, "-o", "json"), "events": r.says("events", r.id)})
			if text, err := os.ReadFile(outside); err != nil || string(text) != leakKeys()["LEAK_TOKEN"] {
				t.Errorf("a file outside of the workspace is %q, %v", text, err)
			}
		})
	}
}

// checkCommitted searches what flow has printed, its state, and all objects of git.
func (r crashRun) checkCommitted(t *testing.T, seen map[string][]byte) {
	t.Helper()
	seen["git"] = r.objects(t)
	for name, want := range map[string]string{"run": `+KEY=***`, "events": "written.txt holds the secret", "git": "KEY=***"} {
		if !bytes.Contains(seen[name], []byte(want)) {
			t.Errorf("%q is missing in:\n%s", want, seen[name])
		}
	}
	for name, text := range seen {
		if found := leaks(text); len(found) > 0 {
			t.Errorf("%s: %v:\n%s", name, found, text)
		}
	}
	for file, found := range r.leaked(t) {
		t.Errorf("%s holds %v", file, found)
	}
}

// objects are all objects of all repositories of the run: where it works, and in its state.
func (r crashRun) objects(t *testing.T) []byte {
	t.Helper()
	var all []byte
	for _, top := range []string{r.dir, r.state()} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == "objects" {
				all = append(all, r.git(t, "--git-dir", filepath.Dir(path), "cat-file", "--batch-all-objects", "--batch")+"\n"...)
				return fs.SkipDir
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func putText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
