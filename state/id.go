package state

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
)

const namePattern = `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`

// NewID returns a run id for a run that begins at now: the time in UTC to the
// second, then 24 random bits. Ids sort by time.
func NewID(now time.Time) string {
	var b [3]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return now.UTC().Format("20060102-150405") + "-" + hex.EncodeToString(b[:])
}

// CheckID says why id cannot name a run. A good id is a safe name of a directory.
func CheckID(id string) error {
	if slices.Contains([]string{"last", "latest"}, id) {
		return fmt.Errorf("run id %q is reserved: it means the newest run", id)
	}
	if !safeName(id) {
		return fmt.Errorf("run id %q must match %s and not contain %q", id, namePattern, "..")
	}
	return nil
}

// checkFile says why name cannot name a file of a run beside flow's own.
func checkFile(name string) error {
	if !safeName(name) {
		return fmt.Errorf("file name %q must match %s and not contain %q", name, namePattern, "..")
	}
	own := []string{headerFile, journalFile, eventsFile, lockFile, exitsFile, attemptsDir, blobsDir}
	if slices.Contains(own, name) {
		return fmt.Errorf("file name %q is reserved", name)
	}
	return nil
}

// safeName matches namePattern by hand: lists check every name in a directory.
func safeName(s string) bool {
	if s == "" || len(s) > 64 || strings.Contains(s, "..") || strings.ContainsAny(s[:1], "._-") {
		return false
	}
	for i := range len(s) {
		if !isWord(s[i]) && s[i] != '.' {
			return false
		}
	}
	return true
}

// isWord says whether c is a letter, a digit, '-' or '_'.
func isWord(c byte) bool {
	return c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
