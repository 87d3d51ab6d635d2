package pipeline

import (
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"
)

func isolations() []string { return []string{"none", "worktree", "copy"} }

func worktreeTable() []key {
	return []key{
		{"base", "The branch, tag or commit that it begins at; default: what the workspace around it has now. A template.", text()},
		{"copy", "Untracked files to take along: paths and globs.", oneOrMore(text())},
		{"setup", "A script to run in it first. A template, as `run`.", text()},
	}
}

// worktree decodes {base, copy, setup}.
func (l *loader) worktree(nd *node, n *yaml.Node) {
	iso := &Isolation{}
	nd.step.Isolation = iso
	l.fields(n, "`worktree`", worktreeTable(), func(e entry) {
		switch e.key {
		case "base":
			iso.Base = l.base(e.val)
		case "copy":
			iso.Copy = l.copied(e.val)
		case "setup":
			iso.Setup = l.nonEmpty(e.val, "`worktree.setup`")
		}
	})
}

// base is a revision of git. One that git would read as an option is refused.
func (l *loader) base(n *yaml.Node) *Text {
	t := l.nonEmpty(n, "`worktree.base`")
	if t != nil && literal(t.Src) && (strings.HasPrefix(t.Src, "-") || strings.ContainsAny(t.Src, " \t\n")) {
		l.fail(t.Pos, "name a branch, tag or commit", "`worktree.base` %q is not a revision", shorten(t.Src))
	}
	return t
}

func (l *loader) copied(n *yaml.Node) []string {
	var out []string
	for _, item := range l.items(n, "`worktree.copy`") {
		path := l.plain(item, "`worktree.copy`")
		if path == "" {
			continue
		}
		if !filepath.IsLocal(path) {
			l.failNode(item, "give a path below it, such as .env", "`worktree.copy` %q is outside of the workspace", shorten(path))
		}
		out = append(out, path)
	}
	return out
}

// settleIsolation brings `isolation` and `worktree` together.
func (l *loader) settleIsolation(nd *node) {
	st, mode := nd.step, nd.ctl.mode
	details, given := nd.keys["worktree"]
	switch {
	case mode == "worktree" || mode == "copy":
		if st.Isolation == nil {
			st.Isolation = &Isolation{}
		}
		st.Isolation.Mode = mode
		if mode == "copy" && st.Isolation.Base != nil {
			l.fail(st.Isolation.Base.Pos, "write `isolation: worktree`, or remove `base`", "a copy begins with the files as they are and has no `base`")
		}
	case given && (mode == "none" || !nd.declared("isolation")):
		l.fail(details, "add isolation: worktree", "`worktree` without `isolation`")
	}
}

func (l *loader) checkIsolation(nd *node) {
	iso := nd.step.Isolation
	if iso == nil {
		return
	}
	if iso.Base != nil {
		l.checkText(*iso.Base, site{node: nd, stand: perItem, what: "`worktree.base`"})
	}
	if iso.Setup != nil {
		l.scriptText(*iso.Setup, site{node: nd, stand: perItem, what: "`worktree.setup`"}, "")
	}
}

// workspaceOf returns the step whose isolation a step works in: itself or a group around
// it. nil: the workspace that the pipeline was given.
func workspaceOf(nd *node) *node {
	if nd.step.Isolation != nil {
		return nd
	}
	return around(nd, func(o *node) bool { return o.step.Isolation != nil })
}
