package workspace

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"flow/state/disk"
)

// A Repo is a directory tree under git, open for use: a workspace that steps share, or
// an isolated one. It is for one goroutine.
type Repo struct {
	git    *Git
	top    string   // absolute; where the tree begins and git runs
	prefix string   // of the directory that was opened, below top; "" for top itself
	gitDir string   // absolute
	common string   // absolute: where branches and objects are
	env    []string // what tells git where the git directory is
	leave  []string // paths below top, with slashes, that are part of no snapshot
	author []string // see identity; nil: not known yet
}

// Top returns the directory where the tree begins. Paths in changes are relative to it.
func (r *Repo) Top() string { return r.top }

// Open opens the repository that dir is in.
func (g *Git) Open(ctx context.Context, dir string) (*Repo, error) {
	if err := g.checkVersion(ctx); err != nil {
		return nil, err
	}
	if _, err := disk.Stat(dir); err != nil {
		return nil, &Error{Msg: "the workspace cannot be used: " + err.Error(), Hint: "bring the directory back, then resume the run"}
	}
	args := []string{"rev-parse", "--is-bare-repository", "--absolute-git-dir", "--git-common-dir", "--show-prefix", "--show-toplevel"}
	out, err := g.run(ctx, dir, call{args: args})
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(out.Stdout), "\n"), "\n")
	switch {
	case out.Code == 0 && len(lines) == 5:
	case lines[0] == "true":
		return nil, &Error{Msg: dir + " is a bare repository, it has no files", Hint: "run flow in a clone of it"}
	case strings.Contains(out.Stderr, "not a git repository"):
		return nil, &Error{Msg: dir + " is not in a git repository", Hint: "run `git init` and commit, or use `isolation: copy`"}
	default:
		return nil, failure(args, out)
	}
	r := &Repo{git: g, top: lines[4], prefix: strings.TrimSuffix(lines[3], "/"), gitDir: lines[1], common: lines[2]}
	if !filepath.IsAbs(r.common) {
		r.common = filepath.Join(dir, r.common)
	}
	r.leave = inside(r.top, g.exclude)
	return r, nil
}

// inside returns those of dirs that are below top, relative to it, with slashes.
func inside(top string, dirs []string) []string {
	var found []string
	for _, dir := range dirs {
		if rel, err := filepath.Rel(top, dir); err == nil && rel != "." && filepath.IsLocal(rel) {
			found = append(found, filepath.ToSlash(rel))
		}
	}
	return found
}

// isDirectory reports whether there is a directory at path. A disk that does not say is an
// error: what it holds must not be taken for gone.
func isDirectory(path string) (bool, error) {
	info, err := disk.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// OpenWorkspace opens an isolated workspace.
func (g *Git) OpenWorkspace(ctx context.Context, w *Workspace) (*Repo, error) {
	if err := g.checkVersion(ctx); err != nil {
		return nil, err
	}
	for _, dir := range []string{w.Dir, w.GitDir} {
		if ok, err := isDirectory(dir); err != nil {
			return nil, err
		} else if !ok {
			return nil, &Error{Msg: "the workspace of " + w.Path + " is gone: " + dir, Hint: "begin a new run; its branch, if it has one, is " + w.Branch}
		}
	}
	return &Repo{
		git: g, top: w.Dir, gitDir: w.GitDir, common: w.GitDir, leave: w.Copied,
		env: []string{"GIT_DIR=" + w.GitDir, "GIT_WORK_TREE=" + w.Dir},
	}, nil
}

// run runs git in the repository, whatever its exit status.
func (r *Repo) run(ctx context.Context, c call) (Out, error) {
	c.env = append(c.env, r.env...)
	return r.git.run(ctx, r.top, c)
}

// do runs git, which must succeed, and returns what it printed.
func (r *Repo) do(ctx context.Context, c call) ([]byte, error) {
	out, err := r.run(ctx, c)
	if err == nil && out.Code != 0 {
		err = failure(c.args, out)
	}
	return out.Stdout, err
}

// text is do for a command that prints one line.
func (r *Repo) text(ctx context.Context, args ...string) (string, error) {
	out, err := r.do(ctx, call{args: args})
	return strings.TrimSuffix(string(out), "\n"), err
}

// holds runs a command that answers by its exit status: 0 is yes, 1 is no.
func (r *Repo) holds(ctx context.Context, args ...string) (bool, error) {
	out, err := r.run(ctx, call{args: args})
	if err == nil && out.Code != 0 && out.Code != 1 {
		err = failure(args, out)
	}
	return out.Code == 0, err
}

// resolve returns the commit that a name stands for, "" if there is none.
func (r *Repo) resolve(ctx context.Context, name string) (string, error) {
	args := []string{"rev-parse", "--verify", "--quiet", "--end-of-options", name + "^{commit}"}
	out, err := r.run(ctx, call{args: args})
	if err != nil || out.Code == 1 {
		return "", err
	}
	if out.Code != 0 {
		return "", failure(args, out)
	}
	return strings.TrimSpace(string(out.Stdout)), nil
}

// treeOf returns the tree of a commit.
func (r *Repo) treeOf(ctx context.Context, commit string) (string, error) {
	return r.text(ctx, "rev-parse", "--verify", "--end-of-options", commit+"^{tree}")
}

// ancestor reports whether a is b or one of its ancestors.
func (r *Repo) ancestor(ctx context.Context, a, b string) (bool, error) {
	if a == b {
		return true, nil
	}
	return r.holds(ctx, "merge-base", "--is-ancestor", a, b)
}

// commitTree makes a commit of a tree.
func (r *Repo) commitTree(ctx context.Context, tree, message string, parents ...string) (string, error) {
	env, err := r.identity(ctx)
	if err != nil {
		return "", err
	}
	args := []string{"commit-tree", tree}
	for _, p := range parents {
		args = append(args, "-p", p)
	}
	out, err := r.do(ctx, call{args: append(args, "-F", "-"), env: env, stdin: []byte(message + "\n")})
	return strings.TrimSpace(string(out)), err
}

// identity is the environment that makes flow the author, where neither the
// repository nor the environment names one.
func (r *Repo) identity(ctx context.Context) ([]string, error) {
	if r.author != nil {
		return r.author, nil
	}
	out, err := r.run(ctx, call{args: []string{"config", "--get-regexp", `^user\.(name|email)$`}})
	if err != nil {
		return nil, err
	}
	said := string(out.Stdout)
	if strings.Contains(said, "user.name ") && strings.Contains(said, "user.email ") {
		r.author = []string{}
		return r.author, nil
	}
	env := []string{}
	for _, who := range []string{"GIT_AUTHOR_", "GIT_COMMITTER_"} {
		for _, v := range []string{who + "NAME=flow", who + "EMAIL=flow@localhost"} {
			if name, _, _ := strings.Cut(v, "="); !has(r.git.environ, name) {
				env = append(env, v)
			}
		}
	}
	r.author = env
	return env, nil
}

func has(env []string, name string) bool {
	for _, v := range env {
		if strings.HasPrefix(v, name+"=") {
			return true
		}
	}
	return false
}
