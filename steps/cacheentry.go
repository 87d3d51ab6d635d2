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
	"path/filepath"
	"time"

	"flow/state/disk"
	"flow/state/failpoint"
)

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

// find reads the entry, nil if there is none that is still good. The error says what is
// wrong with one that cannot be used.
func (a *attempt) find(look *lookup) (*cacheEntry, error) {
	dir := a.x.entryDir(look.key)
	data, err := disk.ReadFile(filepath.Join(dir, entryFile))
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
	f, err := disk.Open(file)
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
	if r.Text, err = a.x.keepText(e.Text); err != nil {
		return err
	}
	if r.Output, err = a.x.keepText(e.Output); err != nil {
		return err
	}
	for _, artifact := range e.Artifacts {
		f, err := disk.Open(filepath.Join(dir, blobSum(artifact.Blob)))
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
		if r.Artifacts, err = a.x.keepText(string(list)); err != nil {
			return err
		}
	}
	a.result = r
	return nil
}

// keepInCache makes the attempt's result an entry: it is there as a whole or not at all.
func (a *attempt) keepInCache(ctx context.Context) error {
	if err := disk.MkdirAll(a.x.CacheDir, 0o700); err != nil {
		return err
	}
	temp, err := mkdirScratch(scratchOf(a.x.Store.Dir()))
	if err != nil {
		return err
	}
	defer func() { _ = disk.RemoveAll(temp) }()
	e, err := a.entry(ctx, temp)
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(e, "", "  ")
	if err == nil {
		err = disk.WriteFile(filepath.Join(temp, entryFile), data, 0o600)
	}
	if err != nil {
		return err
	}
	// An older entry makes room. Whoever reads it at this moment finds it incomplete, and
	// that there is none.
	dir := a.x.entryDir(a.lookup.key)
	if err := disk.RemoveAll(dir); err != nil {
		return err
	}
	failpoint.Reach("cache-filled")
	if err := disk.Rename(temp, dir); err != nil {
		return err
	}
	failpoint.Reach("cache-stored")
	return nil
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
		if err := disk.WriteFile(filepath.Join(dir, blobSum(artifact.Blob)), data, 0o600); err != nil {
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
	if err := a.x.secretPatch(file); err != nil {
		return "", err
	}
	return sumOf(file)
}
