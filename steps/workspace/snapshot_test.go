package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each case changes the workspace; the changes found must be those listed, and the
// patch applied to what was before must give the same tree.
func TestChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, script string
		want           []FileChange
	}{
		"nothing": {"", "true", []FileChange{}},
		"edited in the same tick": {
			"git config core.trustctime false; touch -d @1000 dir/b.txt; git update-index -q --refresh; touch -d @1000 .git/index",
			"echo c > dir/b.txt; touch -d @1000 dir/b.txt",
			[]FileChange{{Path: "dir/b.txt", Kind: Modified, Added: 1, Deleted: 1}},
		},
		"edited":                      {"", "echo x >> dir/b.txt", []FileChange{{Path: "dir/b.txt", Kind: Modified, Added: 1}}},
		"staged":                      {"", "echo x >> dir/b.txt; git add .", []FileChange{{Path: "dir/b.txt", Kind: Modified, Added: 1}}},
		"staged and taken back":       {"", "echo x >> dir/b.txt; git add .; echo b > dir/b.txt", []FileChange{}},
		"committed":                   {"", "echo x >> dir/b.txt; git commit -qam x", []FileChange{{Path: "dir/b.txt", Kind: Modified, Added: 1}}},
		"new":                         {"", "mkdir n; echo x > n/x", []FileChange{{Path: "n/x", Kind: Added, Added: 1}}},
		"ignored":                     {"", "echo x > x.log", []FileChange{}},
		"deleted":                     {"", "rm dir/b.txt", []FileChange{{Path: "dir/b.txt", Kind: Deleted, Deleted: 1}}},
		"removed from the index only": {"", "git rm -q --cached dir/b.txt", []FileChange{}},
		"renamed":                     {"", "git mv a.txt z.txt; echo ten >> z.txt", []FileChange{{Path: "z.txt", OldPath: "a.txt", Kind: Renamed, Added: 1}}},
		"renamed, not staged":         {"", "mv a.txt z.txt", []FileChange{{Path: "z.txt", OldPath: "a.txt", Kind: Renamed}}},
		"intent to add":               {"", "echo x > n; git add -N n", []FileChange{{Path: "n", Kind: Added, Added: 1}}},
		"mode":                        {"", "chmod +x a.txt", []FileChange{{Path: "a.txt", Kind: Modified}}},
		"link":                        {"", "ln -s nowhere l", []FileChange{{Path: "l", Kind: Added, Added: 1}}},
		"file to link":                {"", "rm dir/b.txt; ln -s x dir/b.txt", []FileChange{{Path: "dir/b.txt", Kind: Modified, Added: 1, Deleted: 1}}},
		"directory to link":           {"", "mkdir e; echo b > e/b.txt; git rm -q --cached dir/b.txt; git reset -q; rm -r dir; ln -s e dir", []FileChange{{Path: "dir", Kind: Added, Added: 1}, {Path: "e/b.txt", OldPath: "dir/b.txt", Kind: Renamed}}},
		"file to directory":           {"", "rm a.txt; mkdir a.txt; echo x > a.txt/x", []FileChange{{Path: "a.txt", Kind: Deleted, Deleted: 9}, {Path: "a.txt/x", Kind: Added, Added: 1}}},
		"directory to file":           {"", "rm -r dir; printf 'x\\ny\\n' > dir", []FileChange{{Path: "dir", Kind: Added, Added: 2}, {Path: "dir/b.txt", Kind: Deleted, Deleted: 1}}},
		"file to nested repository":   {"", "rm a.txt; git init -q a.txt", []FileChange{{Path: "a.txt", Kind: Deleted, Deleted: 9}}},
		"empty directory":             {"", "mkdir -p e/f", []FileChange{}},
		"binary":                      {"", `printf 'a\000b' > bin`, []FileChange{{Path: "bin", Kind: Added, Binary: true}}},
		"no newline at the end":       {"", "printf x > n", []FileChange{{Path: "n", Kind: Added, Added: 1}}},
		"names": {"", `echo x > "$(printf 'a\nb')"; echo x > 'q"uo	te'; echo x > "$(printf '\377')"; echo x > -n; echo x > ':(top)'`, []FileChange{
			{Path: "-n", Kind: Added, Added: 1},
			{Path: ":(top)", Kind: Added, Added: 1},
			{Path: "a\nb", Kind: Added, Added: 1},
			{Path: "q\"uo\tte", Kind: Added, Added: 1},
			{Path: "\xff", Kind: Added, Added: 1},
		}},
		"unmerged": {
			"git checkout -q -b o; echo o > dir/b.txt; git commit -qam o; git checkout -q main; echo m > dir/b.txt; git commit -qam m",
			"git merge -q o >/dev/null || true; test -n \"$(git ls-files -u)\"",
			[]FileChange{{Path: "dir/b.txt", Kind: Modified, Added: 4}},
		},
		"CRLF in a repository of LF": {"git config core.autocrlf input; git config core.safecrlf true", `printf 'b\r\nc\r\n' > dir/b.txt`, []FileChange{{Path: "dir/b.txt", Kind: Modified, Added: 1}}},
		"a filter":                   {"git config filter.up.clean 'tr a-z A-Z'; echo '*.up filter=up' > .gitattributes", "echo x > f.up", []FileChange{{Path: "f.up", Kind: Added, Added: 1}}},
		"a nested repository":        {"", "git init -q n; git -C n commit -q --allow-empty -m n; echo x > n/x; git init -q empty", []FileChange{}},
		"a nested worktree":          {"", "git worktree add -q wt; echo x > wt/x", []FileChange{}},
		"a stale lock":               {"", "touch .git/index.lock; echo x >> dir/b.txt", []FileChange{{Path: "dir/b.txt", Kind: Modified, Added: 1}}},
		"tracked and ignored":        {"echo x > t.log; git add -f t.log; git commit -qm t", "echo y >> t.log", []FileChange{{Path: "t.log", Kind: Modified, Added: 1}}},
		"tracked and newly ignored":  {"", "echo dir >> .gitignore", []FileChange{{Path: ".gitignore", Kind: Modified, Added: 1}}},
		"assume unchanged":           {"git update-index --assume-unchanged a.txt", "rm a.txt", []FileChange{}},
		"out of a sparse checkout":   {"git sparse-checkout set --no-cone /a.txt", "mkdir dir; echo x > dir/x", []FileChange{{Path: "dir/x", Kind: Added, Added: 1}}},
		"a hook and a pager":         {"git config core.pager false; git config diff.external false; git config diff.noprefix true; git config color.ui always", "echo x >> dir/b.txt", []FileChange{{Path: "dir/b.txt", Kind: Modified, Added: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.sh(l.repo, c.before+"\n")
			r := l.open(l.repo)
			from, err := r.Snapshot(t.Context())
			l.check(err)
			l.sh(l.repo, c.script)
			objects := l.sh(l.repo, "git cat-file --batch-all-objects --batch-check")
			changed, err := r.Changed(t.Context(), from)
			l.check(err)
			if after := l.sh(l.repo, "git cat-file --batch-all-objects --batch-check"); after != objects {
				t.Errorf("to look for changes made objects of git:\n%s\nwere\n%s", after, objects)
			}
			before := l.sh(l.repo, "GIT_OPTIONAL_LOCKS=0 git status --porcelain; cksum < .git/index; git stash list")
			to, err := r.Snapshot(t.Context())
			l.check(err)
			if after := l.sh(l.repo, "GIT_OPTIONAL_LOCKS=0 git status --porcelain; cksum < .git/index; git stash list"); after != before {
				t.Errorf("the snapshot changed the workspace:\n%s\nwas\n%s", after, before)
			}
			patch := filepath.Join(l.dir, "patch")
			changes, err := r.Diff(t.Context(), from, to, patch)
			l.check(err)
			if diff := cmp.Diff(c.want, changes.Files); diff != "" {
				t.Error(diff)
			}
			for _, f := range changes.Files {
				if (f.Kind != Deleted) != slices.Contains(changed, f.Path) || f.OldPath != "" && slices.Contains(changed, f.OldPath) {
					t.Errorf("%s was %s, and found are %q", f.Path, f.Kind, changed)
				}
			}
			index := "export GIT_INDEX_FILE=../index; git read-tree " + from + "; test ! -s ../patch || git apply --cached ../patch; git write-tree"
			if got := strings.TrimSpace(l.sh(l.repo, index)); got != to {
				data, _ := os.ReadFile(patch)
				t.Errorf("the patch gives %s, want %s:\n%s", got, to, data)
			}
		})
	}
}

func TestStateIsNoPartOfASnapshot(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	q := l.request("fix")
	q.RunDir = filepath.Join(l.repo, "state", "r1")
	l.runDir = q.RunDir
	l.git = l.with(execRunner{})
	_, err := l.git.Create(t.Context(), q)
	l.check(err)
	l.write("state/index.jsonl", "{}\n")
	r := l.open(l.repo)
	tree, err := r.Snapshot(t.Context())
	l.check(err)
	if want := strings.TrimSpace(l.sh(l.repo, "git rev-parse HEAD^{tree}")); tree != want {
		t.Errorf("the snapshot has\n%s", l.sh(l.repo, "git ls-tree -r "+tree))
	}
}

func TestTextIsCutAtALine(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.open(l.repo)
	from, err := r.Snapshot(t.Context())
	l.check(err)
	l.write("big.txt", strings.Repeat("0123456789\n", 1000))
	to, err := r.Snapshot(t.Context())
	l.check(err)
	c, err := r.Diff(t.Context(), from, to, filepath.Join(l.dir, "patch"))
	l.check(err)
	text, cut, err := c.Text(1000)
	l.check(err)
	if !cut || len(text) > 1000 || !strings.HasSuffix(text, "+0123456789\n") || c.Size < 11000 {
		t.Errorf("cut %v, %d of %d bytes", cut, len(text), c.Size)
	}
	if whole, cut, err := c.Text(1 << 20); err != nil || cut || int64(len(whole)) != c.Size {
		t.Errorf("cut %v, %d of %d bytes, %v", cut, len(whole), c.Size, err)
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	r := l.open(l.repo)
	from, err := r.Snapshot(t.Context())
	l.check(err)
	l.sh(l.repo, `printf 'a\000b' > bin; echo x >> a.txt; rm dir/b.txt`)
	want := files(l.repo)
	to, err := r.Snapshot(t.Context())
	l.check(err)
	patch := filepath.Join(l.dir, "patch")
	_, err = r.Diff(t.Context(), from, to, patch)
	l.check(err)
	l.sh(l.repo, "git reset -q --hard; git clean -fdq")
	for range 2 { // the second time it is there already
		l.check(r.Apply(t.Context(), patch))
		if diff := cmp.Diff(want, files(l.repo)); diff != "" {
			t.Error(diff)
		}
	}
	l.sh(l.repo, "git reset -q --hard; git clean -fdq; seq 9 > a.txt")
	before := files(l.repo)
	if err := r.Apply(t.Context(), patch); err == nil || files(l.repo) != before {
		t.Errorf("a patch that does not fit: %v", err)
	}
}

func TestParseChangesRefusesNonsense(t *testing.T) {
	for _, out := range []string{":", ":100644 100644 a b M", "x", "1\t2\tname", ":a b c d R100\x00one", ":1 2 3 4 M\x00p\x001\t2\t\x00"} {
		if c, err := parseChanges([]byte(out)); err == nil {
			t.Errorf("%q gives %+v", out, c)
		}
	}
}

func TestOlder(t *testing.T) {
	for version, want := range map[string]bool{
		"2.29.3": true, "1.9": true, "2.30.0": false, "2.39.5 (Apple Git-154)": false, "3.0": false, "2.4": true, "2.51.0.rc1": false, "next": false,
	} {
		if older(version, minVersion) != want {
			t.Errorf("%s older: %v", version, !want)
		}
	}
}
