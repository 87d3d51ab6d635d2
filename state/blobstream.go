package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"flow/state/disk"
	"flow/state/failpoint"
)

// PutBlobFrom is PutBlob for what need not fit into memory. It also returns the number
// of bytes that src had.
func (r *Run) PutBlobFrom(src io.Reader) (ref string, size int64, err error) {
	err = r.whileOpen(func() error {
		ref, size, err = putBlobFrom(r.dir, src)
		return err
	})
	return ref, size, err
}

// putBlobFrom copies src before its name is known.
func putBlobFrom(dir string, src io.Reader) (ref string, size int64, err error) {
	blobs := filepath.Join(dir, blobsDir)
	temp := filepath.Join(blobs, tempName(blobTemp))
	ref, size, err = copyBlob(temp, src)
	var name string
	if err == nil {
		name, err = blobPath(dir, ref)
	}
	if err == nil {
		err = placeBlob(blobs, temp, name)
	}
	if err != nil {
		return "", 0, errors.Join(wrap(temp, "cannot store the blob", err), removeTemp(temp))
	}
	return ref, size, nil
}

// copyBlob writes src to a new file, durably, and returns its reference.
func copyBlob(file string, src io.Reader) (ref string, size int64, err error) {
	f, err := createFile(file)
	if err != nil {
		return "", 0, err
	}
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, sum), src)
	if err == nil {
		err = f.Sync()
	}
	return blobScheme + hex.EncodeToString(sum.Sum(nil)), size, errors.Join(err, f.Close())
}

// placeBlob gives the finished file temp its name, durably.
func placeBlob(blobs, temp, name string) error {
	shard := filepath.Dir(name)
	for _, dir := range []string{filepath.Dir(shard), shard} {
		if err := mkdir(dir); err != nil {
			return err
		}
	}
	failpoint.Reach("blob-written")
	if err := disk.Rename(temp, name); err != nil {
		return err
	}
	failpoint.Reach("blob-renamed")
	return syncAll(shard, filepath.Dir(shard), blobs)
}

// CopyBlob is Blob for what need not fit into memory. What was written to dst is only to
// be trusted when there is no error: the contents are checked at the end.
func (v *View) CopyBlob(dst io.Writer, ref string) error {
	name, err := blobPath(v.dir, ref)
	if err != nil {
		return err
	}
	f, err := openFile(name, os.O_RDONLY)
	if err != nil {
		return fmt.Errorf("blob %s: %w", ref, err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(dst, sum), f); err != nil {
		return fmt.Errorf("blob %s: %w", ref, err)
	}
	if blobScheme+hex.EncodeToString(sum.Sum(nil)) != ref {
		return corrupt(name, 0, "the contents do not match the name")
	}
	return nil
}
