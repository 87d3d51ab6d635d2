// Package workspace does the git work of isolated steps: it makes workspaces of
// their own, says what changed in them, commits it, merges it back and removes what
// is no longer needed.
//
// Every operation may be asked again after flow was killed in the middle of it: what
// was decided is in a small record in the run's directory (see [Workspace]) before
// anything is done, and each step of an operation looks first whether it is done.
//
// # Decisions
//
// The system's git does the work, 2.30 or newer, through an injected [Runner]. The
// user's configuration holds (excludes, filters such as LFS, line ends, identity),
// but no hooks run, nothing is signed, and nothing asks or pages.
//
// A workspace begins by default at what the workspace around it has now, changes that
// are not committed and untracked files included, because agents edit without
// committing. Such a state is a commit on top of HEAD that only the new branch knows.
// Neither the user's index nor a file is touched for it. Ignored files are left
// behind, as are nested repositories; submodules are there but not checked out: a
// setup script may run `git submodule update --init`.
//
// Worktrees live in the run's directory and are locked, so that `git worktree prune`
// lets them be. flow addresses them by their git directory rather than by their
// `.git` file, which an agent may have moved or replaced.
//
// A branch is named flow/<run>/<path>, the path with hyphens for dots: with slashes
// the branch of an item and that of a step inside it could not both exist.
//
// A merge makes commits on the branch of the workspace, and only of what the sources
// changed: what was not committed before is not committed afterwards.
package workspace
