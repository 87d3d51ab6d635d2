package state

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"flow/state/disk"
)

// ImportLimits bound what an archive may hold.
type ImportLimits struct {
	Bytes int64 // of all files together
	Files int   // and directories
}

// DefaultImportLimits are far beyond what a run of flow needs, and far below what fills most
// disks.
func DefaultImportLimits() ImportLimits { return ImportLimits{Bytes: 16 << 30, Files: 1 << 20} }

// Import takes in a run that Export wrote, perhaps elsewhere, and returns its id. The archive
// is not trusted: it may hold nothing but the files and directories of one run, no links, no
// names that lead elsewhere, and not more than the limits. What it says must check: journal,
// blobs, events. The run appears as a whole or not at all; if there is one of that id already,
// the error is ErrExists.
//
// What a run says is as good as where it comes from: to resume it is to run its pipeline.
func (s *Store) Import(src io.Reader, limits ImportLimits) (id string, err error) {
	in := importer{tar: tar.NewReader(src), limits: limits}
	if id, err = in.begin(); err != nil {
		return "", err
	}
	return id, s.adopt(id, in.fill)
}

// An importer reads one archive.
type importer struct {
	tar    *tar.Reader
	limits ImportLimits
	id     string
	root   *disk.Root
}

// begin reads the first entry, which is the directory of the run.
func (in *importer) begin() (id string, err error) {
	h, err := in.tar.Next()
	if err != nil {
		return "", in.refuse("the archive", "it is no tar archive: "+err.Error())
	}
	id, ok := strings.CutSuffix(h.Name, "/")
	if !ok || h.Typeflag != tar.TypeDir || CheckID(id) != nil {
		return "", in.refuse(fmt.Sprintf("%q", h.Name), "the archive must begin with the directory of a run")
	}
	in.id = id
	return id, nil
}

// refuse is the error for an archive that is not taken in.
func (in *importer) refuse(what, why string) error {
	return &Error{Path: what, Msg: why, Hint: "import what `flow state export` wrote; nothing was taken in"}
}

// fill writes the files of the archive into dir, and checks them.
func (in *importer) fill(dir string) (err error) {
	if in.root, err = disk.OpenRoot(dir); err != nil {
		return err
	}
	defer in.root.Close()
	for {
		h, err := in.tar.Next()
		if errors.Is(err, io.EOF) {
			return in.check(dir)
		}
		if err != nil {
			return in.refuse("the archive", "it cannot be read to its end: "+err.Error())
		}
		if err := in.entry(h); err != nil {
			return err
		}
	}
}

// entry writes one file or directory. Its mode and owner are not those of the archive.
func (in *importer) entry(h *tar.Header) error {
	name, err := in.name(h)
	if err != nil {
		return err
	}
	if in.limits.Files--; in.limits.Files < 0 {
		return in.refuse(name, "the archive has too many files")
	}
	if h.Typeflag == tar.TypeDir {
		err = in.root.Mkdir(name, dirMode)
		if errors.Is(err, fs.ErrExist) {
			return in.refuse(name, "the archive has it twice")
		}
		return err
	}
	if in.limits.Bytes -= h.Size; in.limits.Bytes < 0 {
		return in.refuse(name, "the files of the archive are too large")
	}
	return in.file(name)
}

// name returns the path of an entry in the run's directory, if it can be one.
func (in *importer) name(h *tar.Header) (string, error) {
	shown := fmt.Sprintf("%q", h.Name)
	full := h.Name
	switch h.Typeflag {
	case tar.TypeDir:
		full = strings.TrimSuffix(full, "/")
	case tar.TypeReg:
	default:
		return "", in.refuse(shown, "it is neither a file nor a directory")
	}
	name, inside := strings.CutPrefix(full, in.id+"/")
	switch {
	case !inside, name == "", path.Clean(name) != name, !filepath.IsLocal(name), strings.ContainsRune(name, 0):
		return "", in.refuse(shown, "its name leads out of the directory of the run")
	case !goesAbroad(name):
		return "", in.refuse(shown, "no such file belongs to a run that moves")
	}
	return name, nil
}

// file writes a new file.
func (in *importer) file(name string) error {
	f, err := in.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return in.refuse(name, "the archive has it twice")
	case errors.Is(err, fs.ErrNotExist):
		return in.refuse(name, "the archive does not have its directory")
	case err != nil:
		return err
	}
	_, err = io.Copy(f, in.tar)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = in.refuse(name, "the archive ends in it")
	}
	return errors.Join(err, f.Close())
}

// check refuses a run with damage. Directories that had nothing in them are made.
func (in *importer) check(dir string) error {
	for _, name := range []string{attemptsDir, blobsDir} {
		if err := mkdir(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if _, err := ReadRun(dir); err != nil {
		return in.refuse(in.id, err.Error())
	}
	c := checker{dir: dir}
	c.files()
	c.lines(eventsFile, true)
	c.lines(auditFile, false)
	c.blobs()
	for _, f := range c.found {
		if !f.Harmless {
			return in.refuse(f.Path, f.What)
		}
	}
	return nil
}

// goesAbroad says whether a file or directory of a run is of use on another machine, and may
// come from one. Records of workspaces are not: they name directories of this machine, which
// flow would go on to write to and to remove.
func goesAbroad(rel string) bool {
	top, _, below := strings.Cut(rel, "/")
	if leftBehind(rel) {
		return false
	}
	switch top {
	case attemptsDir, blobsDir, "answers", "agents", "simulated", lostDir:
		return true
	}
	return !below && top != "workspaces" && safeName(top)
}
