package steps

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"flow/agents"
	"flow/state/disk"
	"flow/steps/mask"
	"flow/steps/workspace"
)

// secretIn says that a file which is no text holds secrets, and so cannot be kept.
type secretIn struct {
	file  string
	names []string // of the secrets
}

func (s secretIn) Error() string {
	return fmt.Sprintf("artifact %s holds the secret %s and is no text, in which it could be masked", s.file, strings.Join(s.names, ", "))
}

func (s secretIn) problem() *agents.Problem {
	return &agents.Problem{
		Cause: agents.CauseConfig, Message: s.Error(),
		Hint: "have the step leave it out, or name other files in `artifacts`",
	}
}

// clean returns what is to be kept of a file: all of it when no secret is in it, and a text
// masked. The size of the file is known and its reader may be read twice.
func (h *harvest) clean(name string, file *io.SectionReader) (io.Reader, error) {
	if h.mask.Empty() {
		return file, nil
	}
	spans, err := h.mask.Find(file)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil || len(spans) == 0 {
		return file, err
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	names := mask.Names(spans)
	if bytes.IndexByte(data, 0) >= 0 {
		return nil, secretIn{name, names}
	}
	h.masked = append(h.masked, fmt.Sprintf("artifact %s holds the secret %s, which was masked", name, strings.Join(names, ", ")))
	return bytes.NewReader(mask.Replace(data, spans)), nil
}

// cleanWorkspace masks the texts that the step has changed in a workspace of its own, before
// they are committed, and says so. In other workspaces files are left: they are the user's.
func (a *attempt) cleanWorkspace(ctx context.Context, repo *workspace.Repo, base string) error {
	if a.x.Mask.Empty() {
		return nil
	}
	paths, err := repo.Changed(ctx, base)
	if err != nil {
		return err
	}
	for _, path := range paths {
		err := a.cleanFile(filepath.Join(repo.Top(), filepath.FromSlash(path)), path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ELOOP) { // deleted, or a link
			return err
		}
	}
	return nil
}

// cleanFile masks a text of the workspace.
func (a *attempt) cleanFile(path, name string) error {
	info, err := disk.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	spans, f, err := findIn(a.x.Mask, path, os.O_RDONLY)
	if err != nil || len(spans) == 0 {
		return err
	}
	data, err := io.ReadAll(whole(f))
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	names := strings.Join(mask.Names(spans), ", ")
	if bytes.IndexByte(data, 0) >= 0 {
		a.notice(noticeSecret, fmt.Sprintf("%s holds the secret %s and is no text: it is kept as it is", name, names))
		return nil
	}
	a.notice(noticeSecret, fmt.Sprintf("%s holds the secret %s, which was masked", name, names))
	if err := putFile(scratchOf(a.x.Store.Dir()), agents.File{Path: path, Data: mask.Replace(data, spans)}); err != nil {
		return err
	}
	return disk.Chmod(path, info.Mode().Perm())
}

// secretPatch is an error if a patch holds a secret: masked, it would be another one.
func (x *Executor) secretPatch(file string) error {
	spans, f, err := findIn(x.Mask, file, os.O_RDONLY)
	if err != nil || len(spans) == 0 {
		return err
	}
	return errors.Join(fmt.Errorf("what the step changed holds the secret %s", strings.Join(mask.Names(spans), ", ")), f.Close())
}
