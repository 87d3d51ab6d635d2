package state

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Export writes a run as a tar archive: the directory named by its id, in it run.json and the
// journal, then all else that a copy of the run has. Isolated workspaces stay behind, for git
// knows them by their place. The archive has neither owners nor links. A run that is under
// way may be exported; the archive has it as View found it, and at least the events and
// files of that moment.
func (v *View) Export(w io.Writer) error { return v.ExportThrough(w, nil) }

// ExportThrough is Export with what change makes of each file, by its path in the run's
// directory, but for the journal and run.json. What it returns must be as long as the file.
func (v *View) ExportThrough(w io.Writer, change func(rel string, file io.ReaderAt, size int64) (io.Reader, error)) error {
	e := exporter{View: v, tar: tar.NewWriter(w), change: change}
	journal, err := readFile(filepath.Join(v.dir, journalFile))
	if err != nil {
		return wrap(v.dir, "cannot export the run", err)
	}
	if err := e.begin(journal[:v.end]); err != nil {
		return err
	}
	if err := eachFile(v.dir, e.file); err != nil {
		return err
	}
	return e.tar.Close()
}

// An exporter writes one archive.
type exporter struct {
	*View
	tar    *tar.Writer
	change func(rel string, file io.ReaderAt, size int64) (io.Reader, error)
}

// begin writes what refers to the files that follow it: these may have grown by then.
func (e *exporter) begin(journal []byte) error {
	if err := e.folder(""); err != nil {
		return err
	}
	if err := e.copy(headerFile); err != nil {
		return err
	}
	if err := e.put(journalFile, int64(len(journal)), bytes.NewReader(journal)); err != nil {
		return err
	}
	return e.copy(eventsFile)
}

func (e *exporter) file(rel string, isDir bool) error {
	switch {
	case rel == headerFile, rel == journalFile, rel == eventsFile, !goesAbroad(rel):
		return nil
	case isDir:
		return e.folder(rel + "/")
	default:
		return e.copy(rel)
	}
}

// folder writes a directory; "" is that of the run.
func (e *exporter) folder(rel string) error {
	return e.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeDir, Name: e.header.ID + "/" + rel, Mode: int64(dirMode), ModTime: e.header.Created.Truncate(time.Second),
	})
}

// copy writes a file as long as it is now: one that grows is cut there.
func (e *exporter) copy(rel string) error {
	f, err := openFile(filepath.Join(e.dir, rel), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was a temporary file
	}
	if err != nil {
		return wrap(rel, "cannot export", err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	src := io.LimitReader(f, fi.Size())
	if e.change != nil && rel != headerFile {
		if src, err = e.change(rel, f, fi.Size()); err != nil {
			return wrap(rel, "cannot export", err)
		}
	}
	return e.put(rel, fi.Size(), src)
}

func (e *exporter) put(rel string, size int64, src io.Reader) error {
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: e.header.ID + "/" + rel, Mode: int64(fileMode), Size: size, ModTime: e.header.Created.Truncate(time.Second),
	}
	if err := e.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(e.tar, src)
	return err
}
