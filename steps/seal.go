package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"flow/state"
	"flow/state/disk"
	"flow/state/failpoint"
	"flow/steps/mask"
)

// recordMasked is the type of a Masked in a run's journal.
const recordMasked = "masked"

// Masked is the data of a "masked" record: the files of a process have no secret any more.
type Masked struct {
	Files string `json:"files"` // their name in attempts/, without the ending
}

// A seals knows which files have been masked.
type seals struct {
	mu   sync.Mutex
	done map[string]bool // by Masked.Files
}

func (s *seals) note(files string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[files] = true
}

func (s *seals) has(files string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[files]
}

// The endings of the files of a process: those that a pipeline with `keep-raw` keeps as they
// are, and the others.
//
//nolint:gochecknoglobals // tables
var (
	rawExts   = []string{"stdout", "stderr", "stdin"}
	otherExts = []string{"prompt", launchExt, "script", "diff", "d"}
)

// seal masks what the processes of the attempt have left: their files, and what its agent
// keeps for its sessions. They are not read any more, or for the record only.
func (a *attempt) seal(ctx context.Context) error {
	if a.x.Mask.Empty() {
		return nil
	}
	errs := []error{a.sealLost()}
	if a.turns == 0 {
		return errs[0]
	}
	for turn := 1; turn <= a.turns; turn++ {
		errs = append(errs, a.x.sealProcess(ctx, a.labelOf(turn)))
	}
	if use := a.profile().Use; use != "" {
		errs = append(errs, a.x.sealKept(a.began, use))
	}
	return errors.Join(errs...)
}

// sealLost masks once more what the step's attempts left that flow died in: when the run was
// restored, not all secrets were known that `env` makes of what other steps came to.
func (a *attempt) sealLost() error {
	for _, attempt := range a.x.ledger.get(a.task.Path).open {
		for turn := 1; attempt < a.task.Attempt && a.x.ran(label(a.task.Path, attempt, turn)); turn++ {
			if err := a.x.maskFiles(a.x.filesOf(label(a.task.Path, attempt, turn))); err != nil {
				return err
			}
		}
	}
	return nil
}

// filesOf is the Masked.Files of the process named.
func (x *Executor) filesOf(name string) string {
	return strings.TrimSuffix(filepath.Base(x.file(name, "x")), ".x")
}

// sealProcess masks the files of the process named, once.
func (x *Executor) sealProcess(ctx context.Context, name string) error {
	if x.Mask.Empty() {
		return nil
	}
	files := x.filesOf(name)
	if x.seals.has(files) {
		return nil
	}
	return x.sealFiles(ctx, files)
}

// sealFiles masks the files of one process, and notes it.
func (x *Executor) sealFiles(ctx context.Context, files string) error {
	if err := x.maskFiles(files); err != nil {
		return err
	}
	failpoint.Reach("attempt-masked")
	x.seals.note(files)
	return x.Store.Append(context.WithoutCancel(ctx), recordMasked, Masked{files}, false)
}

// maskFiles masks the files of one process.
func (x *Executor) maskFiles(files string) error {
	exts := otherExts
	if !x.Plan.KeepRaw {
		exts = slices.Concat(rawExts, otherExts)
	}
	for _, ext := range exts {
		path := filepath.Join(x.Store.Dir(), AttemptsDir, files+"."+ext)
		if err := maskTree(path, time.Time{}, x.maskFile); err != nil {
			return fmt.Errorf("secrets in %s cannot be masked: %w", path, err)
		}
	}
	return nil
}

// AttemptsDir is where the files of processes are, in the run's directory.
const AttemptsDir = "attempts"

// sealKept masks what agents keep in the run for their sessions. Other sessions of the same
// agent may be under way: what is masked keeps its place, in the same file.
func (x *Executor) sealKept(since time.Time, use string) error {
	run := x.Store.Dir()
	for _, dir := range []string{filepath.Join(run, "agents", use), filepath.Join(run, "simulated")} {
		if err := maskTree(dir, since.Add(-mtimeSlack), x.blotFile); err != nil {
			return fmt.Errorf("secrets in what agent %s keeps in %s cannot be masked: %w", use, dir, err)
		}
	}
	return nil
}

// mtimeSlack is how much the clock of a file system may be behind.
const mtimeSlack = 2 * time.Second

// sealLeft masks what a process of flow left that died before it could.
func (x *Executor) sealLeft() error {
	if x.Mask.Empty() {
		return nil
	}
	left, err := x.seals.left(x.Store.Dir())
	if err != nil || len(left) == 0 {
		return err
	}
	x.learnAll()
	for _, files := range left {
		if err := x.sealFiles(context.Background(), files); err != nil {
			return err
		}
	}
	for use := range x.Adapters {
		if err := x.sealKept(time.Time{}, use); err != nil {
			return err
		}
	}
	return nil
}

// restoreMasked takes in a record of an earlier process.
func (x *Executor) restoreMasked(r state.Record) error {
	var m Masked
	if err := json.Unmarshal(r.Data, &m); err != nil {
		return fmt.Errorf("record %d of the journal names no files: %w", r.Seq, err)
	}
	x.seals.note(m.Files)
	return nil
}

// maskTree masks a file, or the files below a directory that have changed since then. Links
// are not followed. What goes away meanwhile is passed over.
func maskTree(path string, since time.Time, fn func(path string) error) error {
	return filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil && !info.ModTime().Before(since) {
				err = fn(name)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// maskFile masks a file in place of its length: what is in it stays where it is. The file is
// replaced as a whole, so that a crash leaves it masked or as it was.
func (x *Executor) maskFile(path string) error {
	spans, f, err := findIn(x.Mask, path, os.O_RDONLY)
	if err != nil || len(spans) == 0 {
		return err
	}
	defer f.Close()
	temp, err := createScratch(scratchOf(x.Store.Dir()))
	if err != nil {
		return err
	}
	_, err = io.Copy(temp, mask.Reader(whole(f), spans))
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = disk.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, disk.Remove(temp.Name()))
	}
	return disk.SyncDir(filepath.Dir(path)) // or the record could outlive the new file in a power failure
}

// blotFile masks a file that others may be writing to.
func (x *Executor) blotFile(path string) error {
	spans, f, err := findIn(x.Mask, path, os.O_RDWR)
	if err != nil || len(spans) == 0 {
		return err
	}
	defer f.Close()
	for _, s := range spans {
		part := make([]byte, s.End-s.Start)
		if _, err := f.ReadAt(part, s.Start); err != nil {
			return err
		}
		mask.Blot(part, s.Start, spans)
		if _, err := f.WriteAt(part, s.Start); err != nil {
			return err
		}
	}
	return nil
}

// findIn opens a regular file and finds its secrets. The file is open if there are any.
func findIn(m *mask.Masker, path string, flag int) (spans []mask.Span, f *disk.File, err error) {
	if m.Empty() {
		return nil, nil, nil
	}
	if f, err = disk.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0); err != nil {
		return nil, nil, err
	}
	if spans, err = m.Find(whole(f)); err == nil && len(spans) > 0 {
		return spans, f, nil
	}
	return nil, nil, errors.Join(err, f.Close())
}

// whole reads a file from its beginning.
func whole(f *disk.File) io.Reader { return io.NewSectionReader(f, 0, math.MaxInt64) }

// Unmasked reports whether a run has files of processes that were not masked.
func Unmasked(run interface {
	runDir
	Records() []state.Record
},
) (bool, error) {
	x := &Executor{seals: &seals{done: map[string]bool{}}}
	for _, r := range run.Records() {
		if r.Type != recordMasked {
			continue
		}
		if err := x.restoreMasked(r); err != nil {
			return false, err
		}
	}
	left, err := x.seals.left(run.Dir())
	return len(left) > 0, err
}

// left lists the files in a run's directory that are not masked, by Masked.Files.
func (s *seals) left(run string) (all []string, err error) {
	entries, err := disk.ReadDir(filepath.Join(run, AttemptsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		files := strings.TrimSuffix(e.Name(), filepath.Ext(e.Name()))
		if files != "" && !s.has(files) {
			all = append(all, files)
		}
	}
	return slices.Compact(all), err
}
