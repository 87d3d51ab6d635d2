package workspace

import (
	"context"
	"path/filepath"
)

// A HalfMerge is a merge that was about to change its workspace, or had begun to, when flow
// ended.
type HalfMerge struct {
	Path string // of the step that merges
	Repo string // the workspace, as in [MergeRequest]

	run, runDir string
}

// HalfMerges returns those of the run in a directory. Nothing else is to be done in their
// workspaces before [Git.GoOn] has been: the files there are of neither side.
func HalfMerges(runDir string) ([]HalfMerge, error) {
	all, err := records(runDir)
	if err != nil {
		return nil, err
	}
	var half []HalfMerge
	for _, w := range all {
		if w.Mode != Merging {
			continue
		}
		h := HalfMerge{Path: w.Path, Repo: w.Repo, run: filepath.Base(runDir), runDir: runDir}
		m := h.merge()
		if err := m.load(); err != nil {
			return nil, err
		}
		if m.Target != nil && !m.Done {
			half = append(half, h)
		}
	}
	return half, nil
}

func (h HalfMerge) merge() *merge {
	return &merge{q: MergeRequest{RunDir: h.runDir, Run: h.run, Path: h.Path, Repo: h.Repo}}
}

// GoOn takes the workspace to what the merge had decided on. What it has come to is then
// said by [Git.Merge], which finds no more to do there. A merge whose workspace has
// another HEAD by now is over, or out of date: it is left to that, too.
func (g *Git) GoOn(ctx context.Context, h HalfMerge) error {
	m := h.merge()
	if err := m.load(); err != nil {
		return err
	}
	var err error
	if m.repo, err = g.Open(ctx, h.Repo); err != nil {
		return err
	}
	head, err := m.repo.head(ctx)
	if err != nil || head != m.Head {
		return err
	}
	return m.bring(ctx)
}
