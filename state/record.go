package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"time"
)

// The record types that this package writes itself. All others are the caller's.
const (
	typeCreated  = "created"
	typeFinished = "finished"
)

// A Record is one line of a journal. Data is the caller's JSON.
type Record struct {
	Seq  int64           `json:"seq"` // from 1, without gaps
	Time time.Time       `json:"time"`
	Type string          `json:"type"`
	Data json.RawMessage `json:"data"`
}

// A sealed line ends with sealHead, eight hexadecimal digits and sealTail. The
// digits are the CRC-32C of all bytes of the line before sealHead.
const (
	sealHead = `,"sum":"`
	sealTail = `"}`
	sealLen  = len(sealHead) + 8 + len(sealTail)
)

func checksum(p []byte) []byte {
	sum := crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli))
	return fmt.Appendf(nil, "%08x", sum)
}

// encodeRecord returns the line of a record, with its newline. The data must be
// JSON on one line.
func encodeRecord(r Record) []byte {
	b := make([]byte, 0, len(r.Data)+128)
	b = append(b, `{"seq":`...)
	b = strconv.AppendInt(b, r.Seq, 10)
	b = append(b, `,"time":"`...)
	b = r.Time.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","type":"`...)
	b = append(b, r.Type...)
	b = append(b, `","data":`...)
	b = append(b, r.Data...)
	sum := checksum(b)
	b = append(b, sealHead...)
	b = append(b, sum...)
	return append(b, sealTail+"\n"...)
}

// sealed says whether the line ends with the right checksum.
func sealed(line []byte) bool {
	n := len(line) - sealLen
	return n > 0 && hasSeal(line) && bytes.Equal(line[n+len(sealHead):len(line)-len(sealTail)], checksum(line[:n])) &&
		bytes.HasSuffix(line, []byte(sealTail))
}

// hasSeal says whether a checksum begins where it should in a whole line.
func hasSeal(line []byte) bool {
	n := len(line) - sealLen
	return n > 0 && bytes.HasPrefix(line[n:], []byte(sealHead))
}

// decodeRecord reads a line without its newline. The record shares its memory.
func decodeRecord(line []byte) (Record, error) {
	var r Record
	if !sealed(line) {
		return r, errors.New("the checksum is wrong")
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, err
	}
	if r.Type == "" || r.Data == nil {
		return r, errors.New("the record has no type or no data")
	}
	return r, nil
}

// scanJournal reads the records of a journal up to end, where a write was
// interrupted or the data ends. Anything that does not check and that no
// interrupted write can have left is a *CorruptError.
func scanJournal(data []byte) (recs []Record, end int64, err error) {
	rest := data
	for len(rest) > 0 {
		line, tail, whole := bytes.Cut(rest, []byte("\n"))
		if !whole && interrupted(line) {
			break
		}
		rec, err := nextRecord(line, whole, int64(len(recs)+1))
		if err != nil && len(tail) == 0 && whole && cutShort(line) {
			break
		}
		if err != nil {
			return recs, end, &CorruptError{Offset: end, Reason: err.Error()}
		}
		recs = append(recs, rec)
		end += int64(len(line)) + 1
		rest = tail
	}
	return recs, end, nil
}

func nextRecord(line []byte, whole bool, seq int64) (Record, error) {
	if !whole {
		return Record{}, errors.New("the end was overwritten")
	}
	rec, err := decodeRecord(line)
	if err == nil && rec.Seq != seq {
		err = fmt.Errorf("expected record %d, found %d", seq, rec.Seq)
	}
	return rec, err
}

// interrupted says whether an append that was cut off can have left tail, which
// has no newline. Zero bytes are no part of a record (a page was lost), and a whole
// record with another byte where its newline was has been damaged: either may hide
// a record that was acknowledged.
func interrupted(tail []byte) bool {
	return bytes.IndexByte(tail, 0) < 0 && !sealed(tail[:len(tail)-1])
}

// cutShort says whether the last line is JSON that stops too early, although a
// newline follows (an editor, or a copy, may add one). A line with either half of
// the seal was once whole, so one damaged byte never makes it look cut.
func cutShort(line []byte) bool {
	if hasSeal(line) || bytes.HasSuffix(line, []byte(sealTail)) {
		return false
	}
	err := json.NewDecoder(bytes.NewReader(line)).Decode(new(json.RawMessage))
	return errors.Is(err, io.ErrUnexpectedEOF)
}

// encodeData returns v as JSON on one line.
func encodeData(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
