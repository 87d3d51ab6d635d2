package replay

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"flow/agents/proc"
)

const (
	// MaxLine is the longest line, in bytes, that proc delivers whole.
	MaxLine = 32 << 20
	headMax = 64 << 10 // what it delivers of a longer one
	tailMax = 64 << 10 // and the end of standard error that a proc.Result has
)

// Lines calls fn with the lines of r, as proc delivers them: the newline is left out, a
// last line without one counts, and of a line over limit bytes only the beginning is given.
// It holds one line in memory.
func Lines(r io.Reader, limit int, fn func(proc.Line)) error {
	in := bufio.NewReaderSize(r, headMax)
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

// end is the last of size bytes as valid UTF-8, beginning at a whole character.
func end(r io.ReaderAt, size int64) (string, error) {
	data := make([]byte, min(size, tailMax))
	if _, err := r.ReadAt(data, size-int64(len(data))); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if size > tailMax {
		for range utf8.UTFMax - 1 {
			if utf8.RuneStart(data[0]) {
				break
			}
			data = data[1:]
		}
	}
	return strings.ToValidUTF8(string(data), "\uFFFD"), nil
}
