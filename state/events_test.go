package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// countedReader counts what is read.
type countedReader struct {
	*bytes.Reader
	bytes int64
}

func (r *countedReader) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.Reader.ReadAt(p, off)
	r.bytes += int64(n)
	return n, err
}

// TestFirstLine looks for places in logs of many sizes of lines, with gaps between the
// numbers: nothing that is wanted is left out, and little is read.
func TestFirstLine(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, longest := range []int{10, 1000, 100_000, 2_000_000} {
		t.Run(strconv.Itoa(longest), func(t *testing.T) {
			var log bytes.Buffer
			var starts, numbers []int64
			for n := int64(0); log.Len() < 8<<20; {
				n += 1 + random.Int64N(3)
				starts, numbers = append(starts, int64(log.Len())), append(numbers, n)
				fmt.Fprintf(&log, "%d %s\n", n, strings.Repeat("x", random.IntN(longest)))
			}
			last := numbers[len(numbers)-1]
			fmt.Fprintf(&log, "%d torn", last+1)
			for _, after := range []int64{0, 1, last / 3, last / 2, last - 1, last, last + 10} {
				r := &countedReader{Reader: bytes.NewReader(log.Bytes())}
				got, err := firstLine(r, int64(log.Len()), func(line []byte) bool { return number(t, line) <= after })
				if err != nil {
					t.Fatal(err)
				}
				want := int64(log.Len())
				for i, n := range numbers {
					if n > after {
						want = starts[i]
						break
					}
				}
				if got > want || got > 0 && log.Bytes()[got-1] != '\n' {
					t.Errorf("after %d: byte %d, but the first that is wanted begins at %d", after, got, want)
				}
				if most := int64(searchEnd + 3*longest); want-got > most {
					t.Errorf("after %d: %d bytes are still to be skipped", after, want-got)
				}
				if most := int64(20 * (2*longest + 32<<10)); r.bytes > most {
					t.Errorf("after %d: %d bytes were read", after, r.bytes)
				}
			}
		})
	}
}

func number(t *testing.T, line []byte) int64 {
	t.Helper()
	text, _, _ := bytes.Cut(line, []byte(" "))
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLineBehind: a line that begins at the offset itself is not behind it.
func TestLineBehind(t *testing.T) {
	const log = "a\nbc\n\nd\ntorn"
	for offset, want := range []string{"bc", "bc", "", "", "", "d", "EOF", "EOF", "EOF"} {
		line, end, err := lineBehind(strings.NewReader(log), int64(offset), int64(len(log)))
		got := string(line)
		if errors.Is(err, io.EOF) {
			got = "EOF"
		} else if !strings.HasSuffix(log[:end], got+"\n") {
			t.Errorf("behind %d: %q ends at %d", offset, got, end)
		}
		if got != want {
			t.Errorf("behind %d: %q, want %q", offset, got, want)
		}
	}
}

// TestEventsFrom reads a run's events from a place that was looked for, and the last.
func TestEventsFrom(t *testing.T) {
	r := createRun(t, openStore(t), "r")
	if line, err := r.LastEvent(); line != nil || err != nil {
		t.Errorf("without events: %q, %v", line, err)
	}
	var log bytes.Buffer
	for n := range 20_000 {
		fmt.Fprintf(&log, "%d %s\n", n+1, strings.Repeat("x", 100))
	}
	must(t, r.AppendEvents(log.Bytes()))
	for _, after := range []int64{0, 1, 9_999, 19_999, 20_000, 30_000} {
		offset, err := r.EventOffset(func(line []byte) bool { return number(t, line) <= after })
		must(t, err)
		got, read := int64(0), 0
		must(t, r.EventsFrom(offset, func(line []byte) error {
			if read++; number(t, line) > after {
				got++
			}
			return nil
		}))
		if want := max(0, 20_000-after); got != want || read > int(want)+2*searchEnd/100 {
			t.Errorf("after %d: %d events, %d read", after, got, read)
		}
	}
	if line, err := r.LastEvent(); err != nil || number(t, line) != 20_000 {
		t.Errorf("the last: %q, %v", line, err)
	}
}
