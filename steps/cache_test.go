package steps

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
)

func cache(c pipeline.Cache) func(*pipeline.Step) {
	return func(s *pipeline.Step) { s.Cache = &c }
}

// versioned answers the question for a version besides, and counts the others.
func versioned(turns *int, play func(*process) (proc.Result, error)) func(*process) (proc.Result, error) {
	return func(p *process) (proc.Result, error) {
		if strings.HasPrefix(p.spec.Label, "version-") {
			return proc.Result{}, os.WriteFile(p.spec.Stdout, []byte("fake 1.0\n"), 0o600)
		}
		*turns++
		return play(p)
	}
}

// again is another run of the same plan that shares the cache.
func (w *world) again() *world {
	w.t.Helper()
	next := newWorld(w.t, w.plan.Steps...)
	next.plan, next.play, next.config = w.plan, w.play, w.config
	return next
}

func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := 0
		w := newWorld(t, ask("s", cache(pipeline.Cache{Key: text("{{ .inputs.k }}"), TTL: pipeline.Duration(time.Hour)}), artifacts("a.txt"), func(s *pipeline.Step) {
			s.Output = []byte(`{"type":"object"}`)
		}))
		w.workspace([]string{"a.txt"}, nil)
		w.config.CacheDir, w.config.Inputs = t.TempDir(), map[string]any{"k": "1"}
		w.play = versioned(&turns, says(0, "session S", "cost 1", `answer {"n":1}`))
		first := w.want(w.finish(), "s", dag.OK)

		w = w.again()
		r := w.want(w.finish(), "s", dag.OK)
		if turns != 1 || !r.Cached || r.Output != first.Output || r.Text != first.Text || r.Agent != "a" || r.CostUSD != nil || r.Session != "" {
			t.Errorf("after %d turns the result is %+v", turns, r)
		}
		if got := w.artifacts(r); len(got) != 1 {
			t.Errorf("its artifacts are %q", got)
		}
		if n := w.notices(noticeCache); len(n) != 1 || n[0] != "the result is that of step s of run run1" {
			t.Errorf("events about it: %q", n)
		}

		w = w.again() // whatever it depends on makes another one
		w.config.Inputs = map[string]any{"k": "2"}
		w.want(w.finish(), "s", dag.OK)
		if turns != 2 {
			t.Errorf("with another key there were %d turns", turns)
		}

		<-time.After(2 * time.Hour)
		w = w.again()
		w.want(w.finish(), "s", dag.OK)
		if turns != 3 {
			t.Errorf("when it was too old there were %d turns", turns)
		}

		entries, err := filepath.Glob(filepath.Join(w.config.CacheDir, "*", entryFile))
		if err != nil || len(entries) != 2 {
			t.Fatal(entries, err)
		}
		for _, file := range entries {
			if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		w = w.again()
		if r := w.want(w.finish(), "s", dag.OK); turns != 4 || r.Cached {
			t.Errorf("when it was damaged there were %d turns", turns)
		}
		if n := w.notices(noticeCache); len(n) != 1 || !strings.HasPrefix(n[0], "an entry is of no use") {
			t.Errorf("events about it: %q", n)
		}
		w = w.again()
		if r := w.want(w.finish(), "s", dag.OK); turns != 4 || !r.Cached {
			t.Errorf("the damaged one was not replaced: %d turns", turns)
		}
	})
}

// A result that left other artifacts is another one.
func TestCacheOfArtifacts(t *testing.T) {
	turns := 0
	w := newWorld(t, ask("s", cache(pipeline.Cache{}), artifacts("{{ .inputs.name }}")))
	w.workspace([]string{"a.txt", "b.txt"}, nil)
	w.config.CacheDir = t.TempDir()
	w.play = versioned(&turns, says(0, "session S", "answer ok"))
	for _, name := range []string{"a.txt", "b.txt"} {
		w = w.again()
		w.config.Inputs = map[string]any{"name": name}
		if got := w.artifacts(w.want(w.finish(), "s", dag.OK)); len(got) != 1 || got[0] != name {
			t.Errorf("%q are kept, want %s", got, name)
		}
	}
}

// What failed is not kept, nor what it took more than one attempt to do.
func TestCacheOfFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := 0
		w := newWorld(t, ask("s", cache(pipeline.Cache{}), retry(1)))
		w.workspace(nil, nil)
		w.config.CacheDir = t.TempDir()
		w.play = versioned(&turns, inTurn(says(1, "session S", "problem network gone"), says(0, "session S", "answer ok"), says(0, "session S", "answer ok")))
		w.want(w.finish(), "s", dag.OK)
		w = w.again()
		if r := w.want(w.finish(), "s", dag.OK); turns != 3 || r.Cached {
			t.Errorf("%d turns", turns)
		}
	})
}

// An artifact in the cache that is not what it was makes the entry worthless.
func TestCacheDamaged(t *testing.T) {
	turns := 0
	w := newWorld(t, ask("s", cache(pipeline.Cache{}), artifacts("a.txt")))
	w.workspace([]string{"a.txt"}, nil)
	w.config.CacheDir = t.TempDir()
	w.play = versioned(&turns, says(0, "session S", "answer ok"))
	w.want(w.finish(), "s", dag.OK)
	files, err := filepath.Glob(filepath.Join(w.config.CacheDir, "*", "*"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		if filepath.Base(f) != entryFile {
			appendFile(t, f, []byte("x"))
		}
	}
	w = w.again()
	if r := w.want(w.finish(), "s", dag.OK); r.Cached || turns != 2 {
		t.Errorf("%d turns", turns)
	}
}

// A run that died when it had just found its result takes it all the same.
func TestCacheAfterCrash(t *testing.T) {
	turns := 0
	w := newWorld(t, ask("s", cache(pipeline.Cache{})))
	w.workspace(nil, nil)
	w.config.CacheDir = t.TempDir()
	w.play = versioned(&turns, says(0, "session S", "answer ok"))
	w.want(w.finish(), "s", dag.OK)
	calm := w.again()
	calm.want(calm.finish(), "s", dag.OK)
	for n := range len(calm.store.log) + 1 {
		w := calm.again()
		w.store = calm.store.at(t, n)
		if r := w.want(w.finish(), "s", dag.OK); !r.Cached || turns != 1 {
			t.Fatalf("crash at %d: %d turns, %+v", n, turns, r)
		}
	}
}
