package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// journalOf returns the lines of n records.
func journalOf(n int) [][]byte {
	var lines [][]byte
	for i := range n {
		lines = append(lines, encodeRecord(Record{
			Seq: int64(i + 1), Time: time.Unix(1700000000+int64(i), 5).UTC(), Type: "fact",
			Data: json.RawMessage(fmt.Sprintf(`{"text":"%d {\"a\":[1,\"}\"]} ✓"}`, i)),
		}))
	}
	return lines
}

func TestRecordRoundTrip(t *testing.T) {
	want := Record{Seq: 7, Time: time.Unix(1, 2).UTC(), Type: "fact", Data: json.RawMessage(`{"a":"<b>"}`)}
	line := encodeRecord(want)
	got, err := decodeRecord(bytes.TrimSuffix(line, []byte("\n")))
	if err != nil || got.Seq != want.Seq || !got.Time.Equal(want.Time) || string(got.Data) != string(want.Data) {
		t.Fatalf("%+v, %v", got, err)
	}
	const text = `{"seq":7,"time":"1970-01-01T00:00:01.000000002Z","type":"fact","data":{"a":"<b>"},"sum":"9dfe3b52"}` + "\n"
	if string(line) != text {
		t.Errorf("the format changed:\n%s%s", line, text)
	}
}

// The journal in docs/state.md is a real one.
func TestDocumentedJournal(t *testing.T) {
	var journal []byte
	for line := range bytes.Lines(mustRead(t, "../docs/state.md")) {
		if bytes.HasPrefix(line, []byte(`{"seq"`)) {
			journal = append(journal, line...)
		}
	}
	recs, end, err := scanJournal(journal)
	if err != nil || len(recs) != 3 || end != int64(len(journal)) {
		t.Errorf("%d records, %v", len(recs), err)
	}
}

func TestScanCutsTheLastRecordAtEveryByte(t *testing.T) {
	lines := journalOf(3)
	whole := bytes.Join(lines, nil)
	good := len(whole) - len(lines[2])
	for size := good; size < len(whole); size++ {
		recs, end, err := scanJournal(whole[:size])
		if err != nil || len(recs) != 2 || end != int64(good) {
			t.Fatalf("cut at %d of %d: %d records to %d, %v", size, len(whole), len(recs), end, err)
		}
	}
}

func TestScanFindsEveryDamagedBit(t *testing.T) {
	whole := bytes.Join(journalOf(3), nil)
	for i := range whole {
		for bit := range 8 {
			data := slices.Clone(whole)
			data[i] ^= 1 << bit
			if _, _, err := scanJournal(data); err == nil {
				t.Fatalf("bit %d of byte %d (%q → %q) was not noticed", bit, i, whole[i], data[i])
			}
		}
	}
}

func TestScanDamage(t *testing.T) {
	l := journalOf(4)
	first := int64(len(l[0]))
	zeros := bytes.Repeat([]byte{0}, len(l[1]))
	tests := []struct {
		name    string
		data    [][]byte
		records int
		corrupt bool
	}{
		{"empty", nil, 0, false},
		{"whole", l, 4, false},
		{"garbage between", [][]byte{l[0], []byte("garbage\n"), l[1]}, 1, true},
		{"zeros for a record", [][]byte{l[0], zeros, l[2]}, 1, true},
		{"zeros to the end", [][]byte{l[0], zeros}, 1, true},
		{"a record is gone", [][]byte{l[0], l[2]}, 1, true},
		{"a record comes twice", [][]byte{l[0], l[0]}, 1, true},
		{"an empty line", [][]byte{l[0], []byte("\n"), l[1]}, 1, true},
		{"garbage line at the end", [][]byte{l[0], []byte("garbage\n")}, 1, true},
		{"garbage without newline at the end", [][]byte{l[0], []byte("garbage")}, 1, false},
		{"cut JSON with a newline at the end", [][]byte{l[0], []byte("{\"seq\":2,\"ti\n")}, 1, false},
		{"cut JSON with a newline before the end", [][]byte{l[0], []byte("{\"seq\":2,\"ti\n"), l[1]}, 1, true},
		{"no data", [][]byte{l[0], seal(`{"seq":2,"time":"2026-01-01T00:00:00Z","type":"x"`)}, 1, true},
		{"sealed nonsense", [][]byte{l[0], seal(`[`)}, 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			recs, end, err := scanJournal(bytes.Join(tt.data, nil))
			var bad *CorruptError
			if errors.As(err, &bad) != tt.corrupt || len(recs) != tt.records {
				t.Fatalf("%d records, %v", len(recs), err)
			}
			if tt.corrupt && (bad.Offset != first || end != first) {
				t.Errorf("damaged at %d, end %d, want %d", bad.Offset, end, first)
			}
		})
	}
}

func seal(body string) []byte {
	return fmt.Appendf(nil, "%s%s%s%s\n", body, sealHead, checksum([]byte(body)), sealTail)
}

func FuzzScanJournal(f *testing.F) {
	l := journalOf(3)
	whole := bytes.Join(l, nil)
	f.Add(whole)
	f.Add(whole[:len(whole)-5])
	f.Add(append(slices.Clone(whole), "{\"seq\":4\n"...))
	f.Add(append(slices.Clone(whole), 0, 0, 0))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		recs, end, err := scanJournal(data)
		if end < 0 || end > int64(len(data)) {
			t.Fatalf("end %d of %d", end, len(data))
		}
		if err == nil && bytes.Count(data[end:], []byte("\n")) > 1 {
			t.Fatal("more than a torn tail was ignored")
		}
		next := encodeRecord(Record{Seq: int64(len(recs) + 1), Type: "fact", Data: json.RawMessage(`{}`)})
		again, all, err := scanJournal(append(slices.Clone(data[:end]), next...))
		if err != nil || len(again) != len(recs)+1 || all != end+int64(len(next)) {
			t.Fatalf("cannot go on after %d records: %d, %v", len(recs), len(again), err)
		}
	})
}

func FuzzBackward(f *testing.F) {
	f.Add([]byte("a\nbb\n\n"), uint16(1), []byte("ccc"))
	f.Add([]byte("0123456789\n"), uint16(5000), []byte{})
	f.Add([]byte("x"), uint16(65000), []byte("\ny\n"))
	f.Fuzz(func(t *testing.T, head []byte, times uint16, tail []byte) {
		data := append(bytes.Repeat(head, min(int(times), 70000/(len(head)+1))), tail...)
		var want []string
		if _, err := deliver(data, func(line []byte) error {
			want = append(want, string(line))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		slices.Reverse(want)
		var got []string
		b := newBackward(bytes.NewReader(data), int64(len(data)))
		for line, err := b.next(); err == nil; line, err = b.next() {
			got = append(got, string(line))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
		if end, err := lastLineEnd(bytes.NewReader(data), int64(len(data))); err != nil || end != int64(bytes.LastIndexByte(data, '\n')+1) {
			t.Fatalf("lines end at %d, %v", end, err)
		}
	})
}
