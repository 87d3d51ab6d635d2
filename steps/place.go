package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"flow/agents"
	"flow/pipeline"
	"flow/state/disk"
)

// A location is where an attempt works.
type location struct {
	// isolated is the workspace that the step, or the nearest around it, has of its own;
	// nil for the run's.
	isolated *Workspace
	dir      string // absolute: the workspace, or a directory in it
	pinned   bool   // dir is in the workspace and has no symbolic link: whoever puts one there means no good
	tree     string // the workspace's when the step began, where its changes are kept
}

// place finds out where the step works, and makes its own workspace if it is to have one.
func (a *attempt) place(ctx context.Context) (*agents.Problem, error) {
	if problem, err := a.wholeWorkspace(ctx); err != nil || problem != nil {
		return problem, err
	}
	if a.task.Owns {
		if problem, err := a.isolate(ctx); err != nil || problem != nil {
			return problem, err
		}
	}
	if err := a.workingDirectory(); err != nil {
		return configProblem(err), nil
	}
	return a.watchChanges(ctx)
}

// workingDirectory finds out where the step works.
func (a *attempt) workingDirectory() error {
	a.dir = a.workspace()
	if a.step.Cwd == nil {
		return checkWorkspace(a.dir)
	}
	cwd, err := a.frame.renderer.Text(*a.step.Cwd, a.data)
	if err != nil || a.x.Recording != nil {
		return err
	}
	if a.dir, err = insideWorkspace(a.workspace(), cwd); err != nil {
		return pipeline.Error{File: a.frame.plan.File, Pos: a.step.Cwd.Pos, Msg: err.Error()}
	}
	a.pinned = true
	return nil
}

// checkWorkspace fails if the workspace was removed, or is no directory any more. An agent
// would take that for its own program not being there.
func checkWorkspace(dir string) error {
	info, err := disk.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	if err == nil {
		return nil
	}
	return &agents.Problem{
		Cause: agents.CauseConfig, Message: "the workspace cannot be used: " + err.Error(),
		Hint: "bring the directory back, then resume the run",
	}
}

// insideWorkspace resolves cwd, which must be an existing directory in workspace.
func insideWorkspace(workspace, cwd string) (string, error) {
	if cwd == "" {
		return "", errors.New("cwd is empty; write . for the workspace itself")
	}
	if !filepath.IsLocal(cwd) {
		return "", fmt.Errorf("cwd %q is outside the workspace", cwd)
	}
	top, err := filepath.EvalSymlinks(workspace)
	if err != nil {
		return "", fmt.Errorf("the workspace: %w", err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(top, cwd))
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // the user knows the name
	}
	if err != nil {
		return "", fmt.Errorf("cwd %q: %w", cwd, err)
	}
	rel, err := filepath.Rel(top, dir)
	info, statErr := disk.Stat(dir)
	switch {
	case err != nil || !filepath.IsLocal(rel):
		return "", fmt.Errorf("cwd %q leads outside the workspace", cwd)
	case statErr != nil || !info.IsDir():
		return "", fmt.Errorf("cwd %q is not a directory", cwd)
	}
	return dir, nil
}
