package native

import (
	"path/filepath"
	"slices"
	"strings"
)

// Script is a shell script that runs in cwd, by an agent that works in dir. In another
// directory than dir it counts as one that goes there first: what it names is to be
// understood from there. A cwd that is not absolute is one of dir; "" is dir.
func Script(script, cwd, dir string) string {
	if cwd == "" || dir == "" {
		return script
	}
	if !filepath.IsAbs(cwd) {
		cwd = filepath.Join(dir, cwd)
	}
	if filepath.Clean(cwd) == filepath.Clean(dir) {
		return script
	}
	return "cd " + Quote(cwd) + " && " + script
}

// Quote makes a word of a POSIX shell of s.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// SystemShell reports whether path is a shell that the system has, and not one that lies
// where a model could have put it.
func SystemShell(path string) bool {
	dir, base := filepath.Split(path)
	return slices.Contains([]string{"bash", "sh", "zsh"}, base) &&
		slices.Contains([]string{"", "/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/", "/run/current-system/sw/bin/"}, dir)
}
