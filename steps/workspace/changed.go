package workspace

import (
	"context"
	"fmt"
	"strings"
)

// Changed lists the files, by their paths from Top, that [Repo.Snapshot] would have otherwise
// than a tree or commit has them. It may name some that are as they were, and none that are
// gone: a link may be where their directory was. Nothing is written: what stands in the files
// gets into no object of git.
func (r *Repo) Changed(ctx context.Context, since string) (paths []string, err error) {
	if !isObjectID(since) {
		return nil, fmt.Errorf("changes since %q: not the id of a tree or commit", since)
	}
	err = r.withIndex(func(index string) error {
		env := []string{"GIT_INDEX_FILE=" + index}
		known, err := r.do(ctx, call{args: []string{"diff-index", "-z", "--name-only", "--no-renames", "--diff-filter=d", "--no-ext-diff", "--ignore-submodules", since}, env: env})
		if err != nil {
			return err
		}
		others, err := r.untracked(ctx, env)
		paths = strings.FieldsFunc(string(known)+string(others), func(c rune) bool { return c == 0 })
		return err
	})
	return paths, err
}
