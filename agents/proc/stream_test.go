package proc

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// growing is a file, and a stream that reads it into lines.
func growing(t testing.TB, maxLine int64) (*os.File, *stream, *lines) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "out")
	var got lines
	s, err := openStream(path, got.add, maxLine)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close(); s.file.Close() })
	return f, s, &got
}

// feed writes a chunk and has it read.
func feed(t testing.TB, f *os.File, s *stream, chunk []byte) {
	t.Helper()
	if _, err := f.Write(chunk); err != nil {
		t.Fatal(err)
	}
	if err := s.advance(make([]byte, bufferSize), s.next+sweepSize); err != nil {
		t.Fatal(err)
	}
}

// model is what the lines of a text are.
func model(text []byte, maxLine int) lines {
	var want lines
	at := 0
	for line := range bytes.Lines(text) {
		body := bytes.TrimSuffix(line, []byte("\n"))
		l := Line{Data: body, Offset: int64(at), Length: int64(len(body)), Oversized: len(body) > maxLine}
		if l.Oversized {
			l.Data = body[:min(len(body), bufferSize)]
		}
		want = append(want, l)
		at += len(line)
	}
	return want
}

func same(t testing.TB, got, want lines) {
	t.Helper()
	if d := cmp.Diff(want, got, cmp.Transformer("short", func(b []byte) string {
		if len(b) > 100 {
			return fmt.Sprintf("%q… %d bytes %x", b[:20], len(b), b[len(b)-4:])
		}
		return string(b)
	})); d != "" {
		t.Fatal(d)
	}
	for i := range want {
		if !bytes.Equal(got[i].Data, want[i].Data) {
			t.Fatalf("line %d differs", i)
		}
	}
}

func TestStreamTable(t *testing.T) {
	long := strings.Repeat("x", bufferSize)
	tests := map[string][]string{
		"empty":             {""},
		"one line":          {"a\n"},
		"empty lines":       {"\n\n", "\n"},
		"no newline at end": {"a\nb"},
		"cut line":          {"hel", "lo\nwor", "ld", "\n"},
		"CR, NUL, BOM":      {"\xef\xbb\xbfa\r\n\x00\n\xff\n"},
		"a buffer exactly":  {long, "\n", long[1:] + "\n", "y\n"},
		"above a buffer":    {long + "y", "z\nnext\n", "end"},
		"oversized":         {long, long, long, "1\nnext\n"},
		"oversized at end":  {long + long + long + "1"},
		"at the limit":      {long + long + "\n", "next\n"},
	}
	for name, chunks := range tests {
		t.Run(name, func(t *testing.T) {
			f, s, got := growing(t, 2*bufferSize)
			for _, chunk := range chunks {
				feed(t, f, s, []byte(chunk))
			}
			if err := s.drain(make([]byte, bufferSize)); err != nil {
				t.Fatal(err)
			}
			same(t, *got, model([]byte(strings.Join(chunks, "")), 2*bufferSize))
		})
	}
}

func TestStreamDeliversWithoutWaitingForTheEnd(t *testing.T) {
	f, s, got := growing(t, 1<<20)
	feed(t, f, s, []byte("one\ntw"))
	if d := cmp.Diff([]string{"one"}, got.texts()); d != "" {
		t.Error(d)
	}
	feed(t, f, s, []byte("o\n"))
	if d := cmp.Diff([]string{"one", "two"}, got.texts()); d != "" {
		t.Error(d)
	}
}

func TestStreamBeginsBehindWhatIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	if err := os.WriteFile(path, []byte("old\nhalf"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got lines
	s, err := openStream(path, got.add, 100)
	if err != nil {
		t.Fatal(err)
	}
	defer s.file.Close()
	if err := os.WriteFile(path, []byte("old\nhalfnew\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.drain(make([]byte, bufferSize)); err != nil {
		t.Fatal(err)
	}
	same(t, got, lines{{Data: []byte("new"), Offset: 8, Length: 3}})
}

// FuzzStream: however a text is cut by writes and by a small buffer, its lines are
// the same.
func FuzzStream(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), uint64(1), uint8(4))
	f.Add([]byte(strings.Repeat("z", 300)+"\n1\n"), uint64(2), uint8(16))
	f.Fuzz(func(t *testing.T, text []byte, seed uint64, size uint8) {
		const maxLine = 40
		file, s, got := growing(t, maxLine)
		buf := make([]byte, int(size)+1)
		r := rand.New(rand.NewPCG(seed, 0))
		for rest := text; len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			if _, err := file.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			if err := s.advance(buf, s.next+1+int64(r.IntN(50))); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.drain(buf); err != nil {
			t.Fatal(err)
		}
		same(t, *got, model(text, maxLine))
	})
}

func TestLastText(t *testing.T) {
	full := strings.Repeat("é", bufferSize) // twice as many bytes
	tests := []struct {
		name, text string
		from       int64
		want       string
	}{
		{"empty", "", 0, ""},
		{"whole", "boom\n", 0, "boom\n"},
		{"behind what was there", "old\nnew\n", 4, "new\n"},
		{"invalid UTF-8", "a\xffb", 0, "a\uFFFDb"},
		{"the last 64 KiB", full, 0, full[len(full)-bufferSize:]},
		{"cut in a character", full + "x", 0, full[len(full)-bufferSize+2:] + "x"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "err")
			if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := lastText(path, test.from)
			if err != nil || got != test.want {
				t.Errorf("%d bytes, %v; want %d", len(got), err, len(test.want))
			}
		})
	}
	if got, err := lastText(filepath.Join(t.TempDir(), "none"), 0); got != "" || err != nil {
		t.Errorf("absent file: %q, %v", got, err)
	}
}
