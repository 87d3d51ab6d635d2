package sessions_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"flow/agents"
	"flow/agents/claude"
	"flow/agents/codex"
	"flow/agents/gemini"
	"flow/agents/sessions"
)

const (
	first  = "11111111-2222-4333-8444-555555555555"
	second = "11111111-3333-4333-8444-555555555555"
)

// tree is a directory with files.
type tree struct {
	t   *testing.T
	dir string
}

func newTree(t *testing.T) tree { return tree{t, t.TempDir()} }

func (f tree) path(name string) string { return filepath.Join(f.dir, name) }

func (f tree) write(name, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// aged makes a file as old as that.
func (f tree) aged(name string, age time.Duration) {
	f.t.Helper()
	at := time.Now().Add(-age)
	if err := os.Chtimes(f.path(name), at, at); err != nil {
		f.t.Fatal(err)
	}
}

func (f tree) store() sessions.Store {
	return sessions.Store{Agent: "claude", Dir: f.dir, Keeper: claude.Adapter{}}
}

// said is a line of a Claude session.
func said(id, uuid, role, text string) string {
	return fmt.Sprintf(`{"type":%q,"uuid":%q,"sessionId":%q,"cwd":"/repo","timestamp":"2026-11-21T19:00:00Z","message":{"role":%[1]q,"stop_reason":"end_turn","content":[{"type":"text","text":%[4]q}]}}`,
		role, uuid, id, text) + "\n"
}

func talk(id string) string {
	return said(id, "u1", "user", "Why?") + said(id, "u2", "assistant", "Because.")
}

func list(t *testing.T, stores ...sessions.Store) []sessions.File {
	t.Helper()
	files, err := sessions.List(stores)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestList(t *testing.T) {
	f := newTree(t)
	f.write("projects/-a/"+first+".jsonl", talk(first))
	f.aged("projects/-a/"+first+".jsonl", time.Hour)
	f.write("projects/-b/"+second+".jsonl", talk(second))
	f.write("projects/-b/agent-1.jsonl", "{}")
	f.write("projects/-b/"+second+"/subagents/agent-1.jsonl", "{}")
	f.write("projects/-b/notes.txt", "no session")
	missing := sessions.Store{Agent: "codex", Dir: f.path("nowhere"), Keeper: codex.Adapter{}}
	files := list(t, missing, f.store())
	var ids []string
	for _, file := range files {
		ids = append(ids, file.ID)
	}
	if diff := cmp.Diff([]string{second, first}, ids); diff != "" {
		t.Errorf("the files, latest first (-want +got):\n%s", diff)
	}
	for prefix, want := range map[string]int{"11111111": 2, "11111111-2": 1, first: 1, "2": 0} {
		if got := sessions.Named(files, prefix); len(got) != want {
			t.Errorf("%d files may be of %q, want %d", len(got), prefix, want)
		}
	}
	short := []sessions.File{{ID: first[:8]}}
	if len(sessions.Named(short, first)) != 1 {
		t.Error("a file whose name holds the beginning of its session's id is left out")
	}
}

// TestListBad meets what a directory that belongs to others may hold.
func TestListBad(t *testing.T) {
	f, outside := newTree(t), newTree(t)
	outside.write("secret/"+first+".jsonl", talk(first))
	f.write("projects/-a/"+second+".jsonl", talk(second))
	if err := os.Symlink(outside.path("secret"), f.path("projects/out")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside.path("secret/"+first+".jsonl"), f.path("projects/-a/"+first+".jsonl")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(f.path("projects/-a/22222222-2222-4333-8444-555555555555.jsonl"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(f.path("projects/-a/33333333-2222-4333-8444-555555555555.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := list(t, f.store())
	if len(files) != 1 || files[0].ID != second {
		t.Errorf("files are listed that are none: %+v", files)
	}
}

// TestReadReplaced reads a file that is another thing by then.
func TestReadReplaced(t *testing.T) {
	f, outside := newTree(t), newTree(t)
	name := "projects/-a/" + first + ".jsonl"
	f.write(name, talk(first))
	outside.write("secret", talk(first))
	file := list(t, f.store())[0]
	for what, replace := range map[string]func() error{
		"nothing":                   func() error { return nil },
		"a pipe":                    func() error { return unix.Mkfifo(f.path(name), 0o600) },
		"a link out of the store":   func() error { return os.Symlink(outside.path("secret"), f.path(name)) },
		"a directory":               func() error { return os.Mkdir(f.path(name), 0o700) },
		"a file that cannot be had": func() error { return os.Symlink(f.path(name), f.path(name)) },
	} {
		if err := os.RemoveAll(f.path(name)); err != nil {
			t.Fatal(err)
		}
		if err := replace(); err != nil {
			t.Fatal(err)
		}
		if _, err := file.Summary(); err == nil || !strings.Contains(err.Error(), first) {
			t.Errorf("%s in its place is read, or the error does not name it: %v", what, err)
		}
	}
}

func TestRead(t *testing.T) {
	f := newTree(t)
	const torn = `{"type":"assistant","uuid":"u3","mess`
	f.write("projects/-a/"+first+".jsonl", "\n"+talk(first)+torn)
	file := list(t, f.store())[0]
	var types []string
	var natives []agents.Native
	summary, err := file.Read(func(e agents.Event) {
		types = append(types, e.Type)
		if e.Native != nil {
			natives = append(natives, *e.Native)
		}
		if e.AgentType != "claude" || e.SessionID != first || e.Time.Year() != 2026 {
			t.Errorf("an event is %+v", e)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"sessionStarted", "turnStarted", "textChunk", "textChunk", "malformed", "turnCompleted"}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if end := natives[len(natives)-1]; end.Offset+end.Length != file.Size || end.Length != int64(len(torn)) {
		t.Errorf("the last line stands at %+v of %d bytes", end, file.Size)
	}
	if summary.Messages != 2 || summary.Dir != "/repo" || summary.Status != agents.SessionCompleted {
		t.Errorf("the summary is %+v", summary)
	}
}

// TestSummaryOfLarge sums up a file that is too large to be read whole: where it began and
// how it stands is known, what is in between is not counted.
func TestSummaryOfLarge(t *testing.T) {
	f := newTree(t)
	middle := strings.Repeat(said(first, "", "user", strings.Repeat("x", 1000)), 3000)
	end := said(first, "u8", "user", "And?") + said(first, "u9", "assistant", "That is all.")
	f.write("projects/-a/"+first+".jsonl", talk(first)+middle+end)
	summary, err := list(t, f.store())[0].Summary()
	if err != nil {
		t.Fatal(err)
	}
	want := agents.SessionSummary{
		ID: first, Dir: "/repo", Title: "Why?", Status: agents.SessionCompleted,
		Created: time.Date(2026, 11, 21, 19, 0, 0, 0, time.UTC), Updated: time.Date(2026, 11, 21, 19, 0, 0, 0, time.UTC),
	}
	if diff := cmp.Diff(want, summary); diff != "" {
		t.Errorf("the summary (-want +got):\n%s", diff)
	}
}

// TestHugeLine reads a file with a line that is kept in no memory.
func TestHugeLine(t *testing.T) {
	f := newTree(t)
	huge := `{"type":"user","uuid":"u5","text":"` + strings.Repeat("x", 33<<20) + `"}` + "\n"
	f.write("projects/-a/"+first+".jsonl", said(first, "u1", "user", "Why?")+huge+said(first, "u2", "assistant", "Because."))
	var types []string
	summary, err := list(t, f.store())[0].Read(func(e agents.Event) { types = append(types, e.Type) })
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(types, "malformed") || summary.Messages != 2 || summary.Status != agents.SessionCompleted {
		t.Errorf("events %v, summary %+v", types, summary)
	}
	if _, err := list(t, f.store())[0].Summary(); err != nil {
		t.Error(err)
	}
}

// TestGemini reads the working directory from beside the session, and a file that is one
// JSON object.
func TestGemini(t *testing.T) {
	f := newTree(t)
	f.write("tmp/repo/.project_root", "/home/dev/repo\n")
	f.write("tmp/repo/chats/session-2025-12-03T10-00-11111111.json", "{\n  \"sessionId\": \""+first+"\",\n  \"messages\": [\n"+
		"    {\"id\": \"1\", \"type\": \"user\", \"content\": \"Why?\"}\n  ]\n}\n")
	file := list(t, sessions.Store{Agent: "gemini", Dir: f.dir, Keeper: gemini.Adapter{}})[0]
	summary, err := file.Summary()
	if err != nil {
		t.Fatal(err)
	}
	if summary.ID != first || summary.Dir != "/home/dev/repo" || summary.Title != "Why?" || summary.Messages != 1 {
		t.Errorf("the summary is %+v", summary)
	}
	if summary.Updated.IsZero() {
		t.Error("a session that tells no time was changed when its file was")
	}
}
