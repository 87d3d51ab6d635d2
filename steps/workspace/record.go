package workspace

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"flow/state/disk"
	"flow/state/failpoint"
)

// Mode is how a workspace came to be.
type Mode string

// The modes.
const (
	Worktree Mode = "worktree" // a git worktree on a branch of its own
	Copy     Mode = "copy"     // a copy of the directory, with a git directory that only flow knows
	Merging  Mode = "merge"    // a worktree without a branch, in which branches are merged
)

// A Workspace is the record of an isolated workspace, kept as JSON in the run's
// directory. It is on the disk before the workspace is begun.
type Workspace struct {
	Run  string `json:"run"`
	Path string `json:"path"` // of the step
	Mode Mode   `json:"mode"`
	Repo string `json:"repo"` // the directory it was made from, absolute
	// Dir is where it begins, absolute; Root is what corresponds to Repo, which may be a
	// directory further down: where steps work.
	Dir  string `json:"dir"`
	Root string `json:"root"`
	// Branch has its commits. Of a copy it is in GitDir, where nobody else sees it.
	Branch string `json:"branch,omitempty"`
	Base   string `json:"base,omitempty"` // the commit it began at; "" until that is known
	// Snapshot says that Base was made for the workspace, of changes that were not
	// committed.
	Snapshot bool     `json:"snapshot,omitempty"`
	GitDir   string   `json:"gitDir,omitempty"` // absolute; "" until it is ready
	Copied   []string `json:"copied,omitempty"` // below Dir, with slashes: taken along, never committed
	Ready    bool     `json:"ready,omitempty"`  // it was made to its end
	// MergedTip is the commit of Branch that went into the commit MergedAs, should its
	// history not show it.
	MergedTip string    `json:"mergedTip,omitempty"`
	MergedAs  string    `json:"mergedAs,omitempty"`
	Created   time.Time `json:"created"`

	file string // of the record, "" where that was stored elsewhere too
}

// recordFile is the file of the record.
func (w *Workspace) recordFile() string {
	if w.file != "" {
		return w.file
	}
	return recordFile(filepath.Dir(filepath.Dir(w.Dir)), w.Path, w.Mode)
}

// privateGit is the git directory that a copy has to itself, "" for a worktree.
func (w *Workspace) privateGit() string {
	if w.Mode != Copy {
		return ""
	}
	return strings.TrimSuffix(w.recordFile(), recordExt) + ".git"
}

// The directories of a run that this package uses.
const (
	treesDir   = "worktrees"
	recordsDir = "workspaces"
	recordExt  = ".json"
)

// BranchName returns the branch of the workspace of a step.
func BranchName(run, path string) string {
	name := "flow/" + run + "/" + strings.ReplaceAll(path, ".", "-")
	const most = 100
	if len(name) > most || strings.HasSuffix(run, ".lock") || strings.HasSuffix(run, ".") {
		sum := sha256.Sum256([]byte(name))
		return fmt.Sprintf("flow/%x", sum[:16])
	}
	return name
}

// fileName is a step's path as the name of a file.
func fileName(path string) string {
	const most, keep = 200, 150
	if len(path) <= most {
		return path
	}
	sum := sha256.Sum256([]byte(path))
	return fmt.Sprintf("%s=%x", path[:keep], sum[:8])
}

// modeName is the name of a step's workspace. Each mode has one of its own: a step that an
// update puts into another mode begins there anew.
func modeName(path string, mode Mode) string {
	if mode == Worktree {
		return fileName(path)
	}
	return fileName(path) + "=" + string(mode)
}

func recordFile(runDir, path string, mode Mode) string {
	return filepath.Join(runDir, recordsDir, modeName(path, mode)+recordExt)
}

// Load returns the record of a step's workspace, nil if it has none. Merging asks for
// that in which the step merged others.
func Load(runDir, path string, mode Mode) (*Workspace, error) {
	w, err := read(recordFile(runDir, path, mode))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return w, err
}

// List returns the records of the workspaces that a run has made, by the paths of the steps.
func List(runDir string) ([]*Workspace, error) {
	all, err := records(runDir)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(w *Workspace) bool { return w.lent(runDir) }), nil
}

// records are all that a run has, by the paths of the steps.
func records(runDir string) ([]*Workspace, error) {
	dir := filepath.Join(runDir, recordsDir)
	entries, err := disk.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var all []*Workspace
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), recordExt) {
			continue
		}
		w, err := read(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	slices.SortFunc(all, func(a, b *Workspace) int { return strings.Compare(a.Path+string(a.Mode), b.Path+string(b.Mode)) })
	return all, nil
}

func read(file string) (*Workspace, error) {
	data, err := disk.ReadFile(file)
	if err != nil {
		return nil, err
	}
	w := &Workspace{file: file}
	if err := json.Unmarshal(data, w); err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", file, err)
	}
	return w, nil
}

// save writes the record, in one step and durably.
func (w *Workspace) save() error { return saveJSON(w.recordFile(), w) }

func saveJSON(file string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(file)
	if err := disk.MkdirAllDurably(dir, 0o700); err != nil {
		return err
	}
	f, err := disk.OpenFile(file+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := disk.Rename(file+".new", file); err != nil {
		return err
	}
	failpoint.Reach("record-renamed")
	return disk.SyncDir(dir)
}

// loadJSON reads what saveJSON wrote; a file that is not there leaves v as it is.
func loadJSON(file string, v any) error {
	data, err := disk.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s cannot be read: %w", file, err)
	}
	return nil
}
