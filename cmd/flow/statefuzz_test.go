package main

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// outsideSecret is what nothing that reads a run may come across.
const outsideSecret = "a-secret-beside-the-state-directory"

// FuzzState has somebody else write a run: a file of a good one is changed anywhere, the
// journal with its checksums made right again. Whatever reads runs then shows it, finds it
// damaged or refuses it, and neither crashes, nor reads or writes anywhere else, nor takes
// memory without bound. A replay, which executes the plan but starts nothing, is among it.
func FuzzState(f *testing.F) {
	from := filepath.Join("testdata", "state", "format-1", "runs")
	files := runFiles(f, from)
	seed := func(name string, at uint16, cut uint8, data string) {
		i := slices.Index(files, filepath.FromSlash(name))
		if i < 0 {
			f.Fatalf("there is no %s", name)
		}
		f.Add(uint16(i), at, cut, []byte(data), true)
	}
	for _, run := range []string{"done", "waits", "killed"} {
		seed(run+"/journal.jsonl", 0, 0, "")
		seed(run+"/journal.jsonl", 300, 9, `"path":"../../../../outside"`)
		seed(run+"/plan.json", 100, 20, `"steps":null`)
		seed(run+"/run.json", 40, 4, `"../../../../outside"`)
		seed(run+"/inputs.json", 0, 255, "[]")
		seed(run+"/events.jsonl", 60, 30, `"native":{"file":"../../outside/secret"}`)
	}
	f.Fuzz(func(t *testing.T, file, at uint16, cut uint8, data []byte, reseal bool) {
		name := files[int(file)%len(files)]
		top := t.TempDir()
		home := filepath.Join(top, "state")
		copyRuns(t, from, filepath.Join(home, "runs"))
		outside := filepath.Join(top, "outside")
		put(t, filepath.Join(outside, "secret"), []byte(outsideSecret))
		changed := filepath.Join(home, "runs", name)
		old, err := os.ReadFile(changed)
		if err != nil {
			t.Fatal(err)
		}
		begin := int(at) % (len(old) + 1)
		end := min(len(old), begin+int(cut))
		text := slices.Concat(old[:begin], data, old[end:])
		if reseal && filepath.Base(name) == "journal.jsonl" {
			text = resealed(text)
		}
		put(t, changed, text)
		run, _, _ := strings.Cut(name, string(filepath.Separator))
		readEverything(t, top, run)
		entries, err := os.ReadDir(outside)
		if err != nil || len(entries) != 1 {
			t.Errorf("outside: %v, %v", entries, err)
		}
	})
}

// runFiles are the files below a directory, without those that are never read.
func runFiles(f *testing.F, dir string) (files []string) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != "lock" && !strings.Contains(path, "simulated") {
			rel, _ := filepath.Rel(dir, path)
			files = append(files, rel)
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return files
}

func copyRuns(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(filepath.Dir(to), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// resealed gives the lines of a journal the checksums that they should have.
func resealed(journal []byte) []byte {
	lines := bytes.SplitAfter(journal, []byte("\n"))
	for i, line := range lines {
		if at := bytes.LastIndex(line, []byte(`,"sum":"`)); at >= 0 {
			sum := crc32.Checksum(line[:at], crc32.MakeTable(crc32.Castagnoli))
			lines[i] = fmt.Appendf(nil, "%s,\"sum\":\"%08x\"}\n", line[:at], sum)
		}
	}
	return bytes.Join(lines, nil)
}

// readEverything has flow do with a run all that reads it.
func readEverything(t *testing.T, top, run string) {
	archive := filepath.Join(top, "run.tar")
	for _, command := range [][]string{
		{"runs"},
		{"show", run, "-o", "json"},
		{"events", run, "-o", "json"},
		{"audit", run},
		{"output", run, "agent"},
		{"sessions", run, "-o", "json"},
		{"artifacts", run},
		{"graph", run},
		{"state", "check"},
		{"state", "export", run, "-o", archive},
		{"state", "repair", run, "--to", filepath.Join(top, "repaired")},
		{"state", "reindex"},
		{"run", "--replay", run, "-o", "json"},
		{"run", "--replay", archive},
		{"--state-dir", filepath.Join(top, "elsewhere"), "state", "import", archive},
	} {
		var out bytes.Buffer
		a := &app{
			stdin: strings.NewReader(""), stdout: &out, stderr: &out, now: time.Now,
			getenv: func(name string) string {
				return map[string]string{"FLOW_STATE_DIR": filepath.Join(top, "state"), "HOME": top}[name]
			},
			environ: func() []string { return []string{"PATH=/nowhere", "HOME=" + top} },
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		code := a.main(command)
		runtime.ReadMemStats(&after)
		if bytes.Contains(out.Bytes(), []byte(outsideSecret)) {
			t.Errorf("%q read what is outside of the run", command)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 {
			t.Errorf("%q took %d MiB", command, used>>20)
		}
		if code != 0 && out.Len() == 0 {
			t.Errorf("%q ends with status %d and says nothing", command, code)
		}
	}
}
