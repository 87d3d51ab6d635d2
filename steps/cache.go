package steps

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
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

// A cacheEntry is a result in the cache: a directory with this as result.json, `patch` with
// what the step changed, and a file for every artifact, named by its sum.
type cacheEntry struct {
	Format    int        `json:"format"`
	Created   time.Time  `json:"created"`
	Run       string     `json:"run"` // that it comes from
	Step      string     `json:"step"`
	Agent     string     `json:"agent"`
	Use       string     `json:"use"`
	Model     string     `json:"model,omitempty"`
	Version   string     `json:"version,omitempty"`
	Text      string     `json:"text"`
	Output    string     `json:"output,omitempty"` // JSON, byte for byte
	Patch     string     `json:"patch,omitempty"`  // its SHA-256, "" when nothing changed
	Artifacts []Artifact `json:"artifacts,omitempty"`
}

const (
	entryFormat = 1
	entryFile   = "result.json"
	patchFile   = "patch"
)

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
	req := stepRequest(a.frame.plan, a.step, a.workspace())
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
		if info, err := os.Stat(git); err == nil && !info.IsDir() {
			return true
		}
		if _, err := os.Stat(filepath.Join(git, "HEAD")); err == nil {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// find reads the entry, nil if there is none that is still good. The error says what is
// wrong with one that cannot be used.
func (a *attempt) find(look *lookup) (*cacheEntry, error) {
	dir := a.x.entryDir(look.key)
	data, err := os.ReadFile(filepath.Join(dir, entryFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // not found is no mistake
	}
	if err != nil {
		return nil, err
	}
	var e cacheEntry
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, err
	}
	ttl := time.Duration(a.step.Cache.TTL)
	switch {
	case e.Format != entryFormat:
		return nil, fmt.Errorf("it has format %d", e.Format)
	case ttl > 0 && a.x.Now().Sub(e.Created) > ttl:
		return nil, nil //nolint:nilnil // it is too old
	case e.Patch != "" && look.repo == nil:
		return nil, errors.New("it has changes, and the workspace is under no version control")
	}
	if e.Patch != "" {
		if err := sameSum(filepath.Join(dir, patchFile), e.Patch); err != nil {
			return nil, err
		}
	}
	for _, artifact := range e.Artifacts {
		sum := blobSum(artifact.Blob)
		if err := sameSum(filepath.Join(dir, sum), sum); err != nil {
			return nil, err
		}
	}
	return &e, nil
}

func (x *Executor) entryDir(key string) string { return filepath.Join(x.CacheDir, key) }

func blobSum(ref string) string { return filepath.Base("x" + ref[max(0, len(ref)-64):])[1:] }

// sameSum fails unless the file has that SHA-256.
func sameSum(file, want string) error {
	got, err := sumOf(file)
	if err == nil && got != want {
		err = fmt.Errorf("%s is damaged", filepath.Base(file))
	}
	return err
}

func sumOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// apply makes the entry the result of the attempt, and its changes those of the workspace.
func (a *attempt) apply(ctx context.Context, look *lookup, e cacheEntry) (err error) {
	dir := a.x.entryDir(look.key)
	if e.Patch != "" {
		if err := look.repo.Apply(ctx, filepath.Join(dir, patchFile)); err != nil {
			return err
		}
	}
	r := Result{Agent: e.Agent, Use: e.Use, Model: e.Model, Version: e.Version, Cached: true}
	if r.Text, err = store(a.x.Store, e.Text); err != nil {
		return err
	}
	if r.Output, err = store(a.x.Store, e.Output); err != nil {
		return err
	}
	for _, artifact := range e.Artifacts {
		f, err := os.Open(filepath.Join(dir, blobSum(artifact.Blob)))
		if err != nil {
			return err
		}
		_, _, err = a.x.Store.PutBlobFrom(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	if len(e.Artifacts) > 0 {
		list, err := json.Marshal(e.Artifacts)
		if err != nil {
			return err
		}
		if r.Artifacts, err = store(a.x.Store, string(list)); err != nil {
			return err
		}
	}
	a.result = r
	return nil
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

func (a *attempt) keepInCache(ctx context.Context) error {
	if err := os.MkdirAll(a.x.CacheDir, 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(a.x.CacheDir, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	e, err := a.entry(ctx, temp)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(e, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(temp, entryFile), data, 0o600)
	}
	if err != nil {
		return err
	}
	// An older entry makes room. Whoever reads it at this moment finds it incomplete, and
	// that there is none.
	dir := a.x.entryDir(a.lookup.key)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(temp, dir)
}

// entry collects the attempt's result in dir.
func (a *attempt) entry(ctx context.Context, dir string) (e cacheEntry, err error) {
	r := a.result
	e = cacheEntry{
		Format: entryFormat, Created: a.x.Now().UTC(), Run: a.x.RunID, Step: a.task.Path,
		Agent: r.Agent, Use: r.Use, Model: r.Model, Version: r.Version,
	}
	if e.Text, err = r.Text.Load(a.x.Store); err != nil {
		return e, err
	}
	if e.Output, err = r.Output.Load(a.x.Store); err != nil {
		return e, err
	}
	if e.Patch, err = a.patch(ctx, filepath.Join(dir, patchFile)); err != nil {
		return e, err
	}
	if e.Artifacts, err = r.ArtifactList(a.x.Store); err != nil {
		return e, err
	}
	for _, artifact := range e.Artifacts {
		data, err := a.x.Store.Blob(artifact.Blob)
		if err != nil {
			return e, err
		}
		if err := os.WriteFile(filepath.Join(dir, blobSum(artifact.Blob)), data, 0o600); err != nil {
			return e, err
		}
	}
	return e, nil
}

// patch writes what the step changed to a file and returns its sum, "" if it changed
// nothing.
func (a *attempt) patch(ctx context.Context, file string) (string, error) {
	if a.lookup.repo == nil {
		return "", nil
	}
	tree, err := a.lookup.repo.Snapshot(ctx)
	if err != nil || tree == a.lookup.tree {
		return "", err
	}
	if _, err := a.lookup.repo.Diff(ctx, a.lookup.tree, tree, file); err != nil {
		return "", err
	}
	return sumOf(file)
}

// versions asks agents for their versions, each once.
type versions struct {
	mu    sync.Mutex
	known map[string]string // by command line
}

// of is what the agent of the attempt prints as its version.
func (v *versions) of(ctx context.Context, a *attempt) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	profile := a.profile()
	line := a.x.commandLine(profile.Use, profile.Command)
	if known, ok := v.known[fmt.Sprintf("%q", line)]; ok {
		return known, nil
	}
	file := a.x.file("version-"+profile.Name, "stdout")
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	res, err := a.x.Launcher.Run(ctx, proc.Spec{
		Label: "version-" + profile.Name, Path: line[0], Args: append(line[1:], a.adapter().Info().VersionArgs...),
		Env: a.env, Dir: a.dir, Stdout: file,
	}, proc.Sink{})
	if err = errors.Join(err, res.Err); err != nil {
		return "", err
	}
	text, _, err := readHead(file, 1<<10)
	if err == nil {
		v.known[fmt.Sprintf("%q", line)] = text
	}
	return text, err
}

// traffic counts the steps that work in each directory, for what one of them changed can
// only be told when no other was there.
type traffic struct {
	mu      sync.Mutex
	working map[string]int
	arrived map[string]int
}

// enter counts a step that begins to work in dir, until what it returns is called.
func (t *traffic) enter(dir string) (leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.working[dir]++
	t.arrived[dir]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.working[dir]--
	}
}

// count is how many steps have arrived in dir, and whether the caller's is alone there.
func (t *traffic) count(dir string) (arrived int, alone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.arrived[dir], t.working[dir] <= 1
}
