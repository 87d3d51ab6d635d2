package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"flow/state/disk"
	"flow/state/failpoint"
)

// target is where a merge takes the workspace. With it on the disk, an interruption
// half way is no harm: what was begun is done again.
type target struct {
	Before string `json:"before"` // the tree of the workspace's files
	After  string `json:"after"`  // that they are to have
}

// aim decides what the workspace's files are to be: the merged ones, with what is not
// committed brought over. It refuses what would overwrite anything.
func (m *merge) aim(ctx context.Context) error {
	state, err := m.repo.snapshotCommit(ctx, m.Head)
	if err != nil {
		return err
	}
	t := &target{}
	if t.Before, err = m.repo.treeOf(ctx, state); err != nil {
		return err
	}
	if t.After, err = m.repo.treeOf(ctx, m.last()); err != nil {
		return err
	}
	if state != m.Head {
		if t.After, err = m.carry(ctx, t.Before); err != nil {
			return err
		}
	}
	change, err := m.repo.compare(ctx, t.Before, t.After)
	if err != nil {
		return err
	}
	if err := change.free(m.repo.top); err != nil {
		return err
	}
	m.Target = t
	return m.save()
}

// carry brings what is not committed over to the merged files, and returns the tree.
func (m *merge) carry(ctx context.Context, dirty string) (string, error) {
	files, err := m.pick(ctx, dirty, m.Head, "What is not committed")
	if err != nil {
		return "", err
	}
	if len(files) > 0 {
		return "", &Error{
			Msg:  fmt.Sprintf("changes of the workspace that are not committed clash with the merged ones, in %s; the workspace is unchanged", listed(files)),
			Hint: "commit them or put them aside (git stash -u), then resume the run",
		}
	}
	return m.tree.Snapshot(ctx)
}

// bring takes the workspace to the target: files, index, and last HEAD, which says that
// all is done.
func (m *merge) bring(ctx context.Context) error {
	files, err := m.repo.compare(ctx, m.Target.Before, m.Target.After)
	if err != nil {
		return err
	}
	if err := m.repo.writeFiles(ctx, files, m.Target.After); err != nil {
		return err
	}
	if err := syncAll(ctx, m.repo.top); err != nil { // before HEAD says that they are there
		return err
	}
	failpoint.Reach("merge-files-written")
	entries, err := m.repo.compare(ctx, m.Head, m.last())
	if err != nil {
		return err
	}
	if err := m.repo.writeIndex(ctx, entries, m.q.Run); err != nil {
		return err
	}
	failpoint.Reach("merge-index-written")
	if !m.begun.IsZero() {
		if err := m.repo.outwait(ctx, m.begun); err != nil {
			return err
		}
	}
	out, err := m.repo.run(ctx, call{args: []string{"update-ref", "-m", "flow: merge", "HEAD", m.last(), m.Head}})
	if err == nil && out.Err != nil {
		return failure([]string{"update-ref"}, out)
	}
	if err == nil && out.Code != 0 {
		err = &Error{Msg: "HEAD of the workspace moved during the merge: " + strings.TrimSpace(out.Stderr), Hint: "look at `git status`, then resume the run"}
	}
	return err
}

// difference is what to do with each file to get from one tree to another.
type difference struct {
	remove []string
	write  []string
	lines  []byte // for `git update-index --index-info -z`, those that remove first
	added  []string
}

// compare returns the difference between two trees or commits.
func (r *Repo) compare(ctx context.Context, from, to string) (*difference, error) {
	out, err := r.do(ctx, call{args: []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", from, to}})
	if err != nil {
		return nil, err
	}
	d := &difference{}
	var write []byte
	fields := names(out)
	for ; len(fields) >= 2; fields = fields[2:] {
		words, name := strings.Fields(fields[0]), fields[1]
		if len(words) != 5 {
			return nil, fmt.Errorf("git diff-tree printed what flow does not understand: %q", fields[0])
		}
		line := fmt.Sprintf("%s %s\t%s\x00", words[1], words[3], name)
		if words[4] == "D" {
			d.remove, d.lines = append(d.remove, name), append(d.lines, "0 "+words[3]+"\t"+name+"\x00"...)
			continue
		}
		d.write, write = append(d.write, name), append(write, line...)
		if words[4] == "A" {
			d.added = append(d.added, name)
		}
	}
	d.lines = append(d.lines, write...)
	return d, nil
}

// free refuses a difference that would overwrite what no snapshot has: ignored files,
// nested repositories.
func (d *difference) free(top string) error {
	removed := map[string]bool{}
	for _, name := range d.remove {
		removed[name] = true
	}
	for _, name := range d.added {
		for dir := name; dir != "."; dir = path.Dir(dir) {
			info, err := disk.Lstat(filepath.Join(top, dir))
			if err != nil || removed[dir] || dir != name && info.IsDir() {
				continue
			}
			if dir == name && info.IsDir() && onlyHolds(top, dir, removed) {
				continue
			}
			return &Error{
				Msg:  fmt.Sprintf("the merge brings %s, but the workspace has an ignored file or a repository in that place; it is unchanged", name),
				Hint: "move " + filepath.Join(top, dir) + " away, then resume the run",
			}
		}
	}
	return nil
}

// onlyHolds reports whether a directory has nothing but files that will be removed.
func onlyHolds(top, dir string, removed map[string]bool) bool {
	err := filepath.WalkDir(filepath.Join(top, dir), func(name string, e fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(top, name)
		if err = errors.Join(err, relErr); err == nil && !e.IsDir() && !removed[filepath.ToSlash(rel)] {
			err = fs.ErrExist
		}
		return err
	})
	return err == nil
}

// writeFiles makes the files that differ those of the tree to.
func (r *Repo) writeFiles(ctx context.Context, d *difference, to string) error {
	root, err := disk.OpenRoot(r.top)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range slices.Backward(d.remove) {
		if !realParents(root, name) {
			continue // removed before: what is there now belongs to the result
		}
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) && !isDir(root, name) {
			return &Error{Msg: fmt.Sprintf("the merge cannot remove %s: %v", name, err), Hint: "resume the run when it can; the merge will go on"}
		}
		for dir := path.Dir(name); dir != "." && root.Remove(dir) == nil; dir = path.Dir(dir) {
			continue // only empty directories can be removed
		}
	}
	if len(d.write) == 0 {
		return nil
	}
	return r.withIndex(func(index string) error {
		env := []string{"GIT_INDEX_FILE=" + index + ".files"}
		if _, err := r.do(ctx, call{args: []string{"read-tree", to}, env: env}); err != nil {
			return err
		}
		list := []byte(strings.Join(d.write, "\x00") + "\x00")
		_, err := r.do(ctx, call{args: []string{"checkout-index", "--force", "-z", "--stdin"}, env: env, stdin: list})
		return err
	})
}

// realParents reports whether all that name is below are directories, not links to some.
func realParents(root *disk.Root, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if !isDir(root, dir) {
			return false
		}
	}
	return true
}

func isDir(root *disk.Root, name string) bool {
	info, err := root.Lstat(name)
	return err == nil && info.IsDir()
}

// writeIndex enters what differs into the index. Other entries stay as they are,
// staged or not. run is the run that does it.
func (r *Repo) writeIndex(ctx context.Context, d *difference, run string) error {
	return r.withIndex(func(index string) error {
		env := []string{"GIT_INDEX_FILE=" + index}
		if _, err := r.do(ctx, call{args: []string{"update-index", "-z", "--index-info"}, env: env, stdin: d.lines}); err != nil {
			return err
		}
		// Times and sizes; its exit status says that some files differ.
		if _, err := r.run(ctx, call{args: []string{"update-index", "-q", "--refresh"}, env: env}); err != nil {
			return err
		}
		return r.swapIndex(index, run)
	})
}

// swapIndex puts index in place of the workspace's own, under git's lock. The lock is a
// link to a file that only this run has: one that a killed flow left is known by it.
func (r *Repo) swapIndex(index, run string) error {
	own := filepath.Join(r.gitDir, "index")
	mine, lock := own+".flow-"+run, own+".lock"
	if same(mine, lock) {
		if err := disk.Remove(lock); err != nil {
			return err
		}
	}
	if err := disk.RemoveAll(mine); err != nil { // it may be a second name of the index
		return err
	}
	if err := keepIndex(index, mine); err != nil {
		return err
	}
	err := disk.Link(mine, lock)
	if errors.Is(err, fs.ErrExist) {
		err = &Error{
			Msg:  "git's index is locked: " + lock,
			Hint: "another git is at work there; if none is, remove that file; then resume the run: the merge will go on",
		}
	}
	if err == nil {
		err = disk.Rename(lock, own)
	}
	if err != nil && same(mine, lock) {
		if left := disk.Remove(lock); left != nil {
			return errors.Join(err, left) // mine stays, by which the lock is known
		}
	}
	return errors.Join(err, disk.RemoveAll(mine))
}

// same reports whether two names are of one file.
func same(a, b string) bool {
	one, err := disk.Lstat(a)
	if err != nil {
		return false
	}
	other, err := disk.Lstat(b)
	return err == nil && os.SameFile(one, other)
}
