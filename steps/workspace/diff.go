package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"flow/state/disk"
)

// Kind is what happened to a file.
type Kind string

// The kinds. A file that became a symbolic link or changed its mode is modified.
const (
	Added    Kind = "added"
	Modified Kind = "modified"
	Deleted  Kind = "deleted"
	Renamed  Kind = "renamed"
)

// A FileChange is one file that differs between two trees.
type FileChange struct {
	Path    string `json:"path"`              // relative to Repo.Top, with slashes
	OldPath string `json:"oldPath,omitempty"` // of a renamed file
	Kind    Kind   `json:"kind"`
	Binary  bool   `json:"binary,omitempty"`
	Added   int    `json:"added"` // lines
	Deleted int    `json:"deleted"`
}

// Changes are what differs between two trees.
type Changes struct {
	Files []FileChange `json:"files"`
	// Diff is the file with the patch, Size its length in bytes. It is as `git diff
	// --binary -M` prints it, so that `git apply` takes it.
	Diff string `json:"-"`
	Size int64  `json:"size"`
}

// Diff compares two trees or commits. The whole patch, however long, is written to the
// file named, unless that is "".
func (r *Repo) Diff(ctx context.Context, from, to, file string) (*Changes, error) {
	options := []string{"diff-tree", "-r", "-M", "-l1000", "--no-color", "--no-ext-diff", "--no-textconv"}
	if !isObjectID(from) || !isObjectID(to) {
		return nil, fmt.Errorf("diff of %q and %q: not the ids of trees or commits", from, to)
	}
	out, err := r.do(ctx, call{args: append(slices.Clip(options), "-z", "--raw", "--numstat", from, to)})
	if err != nil {
		return nil, err
	}
	c := &Changes{Diff: file}
	if c.Files, err = parseChanges(out); err != nil || file == "" {
		return c, err
	}
	if err := disk.RemoveAll(file); err != nil { // output is appended to what is there
		return nil, err
	}
	if _, err := r.do(ctx, call{args: append(options, "--patch", "--binary", "--full-index", from, to), stdout: file}); err != nil {
		return nil, err
	}
	info, err := disk.Stat(file)
	if err != nil {
		return nil, err
	}
	c.Size = info.Size()
	return c, nil
}

// Text returns the patch, or as many whole lines from its beginning as fit into limit bytes.
func (c *Changes) Text(limit int64) (text string, cut bool, err error) {
	if c.Diff == "" {
		return "", false, errors.New("no diff was written")
	}
	f, err := disk.Open(c.Diff)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil || c.Size <= limit {
		return string(data), false, err
	}
	return string(data[:bytes.LastIndexByte(data, '\n')+1]), true, nil
}

// parseChanges reads what diff-tree prints with -z --raw --numstat: for each file
// ":modes ids STATUS" and its one or two names, then for each "added\tdeleted\tname",
// or with an empty name and two more of a renamed one.
func parseChanges(out []byte) ([]FileChange, error) {
	files := []FileChange{}
	fields := bytes.Split(bytes.TrimSuffix(out, []byte{0}), []byte{0})
	counted := 0
	for len(fields) > 0 && len(fields[0]) > 0 {
		var used int
		if fields[0][0] == ':' {
			f, n := parseRaw(fields)
			files, used = append(files, f), n
		} else if counted < len(files) {
			used = files[counted].count(fields)
			counted++
		}
		if used == 0 || used > len(fields) {
			return nil, fmt.Errorf("git diff-tree printed what flow does not understand: %q", fields[0])
		}
		fields = fields[used:]
	}
	return files, nil
}

// parseRaw reads the first record of fields, and says how many fields it has.
func parseRaw(fields [][]byte) (f FileChange, used int) {
	words := bytes.Fields(fields[0])
	if len(words) != 5 || len(fields) < 2 {
		return f, 0
	}
	f.Path = string(fields[1])
	switch words[4][0] {
	case 'A':
		f.Kind = Added
	case 'D':
		f.Kind = Deleted
	case 'R', 'C':
		if len(fields) < 3 {
			return f, 0
		}
		f.Kind, f.OldPath, f.Path = Renamed, f.Path, string(fields[2])
		return f, 3
	default:
		f.Kind = Modified
	}
	return f, 2
}

// count reads the numbers of lines, and says how many fields it used.
func (f *FileChange) count(fields [][]byte) int {
	parts := bytes.SplitN(fields[0], []byte{'\t'}, 3)
	if len(parts) != 3 {
		return 0
	}
	f.Binary = string(parts[0]) == "-"
	f.Added, _ = strconv.Atoi(string(parts[0])) // 0 for "-"
	f.Deleted, _ = strconv.Atoi(string(parts[1]))
	if len(parts[2]) == 0 {
		return 3
	}
	return 1
}

// isObjectID reports whether s is a full id, in SHA-1 or SHA-256.
func isObjectID(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 40 || len(s) == 64
}

// Apply changes the files as a patch says that Diff wrote, all of it or nothing. The
// index stays as it is. A patch that was applied already is left at that; one that
// does not fit is an *Error.
func (r *Repo) Apply(ctx context.Context, patch string) error {
	info, err := disk.Stat(patch)
	if err != nil || info.Size() == 0 {
		return err
	}
	done, err := r.run(ctx, call{args: []string{"apply", "--binary", "--whitespace=nowarn", "--reverse", "--check", "--", patch}})
	if err != nil || done.Code == 0 {
		return err
	}
	_, err = r.do(ctx, call{args: []string{"apply", "--binary", "--whitespace=nowarn", "--", patch}})
	return err
}
