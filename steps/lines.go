package steps

import (
	"errors"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"flow/agents/proc"
	"flow/agents/replay"
	"flow/state/disk"
)

// eachLine calls fn with the lines of a file, as replay.Lines does. An absent file has none.
func eachLine(path string, limit int, fn func(proc.Line)) error {
	f, err := disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return replay.Lines(f, limit, fn)
}

// readHead reads at most limit bytes of a file and says whether there were more. An
// absent file is empty.
func readHead(path string, limit int64) (text string, more bool, err error) {
	f, err := disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(data)) > limit {
		return string(data[:limit]), true, err
	}
	return string(data), false, err
}

// readTail reads the last limit bytes of a file as valid UTF-8. An absent file is
// empty.
func readTail(path string, limit int64) (string, error) {
	f, err := disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	from := max(0, info.Size()-limit)
	data, err := io.ReadAll(io.NewSectionReader(f, from, limit))
	if err != nil {
		return "", err
	}
	text := string(data)
	if from > 0 {
		text = wholeStart(text)
	}
	return strings.ToValidUTF8(text, "\uFFFD"), nil
}

// tail is the end of s, at most limit bytes, beginning at a whole character.
func tail(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return wholeStart(s[len(s)-limit:])
}

// wholeStart is s without the rest of a character at its start.
func wholeStart(s string) string {
	for range utf8.UTFMax - 1 {
		if s == "" || utf8.RuneStart(s[0]) {
			break
		}
		s = s[1:]
	}
	return s
}
