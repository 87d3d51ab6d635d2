package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"flow/state/disk"
	"flow/state/failpoint"
)

// MergeRequest says what to merge into a shared workspace.
type MergeRequest struct {
	RunDir string
	Run    string
	Path   string // of the step that merges
	Repo   string // the workspace to merge into, absolute
	// Sources are worktrees that were committed, in the order in which to merge them.
	Sources []*Workspace
	// Resolve edits the files of a conflict in dir, a worktree of its own, until they are
	// as they should be. Without it, a conflict ends the merge.
	Resolve func(ctx context.Context, dir string, c Conflict) error
	Now     time.Time
}

// A Conflict is what a branch and the workspace both changed.
type Conflict struct {
	Branch string
	Step   string   // whose branch it is
	Files  []string // relative to the worktree's top, with slashes
}

// A ConflictError ends a merge. The workspace is as it was before.
type ConflictError struct {
	Conflict
	Unresolved string // what is wrong with the resolution, if there was one
}

// Error names the branch and the files.
func (e *ConflictError) Error() string {
	text := fmt.Sprintf("merging %s (step %s) conflicts in %s", e.Branch, e.Step, listed(e.Files))
	if e.Unresolved != "" {
		text += ", and the resolution is not usable: " + e.Unresolved
	}
	return text + "; the workspace is unchanged"
}

// listed names the first of many.
func listed(names []string) string {
	const most = 20
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// Merged is the outcome of a merge.
type Merged struct {
	Commit    string   // HEAD of the workspace, with everything in it
	Merged    []string // the branches
	Conflicts []string // files in which there were conflicts
	Resolved  bool     // there were conflicts, and Resolve settled them
}

// Merge brings branches into the workspace, all or none: they are merged in a worktree
// of their own, and the result goes to the workspace at the end. HEAD of the workspace
// and its branch move forward, to commits that hold what the sources changed. What was
// not committed in the workspace stays that way; where it clashes with a source the
// merge is refused.
//
// Asked again after an interruption it goes on; what was resolved is kept. Asked again
// after its end it does nothing.
func (g *Git) Merge(ctx context.Context, q MergeRequest) (*Merged, error) {
	repo, err := g.Open(ctx, q.Repo)
	if err != nil {
		return nil, err
	}
	m := &merge{g: g, q: q, repo: repo}
	if err := m.load(); err != nil {
		return nil, err
	}
	head, err := repo.head(ctx)
	if err != nil {
		return nil, err
	}
	tips, err := m.tips(ctx)
	if err != nil {
		return nil, err
	}
	if done, err := m.finished(ctx, head, tips); done || err != nil {
		return m.result(), err
	}
	if m.Head != head || m.Done {
		m.progress = progress{Head: head}
	}
	if m.Target == nil {
		if err := m.prepare(ctx, tips); err != nil {
			return nil, err
		}
	}
	if m.Target != nil {
		if err := m.bring(ctx); err != nil {
			return nil, err
		}
	}
	return m.result(), m.finish(ctx)
}

// merge is one under way.
type merge struct {
	progress
	g    *Git
	q    MergeRequest
	repo *Repo      // the workspace
	file string     // of progress
	w    *Workspace // where the branches are merged
	tree *Repo      // w, open
	// begun is when an earlier call was about to touch the workspace; zero: none was.
	begun time.Time
}

// progress is what is kept of a merge, so that it can go on.
type progress struct {
	Head   string   `json:"head"` // of the workspace, when it began
	Tips   []string `json:"tips"` // of the sources
	Parts  []part   `json:"parts,omitempty"`
	Target *target  `json:"target,omitempty"` // set before the workspace is touched
	Done   bool     `json:"done,omitempty"`
}

// part is a source that was merged.
type part struct {
	Branch    string   `json:"branch"`
	Tip       string   `json:"tip"`
	Commit    string   `json:"commit"` // what HEAD of the merge is after it
	Squashed  bool     `json:"squashed,omitempty"`
	Conflicts []string `json:"conflicts,omitempty"`
}

func (m *merge) load() error {
	m.file = strings.TrimSuffix(recordFile(m.q.RunDir, m.q.Path, Merging), recordExt) + ".progress"
	if err := loadJSON(m.file, &m.progress); err != nil || m.Target == nil {
		return err
	}
	info, err := disk.Stat(m.file)
	if err == nil {
		m.begun = info.ModTime()
	}
	return err
}

func (m *merge) save() error {
	err := saveJSON(m.file, m.progress)
	failpoint.Reach("merge-progress")
	return err
}

// last is the commit that everything so far is in.
func (m *merge) last() string {
	if len(m.Parts) == 0 {
		return m.Head
	}
	return m.Parts[len(m.Parts)-1].Commit
}

func (m *merge) result() *Merged {
	r := &Merged{Commit: m.last()}
	for _, p := range m.Parts {
		r.Merged = append(r.Merged, p.Branch)
		r.Conflicts = append(r.Conflicts, p.Conflicts...)
	}
	slices.Sort(r.Conflicts)
	r.Conflicts = slices.Compact(r.Conflicts)
	r.Resolved = len(r.Conflicts) > 0
	return r
}

// finished reports whether the merge has come to its end before, with the same tips.
func (m *merge) finished(ctx context.Context, head string, tips []string) (bool, error) {
	same := slices.EqualFunc(m.Tips, tips, func(old, now string) bool { return old == now || now == "" })
	switch {
	case m.Done && same:
		return m.repo.ancestor(ctx, m.last(), head)
	case m.Done:
		return false, nil
	case m.Target == nil:
		return false, nil
	}
	moved, err := m.repo.ancestor(ctx, m.last(), head) // and then perhaps by others
	if err != nil || !moved {
		return false, err
	}
	return true, m.finish(ctx) // only the tidying up is left
}

// finish notes that the merge is complete and removes the worktree.
func (m *merge) finish(ctx context.Context) error {
	for _, s := range m.q.Sources {
		i := slices.IndexFunc(m.Parts, func(p part) bool { return p.Branch == s.Branch })
		if i < 0 || !m.Parts[i].Squashed {
			continue // the history shows it
		}
		s.MergedTip, s.MergedAs = m.Parts[i].Tip, m.Parts[i].Commit
		if err := s.save(); err != nil {
			return err
		}
	}
	if err := m.drop(ctx); err != nil {
		return err
	}
	m.Done = true
	return m.save()
}

// drop removes the worktree of the merge.
func (m *merge) drop(ctx context.Context) error {
	w, err := Load(m.q.RunDir, m.q.Path, Merging)
	if w == nil || err != nil {
		return err
	}
	if err := m.repo.dropWorktree(ctx, w); err != nil {
		return err
	}
	return disk.RemoveAll(w.recordFile())
}

// prepare merges all sources and decides what becomes of the workspace's files.
func (m *merge) prepare(ctx context.Context, tips []string) error {
	if err := m.repo.idle(); err != nil {
		return err
	}
	for i, s := range m.q.Sources {
		if tips[i] == "" {
			return &Error{Msg: "the branch " + s.Branch + " of step " + s.Path + " is gone", Hint: "restore it: git branch " + s.Branch + " COMMIT; then resume the run"}
		}
	}
	m.keepParts(tips)
	m.Tips = tips
	if err := m.open(ctx); err != nil {
		return err
	}
	for i, s := range m.q.Sources {
		if slices.ContainsFunc(m.Parts, func(p part) bool { return p.Branch == s.Branch }) {
			continue
		}
		if err := m.one(ctx, s, tips[i]); err != nil {
			return m.abandoned(ctx, err)
		}
		if err := m.save(); err != nil {
			return err
		}
	}
	if m.last() == m.Head {
		return nil
	}
	return m.abandoned(ctx, m.aim(ctx))
}

// abandoned removes the worktree of a merge that cannot be. What was merged so far is
// kept for another try.
func (m *merge) abandoned(ctx context.Context, err error) error {
	switch err.(type) { //nolint:errorlint // made here, and not wrapped
	case *Error, *ConflictError:
		if dropErr := m.drop(ctx); dropErr != nil {
			return dropErr
		}
	}
	return err
}

// idle refuses a workspace in which somebody is in the middle of something.
func (r *Repo) idle() error {
	for name, what := range map[string]string{
		"MERGE_HEAD": "merge", "CHERRY_PICK_HEAD": "cherry-pick", "REVERT_HEAD": "revert", "rebase-merge": "rebase", "rebase-apply": "rebase",
	} {
		if _, err := disk.Lstat(filepath.Join(r.gitDir, name)); err == nil {
			return &Error{Msg: "a " + what + " is under way in the workspace " + r.top, Hint: "conclude it, or: git " + what + " --abort; then resume the run"}
		}
	}
	return nil
}

// tips are the last commits of the sources, "" where the branch is gone.
func (m *merge) tips(ctx context.Context) ([]string, error) {
	var tips []string
	for _, s := range m.q.Sources {
		if s.Mode != Worktree {
			return nil, &Error{Msg: "step " + s.Path + " worked in a copy, which has no branch", Hint: "use `isolation: worktree`"}
		}
		tip, err := m.repo.resolve(ctx, branchRef(s.Branch))
		if err != nil {
			return nil, err
		}
		tips = append(tips, tip)
	}
	return tips, nil
}

// keepParts forgets the parts from where the sources are others than before.
func (m *merge) keepParts(tips []string) {
	next := 0
	for n, p := range m.Parts {
		for next < len(tips) && m.q.Sources[next].Branch != p.Branch {
			next++
		}
		if next == len(tips) || tips[next] != p.Tip {
			m.Parts = m.Parts[:n]
			return
		}
	}
}

// open makes the worktree, at what was merged already.
func (m *merge) open(ctx context.Context) (err error) {
	q := Request{RunDir: m.q.RunDir, Run: m.q.Run, Path: m.q.Path, Repo: m.q.Repo, Mode: Merging, Now: m.q.Now}
	if m.w, err = Load(q.RunDir, q.Path, Merging); err != nil {
		return err
	}
	if m.w == nil {
		if m.w, err = m.g.plan(q); err != nil {
			return err
		}
	}
	m.w.Base, m.w.Ready = m.last(), false
	if err := m.w.save(); err != nil {
		return err
	}
	if err := m.repo.addWorktree(ctx, m.w); err != nil {
		return err
	}
	m.w.Ready = true
	if err := m.w.save(); err != nil {
		return err
	}
	m.tree, err = m.g.OpenWorkspace(ctx, m.w)
	return err
}

// one merges a source, unless nothing of it is missing.
func (m *merge) one(ctx context.Context, s *Workspace, tip string) error {
	if needed, err := m.needed(ctx, s, tip); err != nil || !needed {
		return err
	}
	squash, err := m.squashes(ctx, s, tip)
	if err != nil {
		return err
	}
	files, err := m.combine(ctx, s, tip, squash)
	if err != nil {
		return err
	}
	conflict := Conflict{Branch: s.Branch, Step: s.Path, Files: files}
	if len(files) > 0 {
		if err := m.settle(ctx, s, conflict); err != nil {
			return err
		}
		late, done := Linger(ctx) // what was resolved is kept, even if all is to stop
		defer done()
		ctx = late
	}
	parents := []string{m.last(), tip}
	if squash {
		parents = parents[:1]
	}
	tree, err := m.record(ctx, message("Merge "+s.Branch, s.Path), parents...)
	if err != nil {
		return err
	}
	if len(files) > 0 && tree.unchanged {
		return &ConflictError{Conflict: conflict, Unresolved: "nothing of the branch is left"}
	}
	m.Parts = append(m.Parts, part{Branch: s.Branch, Tip: tip, Commit: tree.commit, Conflicts: files, Squashed: squash})
	return nil
}

// needed reports whether a source has something that is not merged.
func (m *merge) needed(ctx context.Context, s *Workspace, tip string) (bool, error) {
	if s.MergedTip == tip {
		if in, err := m.repo.ancestor(ctx, s.MergedAs, m.last()); in || err != nil {
			return false, err
		}
	}
	if in, err := m.repo.ancestor(ctx, tip, m.last()); in || err != nil {
		return false, err
	}
	before, err := m.repo.treeOf(ctx, s.Base)
	if err != nil {
		return false, err
	}
	now, err := m.repo.treeOf(ctx, tip)
	return before != now, err
}

// squashes reports whether a source becomes one commit without its history: that has
// what nobody committed, or it does not lead back to where the workspace began.
func (m *merge) squashes(ctx context.Context, s *Workspace, tip string) (bool, error) {
	if s.Snapshot {
		return true, nil
	}
	descends, err := m.repo.ancestor(ctx, s.Base, tip)
	return !descends, err
}

// combine merges a source into the worktree without a commit, and returns the files
// that conflict. What is squashed is compared with its base: `git merge` would go back
// further, and take for the source's own what the base had already.
func (m *merge) combine(ctx context.Context, s *Workspace, tip string, squash bool) ([]string, error) {
	if !squash {
		return m.threeWay(ctx, "merge", "--no-commit", "--no-ff", "--no-stat", "--quiet", tip)
	}
	tree, err := m.repo.treeOf(ctx, tip)
	if err != nil {
		return nil, err
	}
	return m.pick(ctx, tree, s.Base, s.Branch)
}

// pick brings the difference between the commit base and a tree to the worktree.
func (m *merge) pick(ctx context.Context, tree, base, title string) ([]string, error) {
	change, err := m.tree.commitTree(ctx, tree, title, base)
	if err != nil {
		return nil, err
	}
	return m.threeWay(ctx, "cherry-pick", "--no-commit", change)
}

// threeWay runs a git command that merges, and returns the files that conflict.
func (m *merge) threeWay(ctx context.Context, args ...string) ([]string, error) {
	env, err := m.tree.identity(ctx)
	if err != nil {
		return nil, err
	}
	out, err := m.tree.run(ctx, call{args: args, env: env})
	if err != nil || out.Code == 0 {
		return nil, err
	}
	unmerged, err := m.tree.do(ctx, call{args: []string{"diff", "--name-only", "--diff-filter=U", "-z"}})
	if err != nil {
		return nil, err
	}
	if len(unmerged) == 0 {
		return nil, failure(args, out)
	}
	return names(unmerged), nil
}

// names splits a list of names that end in NUL.
func names(list []byte) []string {
	var all []string
	for name := range bytes.SplitSeq(bytes.TrimSuffix(list, []byte{0}), []byte{0}) {
		if len(name) > 0 {
			all = append(all, string(name))
		}
	}
	return all
}

// settle has a conflict resolved, and checks that it is.
func (m *merge) settle(ctx context.Context, s *Workspace, c Conflict) error {
	if s.Snapshot {
		if err := m.uncommitted(ctx, s, c); err != nil {
			return err
		}
	}
	if m.q.Resolve == nil {
		return &ConflictError{Conflict: c}
	}
	if err := m.q.Resolve(ctx, m.w.Dir, c); err != nil {
		if ctx.Err() == nil { // given up, not interrupted: the next try begins anew
			err = errors.Join(err, m.drop(ctx))
		}
		return err
	}
	for _, name := range c.Files {
		marked, err := hasMarkers(m.w.Dir, name)
		if err != nil {
			return err
		}
		if marked {
			return &ConflictError{Conflict: c, Unresolved: name + " still has conflict markers"}
		}
	}
	return nil
}

// uncommitted refuses a conflict that comes from what the workspace had when the
// source began, without ever committing it: there is nothing to merge into.
func (m *merge) uncommitted(ctx context.Context, s *Workspace, c Conflict) error {
	out, err := m.repo.do(ctx, call{args: []string{"diff-tree", "-r", "-z", "--name-only", s.Base + "^", s.Base}})
	if err != nil {
		return err
	}
	var built []string
	for _, name := range names(out) {
		if slices.Contains(c.Files, name) {
			built = append(built, name)
		}
	}
	if len(built) == 0 {
		return nil
	}
	return &Error{
		Msg:  fmt.Sprintf("step %s builds on changes of the workspace that are not committed, in %s; the workspace is unchanged", s.Path, listed(built)),
		Hint: "commit them before the steps that begin worktrees (`run: git commit -am ...`); now: commit them, then resume the run",
	}
}

// hasMarkers reports whether git's conflict markers are in a file. Those that a file
// may show as an example have other labels.
func hasMarkers(dir, name string) (bool, error) {
	root, err := disk.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return false, nil //nolint:nilerr // removed, which settles it too
	}
	data, err := root.ReadFile(name)
	if err != nil {
		return false, err
	}
	return regexp.MustCompile(`(?m)^(<{7,} HEAD|>{7,} [0-9a-f]{7,64}\b)`).Match(data), nil
}

// recorded is a commit of the worktree's files.
type recorded struct {
	commit    string
	unchanged bool // it has the tree of its first parent
}

// record commits the files of the worktree, whatever an agent did to HEAD or the index.
func (m *merge) record(ctx context.Context, text string, parents ...string) (c recorded, err error) {
	err = m.tree.withIndex(func(index string) error {
		tree, err := m.tree.writeTree(ctx, index)
		if err != nil {
			return err
		}
		before, err := m.tree.treeOf(ctx, parents[0])
		if err != nil {
			return err
		}
		c.unchanged = tree == before
		if c.commit, err = m.tree.commitTree(ctx, tree, text, parents...); err != nil {
			return err
		}
		m.tree.abandon()
		if _, err := m.tree.do(ctx, call{args: []string{"update-ref", "--no-deref", "HEAD", c.commit}}); err != nil {
			return err
		}
		return m.tree.replaceIndex(index)
	})
	return c, err
}
