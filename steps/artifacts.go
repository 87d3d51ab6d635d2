package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"flow/agents"
	"flow/pipeline"
	"flow/state/disk"
	"flow/steps/mask"
)

// The caps on what one step may keep.
const (
	maxArtifacts     = 10_000
	maxArtifactBytes = 1 << 30
)

// An Artifact is a file that a step left, kept with the run.
type Artifact struct {
	Name string      `json:"name"` // its path below the step's working directory, with slashes
	Size int64       `json:"size"` // bytes
	Mode fs.FileMode `json:"mode"` // permission bits
	Blob string      `json:"blob"`
}

// ArtifactList returns the artifacts that r keeps, sorted by name.
func (r Result) ArtifactList(blobs interface{ Blob(string) ([]byte, error) }) ([]Artifact, error) {
	text, err := r.Artifacts.Load(blobs)
	if err != nil || text == "" {
		return nil, err
	}
	var list []Artifact
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("the list of artifacts cannot be read: %w", err)
	}
	return list, nil
}

// artifactField adds the names and sizes of what the step left, where it left anything.
func (x *Executor) artifactField(d map[string]any, r Result) error {
	list, err := r.ArtifactList(x.Store)
	if err != nil || len(list) == 0 {
		return err
	}
	all := make([]any, len(list))
	for i, a := range list {
		all[i] = map[string]any{"name": a.Name, "size": a.Size}
	}
	d["artifacts"] = all
	return nil
}

// keepArtifacts stores the files that the step's `artifacts` name. The problem is that
// they cannot be kept as the pipeline says; what could be kept is kept all the same.
func (a *attempt) keepArtifacts() (*agents.Problem, error) {
	if len(a.step.Artifacts) == 0 || a.result.Cached || a.x.Recording != nil { // see keep
		return nil, nil
	}
	root, err := a.openDir()
	if err != nil {
		return configProblem(fmt.Errorf("artifacts cannot be kept: %w", err)), nil
	}
	defer root.Close()
	h := harvest{root: root, store: a.x.Store, mask: a.x.Mask, found: map[string]Artifact{}}
	var problem *agents.Problem
	for _, t := range a.step.Artifacts {
		p, err := a.gather(&h, t)
		if err != nil {
			return nil, err
		}
		if problem == nil {
			problem = p
		}
	}
	for _, m := range h.masked {
		a.notice(noticeSecret, m)
	}
	list, err := json.Marshal(h.list())
	if err == nil && len(h.found) > 0 {
		a.result.Artifacts, err = a.x.keepText(string(list))
	}
	return problem, err
}

// openDir opens the directory that the step worked in. By now a link may stand in its place,
// put there by the step or by another one: it does not lead out of the workspace.
func (a *attempt) openDir() (*disk.Root, error) {
	top, err := disk.OpenRoot(a.workspace())
	if err != nil || a.step.Cwd == nil {
		return top, err
	}
	defer top.Close()
	resolved, err := filepath.EvalSymlinks(a.workspace()) // as a.dir is
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(resolved, a.dir)
	if err != nil {
		return nil, err
	}
	return top.OpenRoot(rel)
}

// gather takes in what one template of `artifacts` names.
func (a *attempt) gather(h *harvest, t pipeline.Text) (*agents.Problem, error) {
	pattern, err := a.frame.renderer.Text(t, a.data)
	if err != nil {
		return configProblem(err), nil
	}
	pattern = strings.TrimSpace(pattern)
	if err := pipeline.ArtifactPath(pattern); err != nil {
		return configProblem(pipeline.Error{File: a.frame.plan.File, Pos: t.Pos, Msg: fmt.Sprintf("artifact %q %v", head(pattern, 100), err)}), nil
	}
	before := h.matches
	err = h.gather(path.Clean(pattern))
	over, isOver := errors.AsType[tooMuch](err)
	holds, isSecret := errors.AsType[secretIn](err)
	unreadable, isPath := errors.AsType[*fs.PathError](err)
	switch {
	case isSecret:
		return holds.problem(), nil
	case isOver:
		return &agents.Problem{Cause: agents.CauseConfig, Message: string(over), Hint: "name fewer files in `artifacts`, or pack them"}, nil
	case isPath && !errors.Is(err, fs.ErrNotExist):
		return &agents.Problem{Cause: agents.CauseConfig, Message: fmt.Sprintf("artifact %s cannot be kept: %v", unreadable.Path, unreadable.Err)}, nil
	case err != nil && !isPath:
		return nil, err
	case h.matches == before:
		return &agents.Problem{
			Cause: agents.CauseIncomplete, Message: fmt.Sprintf("the step left no artifact %q in %s", pattern, a.dir),
			Hint: "only regular files inside the working directory count; does the step write there?",
		}, nil
	}
	return nil, nil
}

// tooMuch says that a step wants to keep more than flow does.
type tooMuch string

func (t tooMuch) Error() string { return string(t) }

// A harvest collects the files of one directory as artifacts. Symbolic links are followed
// where a path names them, and then not out of the directory; a glob or a walk through a
// directory passes them by.
type harvest struct {
	root    *disk.Root
	store   Store
	found   map[string]Artifact
	bytes   int64
	matches int // files that some pattern named, also those that were found before
	mask    *mask.Masker
	masked  []string // what was found in which of the files, and masked
}

func (h *harvest) list() []Artifact {
	list := make([]Artifact, 0, len(h.found))
	for _, a := range h.found {
		list = append(list, a)
	}
	slices.SortFunc(list, func(x, y Artifact) int { return strings.Compare(x.Name, y.Name) })
	return list
}

// gather takes in what a path or glob names. A directory stands for all that is in it.
func (h *harvest) gather(pattern string) error {
	elements := strings.Split(pattern, "/")
	plain := 0 // elements before the first that is a pattern
	for plain < len(elements) && !strings.ContainsAny(elements[plain], `*?[\`) {
		plain++
	}
	if plain == len(elements) {
		return h.tree(pattern)
	}
	from := path.Join(append([]string{"."}, elements[:plain]...)...)
	return h.walk(from, func(name string, d fs.DirEntry) error {
		if !globMatch(elements, strings.Split(name, "/")) {
			return nil
		}
		if !d.IsDir() {
			return h.entry(name, d)
		}
		if err := h.tree(name); err != nil {
			return err
		}
		return fs.SkipDir
	})
}

// tree takes in a file, or everything in a directory.
func (h *harvest) tree(name string) error {
	info, err := h.root.Stat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return h.file(name)
	}
	return h.walk(name, func(name string, d fs.DirEntry) error {
		if d.IsDir() {
			return nil
		}
		return h.entry(name, d)
	})
}

// walk calls fn for everything below a directory but git's own data.
func (h *harvest) walk(from string, fn func(name string, d fs.DirEntry) error) error {
	return fs.WalkDir(h.root.FS(), from, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == from:
			return nil
		case d.Name() == ".git":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return fn(name, d)
	})
}

// entry takes in what a directory lists, if it is a regular file.
func (h *harvest) entry(name string, d fs.DirEntry) error {
	if !d.Type().IsRegular() {
		return nil
	}
	return h.file(name)
}

// file stores one file.
func (h *harvest) file(name string) error {
	h.matches++
	if _, ok := h.found[name]; ok {
		return nil
	}
	if len(h.found) >= maxArtifacts {
		return tooMuch(fmt.Sprintf("the step has more than %d artifacts", maxArtifacts))
	}
	// Without O_NONBLOCK a FIFO would be waited for. A socket cannot be opened: ENXIO.
	f, err := h.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return notRegular(name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return notRegular(name)
	}
	left := maxArtifactBytes - h.bytes
	if info.Size() > left {
		return tooMuch(fmt.Sprintf("the artifacts of the step are larger than %d MiB", maxArtifactBytes>>20))
	}
	content, err := h.clean(name, io.NewSectionReader(f, 0, left)) // it may be growing
	if err != nil {
		return err
	}
	ref, size, err := h.store.PutBlobFrom(content)
	if err != nil {
		return err
	}
	h.bytes += size
	h.found[name] = Artifact{Name: name, Size: size, Mode: info.Mode().Perm(), Blob: ref}
	return nil
}

func notRegular(name string) error {
	return &fs.PathError{Op: "keep", Path: name, Err: errors.New("it is not a regular file")}
}

// globMatch reports whether a path matches a glob, both cut at their slashes: `**` is any
// number of directories, and no pattern matches a leading dot that it does not spell.
func globMatch(pattern, name []string) bool {
	switch {
	case len(pattern) == 0:
		return len(name) == 0
	case pattern[0] == "**" && globMatch(pattern[1:], name):
		return true
	case len(name) == 0, strings.HasPrefix(name[0], ".") && !strings.HasPrefix(pattern[0], "."):
		return false
	case pattern[0] == "**":
		return globMatch(pattern, name[1:])
	}
	ok, err := path.Match(pattern[0], name[0])
	return ok && err == nil && globMatch(pattern[1:], name[1:])
}
