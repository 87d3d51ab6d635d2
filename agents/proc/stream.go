package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"flow/state/failpoint"
)

// A stream cuts a growing file into lines. It keeps no text between two reads: the
// start of an unfinished line is read again, and of a long one only the end is
// looked for. So a line costs memory only if and when it is delivered.
type stream struct {
	file    *os.File
	deliver func(Line)
	maxLine int64
	start   int64 // where the line under way begins
	next    int64 // there is no newline from start to here
	end     int64 // what comes from here on is delivered at the end; 0: nothing
	size    int64 // of the file when it was last looked at, beyond end
}

func openStream(path string, deliver func(Line), maxLine int64) (*stream, error) {
	err := failpoint.Fail("output-open")
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open an output file: %w", err)
	}
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s is no regular file: %w", path, err)
	}
	return &stream{file: file, deliver: deliver, maxLine: maxLine, start: size, next: size}, nil
}

// advance delivers the lines that end before until, or before the file does.
func (s *stream) advance(buf []byte, until int64) error {
	for s.next < until {
		before := s.next
		if err := s.step(buf, until); err != nil {
			return err
		}
		if s.next == before {
			return nil
		}
	}
	return nil
}

// sweep delivers some of what is new, up to end. It reports whether there may be more, and
// whether the file has grown beyond that.
func (s *stream) sweep(buf []byte) (more, grown bool, err error) {
	until := s.next + sweepSize
	if s.end > 0 {
		until = min(until, s.end)
	}
	if err := s.advance(buf, until); err != nil {
		return false, false, err
	}
	if s.end == 0 || s.next < s.end {
		return s.next >= until, false, nil
	}
	info, err := s.file.Stat()
	if err != nil {
		return false, false, fmt.Errorf("cannot read an output file: %w", err)
	}
	grown = info.Size() > s.size
	s.size = info.Size()
	return false, grown, nil
}

// step reads once. next stays if there was nothing new.
func (s *stream) step(buf []byte, until int64) error {
	from := s.start
	long := s.next-s.start >= int64(len(buf))
	if long {
		from = s.next
	}
	if err := failpoint.Fail("output-read"); err != nil {
		return fmt.Errorf("cannot read an output file: %w", err)
	}
	n, err := s.file.ReadAt(buf[:min(int64(len(buf)), until-from)], from)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("cannot read an output file: %w", err)
	}
	switch seen := int(s.next - from); {
	case n <= seen:
		return nil
	case long:
		return s.skim(buf[:n])
	default:
		s.split(buf[:n], seen)
		return nil
	}
}

// split delivers the lines of a chunk that begins with the line under way. There
// is no newline in the first seen bytes.
func (s *stream) split(chunk []byte, seen int) {
	end := s.start + int64(len(chunk))
	for {
		i := bytes.IndexByte(chunk[seen:], '\n')
		if i < 0 {
			break
		}
		i += seen
		s.emit(chunk[:i:i], int64(i))
		chunk, seen = chunk[i+1:], 0
		s.start += int64(i) + 1
	}
	s.next = end
}

// skim looks for the end of a long line in a chunk that begins at next.
func (s *stream) skim(chunk []byte) error {
	i := bytes.IndexByte(chunk, '\n')
	if i < 0 {
		s.next += int64(len(chunk))
		return nil
	}
	end := s.next + int64(i)
	if err := s.emitAgain(end); err != nil {
		return err
	}
	s.start, s.next = end+1, end+1
	return nil
}

// drain delivers all the file holds now, and then a last line without newline.
func (s *stream) drain(buf []byte) error {
	info, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("cannot read an output file: %w", err)
	}
	if err := s.advance(buf, info.Size()); err != nil {
		return err
	}
	if s.next == s.start {
		return nil
	}
	return s.emitAgain(s.next)
}

// emitAgain reads the line from start to end once more to deliver it.
func (s *stream) emitAgain(end int64) error {
	length := end - s.start
	size := length
	if length > s.maxLine {
		size = min(length, bufferSize)
	}
	data := make([]byte, size)
	if _, err := s.file.ReadAt(data, s.start); err != nil {
		return fmt.Errorf("cannot read a line of %d bytes again: %w", length, err)
	}
	s.emit(data, length)
	return nil
}

func (s *stream) emit(data []byte, length int64) {
	line := Line{Data: data, Offset: s.start, Length: length, Oversized: length > s.maxLine}
	if line.Oversized {
		line.Data = data[:min(len(data), bufferSize)]
	}
	s.deliver(line)
}

// fileSize is the size of a file, 0 if there is none.
func fileSize(path string) int64 {
	if path == "" {
		return 0
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// lastText is the end of what a file holds from offset from, as valid UTF-8.
func lastText(path string, from int64) (string, error) {
	size := fileSize(path)
	if size <= from {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot read an output file: %w", err)
	}
	defer f.Close()
	cut := max(from, size-bufferSize)
	data := make([]byte, size-cut)
	n, err := f.ReadAt(data, cut)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("cannot read an output file: %w", err)
	}
	data = data[:n]
	if cut > from {
		data = data[cutRune(data):]
	}
	return strings.ToValidUTF8(string(data), "\uFFFD"), nil
}

// cutRune is how many bytes at the start of data are the rest of a character.
func cutRune(data []byte) int {
	for i := range min(utf8.UTFMax, len(data)) {
		if utf8.RuneStart(data[i]) {
			return i
		}
	}
	return 0
}
