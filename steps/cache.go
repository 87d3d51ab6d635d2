package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/state/disk"
	"flow/steps/workspace"
)

// A lookup is what an attempt knows of the cache: where its result would be, and what
// the workspace was like when it began.
type lookup struct {
	key  string
	repo *workspace.Repo // nil: the workspace is under no version control
	tree string
	// arrived is how many steps had begun in the workspace; -1: this one was not alone.
	arrived int
}

// cached looks for the result of the step in the cache. It returns the step's fact if it
// is there: no process is started, and nothing is used.
func (a *attempt) cached(ctx context.Context, prompt string) (dag.Fact, bool, error) {
	if a.step.Cache == nil || a.x.CacheDir == "" || a.step.Kind != pipeline.KindPrompt {
		return dag.Fact{}, false, nil
	}
	before := a.x.ledger.get(a.task.Path)
	if before.attempt > 0 && (before.lookup == "" || a.touched(before)) {
		return dag.Fact{}, false, nil // the workspace may hold what an attempt left
	}
	look, err := a.look(ctx, prompt)
	if err != nil {
		a.notice(noticeCache, "not used: "+err.Error())
		return dag.Fact{}, false, nil
	}
	if before.lookup != "" { // flow died when the result had just been found
		look.key = before.lookup
	}
	e, err := a.find(look)
	if e == nil {
		if err != nil {
			a.notice(noticeCache, "an entry is of no use and is left out: "+err.Error())
		}
		a.lookup = look
		return dag.Fact{}, false, nil
	}
	a.result.Lookup = look.key
	if err := a.start(ctx, ""); err != nil {
		return dag.Fact{}, false, err
	}
	if err := a.apply(ctx, look, *e); err != nil {
		a.notice(noticeCache, "the entry does not fit and is left out: "+err.Error())
		return dag.Fact{}, false, nil
	}
	a.notice(noticeCache, fmt.Sprintf("the result is that of step %s of run %s", e.Step, e.Run))
	fact, err := a.finished(ctx)
	return fact, true, err
}

// touched reports whether an attempt before this one came to start a process.
func (a *attempt) touched(before account) bool {
	return before.failures > 0 || slices.ContainsFunc(before.open, func(n int) bool { return a.x.ran(label(a.task.Path, n, 1)) })
}

// look finds out what the step's result depends on, and makes the key of it.
func (a *attempt) look(ctx context.Context, prompt string) (*lookup, error) {
	besides, err := a.besides()
	if err != nil {
		return nil, err
	}
	look := &lookup{}
	alone := false
	if look.arrived, alone = a.x.traffic.count(a.workspace()); !alone {
		look.arrived = -1
	}
	if look.repo, look.tree, err = a.snapshot(ctx); err != nil {
		return nil, err
	}
	version, err := a.x.versions.of(ctx, a)
	if err != nil {
		return nil, err
	}
	req := stepRequest(a.frame.plan, a.step, a.workspace(), a.adapter())
	req.Transport = "" // how an agent is spoken to changes nothing of what it answers
	req.Confined = a.confines(req)
	for i := range req.Rules {
		req.Rules[i].Where = ""
	}
	cwd, err := filepath.Rel(a.workspace(), a.dir)
	if err != nil {
		return nil, err
	}
	key, err := json.Marshal(map[string]any{
		"format": entryFormat, "prompt": prompt, "besides": besides, "use": a.profile().Use, "command": a.profile().Command, "version": version,
		"request": req, "schema": a.step.Output, "tree": look.tree, "cwd": cwd, "simulated": a.x.Simulate != nil,
	})
	sum := sha256.Sum256(key)
	look.key = hex.EncodeToString(sum[:])
	return look, err
}

// besides is what the step's other templates give that its result depends on: `cache.key`,
// the check, and the paths to keep.
func (a *attempt) besides() (all struct {
	Key       string
	Check     pipeline.Script
	Artifacts []string
}, err error,
) {
	if key := a.step.Cache.Key; key != nil {
		if all.Key, err = a.frame.renderer.Text(*key, a.data); err != nil {
			return all, err
		}
	}
	if a.step.Check != nil {
		if all.Check, err = a.frame.renderer.Script(a.step.Check.Run, a.data); err != nil {
			return all, err
		}
	}
	for _, t := range a.step.Artifacts {
		path, err := a.frame.renderer.Text(t, a.data)
		if err != nil {
			return all, err
		}
		all.Artifacts = append(all.Artifacts, path)
	}
	return all, nil
}

// snapshot is the workspace as it is, nothing when it is under no version control.
func (a *attempt) snapshot(ctx context.Context) (*workspace.Repo, string, error) {
	if !underGit(a.workspace()) {
		return nil, "", nil
	}
	repo, err := a.x.git.Open(ctx, a.workspace())
	if err != nil {
		return nil, "", err
	}
	tree, err := repo.Snapshot(ctx)
	return repo, tree, err
}

// underGit reports whether a directory is in a git repository.
func underGit(dir string) bool {
	for ; ; dir = filepath.Dir(dir) {
		git := filepath.Join(dir, ".git") // of a worktree it is a file
		if info, err := disk.Stat(git); err == nil && !info.IsDir() {
			return true
		}
		if _, err := disk.Stat(filepath.Join(git, "HEAD")); err == nil {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// remember puts the result of a step that succeeded in its first attempt into the cache.
// A cache that cannot be written is no failure of the step.
func (a *attempt) remember(ctx context.Context) {
	if a.lookup == nil || a.result.Cached {
		return
	}
	if arrived, _ := a.x.traffic.count(a.workspace()); a.lookup.repo != nil && arrived != a.lookup.arrived {
		a.notice(noticeCache, "the result is not kept: other steps worked in the workspace at the same time")
		return
	}
	if err := a.keepInCache(context.WithoutCancel(ctx)); err != nil {
		a.notice(noticeCache, "the result cannot be kept: "+err.Error())
	}
}
