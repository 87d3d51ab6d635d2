package workspace

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"flow/state/disk"
)

// A Runner runs git. An error means that flow itself cannot go on, or that ctx has
// ended; how git ended is in the Out.
type Runner interface {
	Run(ctx context.Context, c Cmd) (Out, error)
}

// A Cmd is one git process.
type Cmd struct {
	Dir    string   // absolute
	Args   []string // without "git"
	Env    []string // the whole environment
	Stdin  []byte   // nil: nothing
	Stdout string   // the file that takes standard output; "": Out has it
}

// An Out says how a git process ended.
type Out struct {
	Code   int // -1: it was killed or not started
	Stdout []byte
	Stderr string
	Err    error // why it was not started or which signal ended it
}

// An Error says why git cannot do what a step asks: it is the step that fails. Other
// errors of this package mean that flow itself cannot go on.
type Error struct {
	Msg  string
	Hint string // what to do next, or ""
}

// Error returns the message without the hint.
func (e *Error) Error() string { return e.Msg }

// Git makes and looks after workspaces. Its methods may be called concurrently, but
// not two at once for the same workspace.
type Git struct {
	runner  Runner
	environ []string
	scratch string
	exclude []string

	mu    sync.Mutex
	known bool // that git is new enough
}

// Options are what a Git needs.
type Options struct {
	Runner Runner
	// Environ is the environment of git's processes. Of the variables GIT_… only those
	// of configuration, identity and transport pass.
	Environ []string
	// Scratch is a directory for temporary files, made when it is needed. It belongs to
	// this Git: what an earlier one left there is removed.
	Scratch string
	// Exclude are absolute directories that are part of no snapshot or copy: that of
	// flow's state, should it be inside of a workspace.
	Exclude []string
}

// New returns a Git.
func New(o Options) *Git {
	for _, left := range leftovers(o.Scratch) {
		_ = disk.RemoveAll(left) // of a flow that was killed; the next one tries again
	}
	g := &Git{runner: o.Runner, environ: environment(o.Environ), scratch: o.Scratch}
	for _, dir := range o.Exclude {
		g.exclude = append(g.exclude, resolved(dir))
	}
	return g
}

const scratchPrefix = "git-"

func leftovers(scratch string) []string {
	found, _ := filepath.Glob(filepath.Join(scratch, scratchPrefix+"*"))
	return found
}

// temp makes a directory for temporary files. The caller removes it.
func (g *Git) temp() (string, error) {
	if err := disk.MkdirAll(g.scratch, 0o700); err != nil {
		return "", err
	}
	return disk.MkdirTemp(g.scratch, scratchPrefix)
}

// resolved is dir without symbolic links, as git names directories.
func resolved(dir string) string {
	if name, err := filepath.EvalSymlinks(dir); err == nil {
		return name
	}
	return dir
}

// environment is environ with what makes git behave the same everywhere.
func environment(environ []string) []string {
	pass := []string{
		"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_ASKPASS", "GIT_SSH", "GIT_SSH_COMMAND",
		"GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
	}
	env := slices.DeleteFunc(slices.Clone(environ), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return strings.HasPrefix(name, "GIT_") && !slices.Contains(pass, name) || name == "LC_ALL" || name == "LANGUAGE"
	})
	return append(env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_LITERAL_PATHSPECS=1", "GIT_EDITOR=true")
}

// settings are put in front of every command. A hook is code of the repository that
// an agent may have written; the rest is about the same result for everyone.
func settings() []string {
	var args []string
	for _, s := range []string{
		"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.splitIndex=false", "core.safecrlf=false",
		"commit.gpgSign=false", "i18n.commitEncoding=utf-8", "gc.auto=0", "maintenance.auto=false",
		"rerere.enabled=false", "submodule.recurse=false", "merge.conflictStyle=diff3", "merge.renames=true",
		"merge.verifySignatures=false", "advice.detachedHead=false",
		// A step's commit is recorded as done: it must survive a power failure like the record.
		"core.fsync=committed,reference", "core.fsyncMethod=batch",
	} {
		args = append(args, "-c", s)
	}
	return args
}

// A call is one git command of a repository.
type call struct {
	args   []string
	env    []string // besides that of all
	stdin  []byte
	stdout string
}

// run runs git in dir.
func (g *Git) run(ctx context.Context, dir string, c call) (Out, error) {
	return g.runner.Run(ctx, Cmd{
		Dir: dir, Args: append(settings(), c.args...), Env: slices.Concat(g.environ, c.env),
		Stdin: c.stdin, Stdout: c.stdout,
	})
}

// failure is the error of a git command that did not succeed.
func failure(args []string, out Out) error {
	if out.Err != nil {
		hint := "flow needs git " + minVersion + " or newer on the PATH"
		if errors.Is(out.Err, errSignal) {
			hint = "resume the run"
		}
		return &Error{Msg: fmt.Sprintf("git %s: %v", args[0], out.Err), Hint: hint}
	}
	said := strings.TrimSpace(out.Stderr)
	if said == "" {
		said = fmt.Sprintf("exit status %d", out.Code)
	}
	const most = 2000
	if len(said) > most {
		said = said[:most] + " …"
	}
	return &Error{Msg: fmt.Sprintf("git %s: %s", args[0], strings.ToValidUTF8(said, "\uFFFD")), Hint: remedy(said)}
}

// remedy is what to do about an error of the system that git passes on, "" if there is none.
func remedy(said string) string {
	for what, todo := range map[string]string{
		"Read-only file system":   "make the disk that the repository is on writable",
		"No space left on device": "free some space",
		"Disk quota exceeded":     "free some space",
		"Permission denied":       "let flow's user write to the repository",
	} {
		if strings.Contains(said, what) {
			return todo + ", then resume the run"
		}
	}
	return ""
}
