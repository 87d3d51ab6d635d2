package state

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"flow/state/disk"
)

const (
	blobScheme = "sha256:"
	blobTemp   = "tmp-"
)

// blobPath returns where a blob is: blobs/sha256/ab/cdef… in dir.
func blobPath(dir, ref string) (string, error) {
	sum, ok := strings.CutPrefix(ref, blobScheme)
	if _, err := hex.DecodeString(sum); !ok || err != nil || len(sum) != 2*sha256.Size || strings.ToLower(sum) != sum {
		return "", fmt.Errorf("blob reference %q is not %s and 64 hexadecimal digits", ref, blobScheme)
	}
	return filepath.Join(dir, blobsDir, "sha256", sum[:2], sum[2:]), nil
}

func blobRef(data []byte) string {
	sum := sha256.Sum256(data)
	return blobScheme + hex.EncodeToString(sum[:])
}

// Blob returns the contents that PutBlob stored under ref, after checking that they
// are still the same.
func (v *View) Blob(ref string) ([]byte, error) {
	name, err := blobPath(v.dir, ref)
	if err != nil {
		return nil, err
	}
	data, err := readFile(name)
	if err != nil {
		return nil, fmt.Errorf("blob %s: %w", ref, err)
	}
	if blobRef(data) != ref {
		return nil, corrupt(name, 0, "the contents do not match the name")
	}
	return data, nil
}

// putBlob stores data durably and returns its reference.
func putBlob(dir string, data []byte) (string, error) {
	ref := blobRef(data)
	name, err := blobPath(dir, ref)
	if err != nil {
		return "", err
	}
	if fi, err := disk.Lstat(name); err == nil && fi.Mode().IsRegular() && fi.Size() == int64(len(data)) {
		return ref, nil
	}
	err = storeBlob(filepath.Join(dir, blobsDir), name, data)
	return ref, wrap(name, "cannot store the blob", err)
}

func storeBlob(blobs, name string, data []byte) error {
	temp := filepath.Join(blobs, tempName(blobTemp))
	err := writeFile(temp, data)
	if err == nil {
		err = placeBlob(blobs, temp, name)
	}
	if err != nil {
		return errors.Join(err, removeTemp(temp))
	}
	return nil
}

func removeTemp(name string) error {
	if err := disk.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
