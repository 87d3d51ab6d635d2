package pipeline

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// artifacts decodes the paths to keep. What a template will render to is checked when
// it is rendered, by ArtifactPath.
func (l *loader) artifacts(n *yaml.Node) []Text {
	var out []Text
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		l.failNode(n, "leave the key out", "`artifacts` names no path")
	}
	for _, item := range l.items(n, "`artifacts`") {
		t := l.nonEmpty(item, "a path of `artifacts`")
		if t == nil || strings.TrimSpace(t.Src) == "" {
			continue
		}
		if slices.ContainsFunc(out, func(o Text) bool { return o.Src == t.Src }) {
			l.fail(t.Pos, "", "%q stands twice in `artifacts`", shorten(t.Src))
			continue
		}
		if err := ArtifactPath(t.Src); literal(t.Src) && err != nil {
			l.fail(t.Pos, "name files below the working directory, such as build/*.xml", "artifact %q %s", shorten(t.Src), err)
		}
		out = append(out, *t)
	}
	return out
}

const (
	maxNameBytes   = 255 // of a file, on the usual file systems
	maxDoubleStars = 4   // of a glob: each multiplies the ways to match a path
)

// ArtifactPath says why a path, or a glob with * ? [ ] in its elements and ** for any
// number of them, cannot name artifacts. Whether a link leads out of the directory
// is for those who open it.
func ArtifactPath(p string) error {
	switch {
	case p == "":
		return errors.New("is empty")
	case strings.ContainsFunc(p, unicode.IsControl):
		return errors.New("has a control character")
	case filepath.IsAbs(p) || p == "~" || strings.HasPrefix(p, "~/"):
		return errors.New("must stay inside the working directory: it is absolute")
	case !filepath.IsLocal(p):
		return errors.New("must stay inside the working directory")
	}
	if n := strings.Count(p, "**"); n > maxDoubleStars {
		return fmt.Errorf("has `**` %d times; the limit is %d", n, maxDoubleStars)
	}
	for element := range strings.SplitSeq(p, "/") {
		if err := pathElement(element); err != nil {
			return err
		}
		if _, err := path.Match(element, ""); err != nil {
			return errors.New("is not a valid glob: a [ is not closed, or a backslash ends it")
		}
	}
	return nil
}

// pathElement checks what stands between the slashes of a path or glob.
func pathElement(s string) error {
	switch {
	case s == "..":
		return errors.New("must not go up by `..`")
	case len(s) > maxNameBytes:
		return fmt.Errorf("has a name of %d bytes; a file's has at most %d", len(s), maxNameBytes)
	case s != "**" && strings.Contains(s, "**"):
		return errors.New("has `**` beside other characters; it stands alone between slashes")
	}
	return nil
}
