package steps

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

// TestPrepare: what the agent's command makes of its files is there afterwards, and
// nothing else of what it was shown.
func TestPrepare(t *testing.T) {
	home, scratch := filepath.Join(t.TempDir(), "a [home]"), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := putFile(scratch, agents.File{Path: filepath.Join(home, name), Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	none := &agents.Preparation{Read: "chats/s-*", Make: func(files []agents.File) []agents.File { return files }}
	if err := prepare(scratch, home, none); err != nil {
		t.Errorf("a home that is not there: %v", err)
	}
	for name, text := range map[string]string{"chats/s-1": "one", "chats/s-2": "two", "chats/s-3": "three", "chats/other": "other"} {
		write(name, text)
	}
	kept, err := os.Stat(filepath.Join(home, "chats/s-1"))
	if err != nil {
		t.Fatal(err)
	}
	err = prepare(scratch, home, &agents.Preparation{Read: "chats/s-*", Make: func(files []agents.File) []agents.File {
		if len(files) != 3 || string(files[1].Data) != "two" {
			t.Errorf("shown: %v", files)
		}
		files[1].Data = []byte("TWO")
		return append(files[:2], agents.File{Path: filepath.Join(home, "new/s-4"), Data: []byte("four")})
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"chats/s-1": "one", "chats/s-2": "TWO", "chats/other": "other", "new/s-4": "four"}
	if diff := cmp.Diff(want, tree(t, home)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if now, err := os.Stat(filepath.Join(home, "chats/s-1")); err != nil || !os.SameFile(kept, now) {
		t.Errorf("a file that stays as it is was written again (%v): another turn may be writing it", err)
	}
}

// tree is the content of all files below dir.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
