package steps

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"flow/agents/proc"
	"flow/state/disk"
)

// eachLine calls fn with the lines of a file, as proc delivers them: the newline is
// left out, a last line without one counts, and of a line over limit bytes only the
// beginning is given. It holds one line in memory. An absent file has no lines.
func eachLine(path string, limit int, fn func(proc.Line)) error {
	f, err := disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, headMax)
	line := proc.Line{}
	for {
		part, err := in.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		ended := err == nil
		if ended {
			part = part[:len(part)-1]
		}
		line.Length += int64(len(part))
		if line.Oversized = line.Length > int64(limit); line.Oversized {
			line.Data = line.Data[:min(len(line.Data), headMax)]
			part = part[:min(len(part), headMax-len(line.Data))]
		}
		line.Data = append(line.Data, part...)
		switch {
		case ended:
			fn(line)
			line = proc.Line{Data: line.Data[:0], Offset: line.Offset + line.Length + 1}
		case errors.Is(err, io.EOF):
			if line.Length > 0 {
				fn(line)
			}
			return nil
		}
	}
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
