package native

import "testing"

func TestScript(t *testing.T) {
	for _, c := range []struct{ cwd, dir, want string }{
		{"", "/repo", "ls"},
		{"/repo", "", "ls"},
		{"/repo", "/repo", "ls"},
		{"/repo/", "/repo", "ls"},
		{".", "/repo", "ls"},
		{"/repo/a", "/repo", "cd '/repo/a' && ls"},
		{"a/../.git", "/repo", "cd '/repo/.git' && ls"},
		{"..", "/repo", "cd '/' && ls"},
		{"/it's", "/repo", `cd '/it'\''s' && ls`},
	} {
		if got := Script("ls", c.cwd, c.dir); got != c.want {
			t.Errorf("in %q of %q it is %q, want %q", c.cwd, c.dir, got, c.want)
		}
	}
}

func TestSystemShell(t *testing.T) {
	for path, want := range map[string]bool{
		"sh": true, "/bin/bash": true, "/usr/bin/zsh": true,
		"./sh": false, "/repo/bash": false, "fish": false, "git-sh": false, "": false,
	} {
		if SystemShell(path) != want {
			t.Errorf("%q: %t", path, !want)
		}
	}
}
