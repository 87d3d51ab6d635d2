package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
)

// A reading is one event that a native line was read as, without what differs from run to
// run: its numbers, times, and where the line stands.
type reading struct {
	file string // that the line stands in, "" for an event of flow's own
	step string
	body []byte // JSON, its keys in order
}

func (r reading) String() string {
	if r.body == nil {
		return "nothing"
	}
	return string(r.body)
}

// readEvent reads a stored event.
func readEvent(line []byte) (r reading, err error) {
	var e map[string]json.RawMessage
	if err := json.Unmarshal(line, &e); err != nil {
		return r, fmt.Errorf("an event cannot be read: %w", err)
	}
	var native struct {
		File string `json:"file"`
	}
	if raw := e["native"]; raw == nil || json.Unmarshal(raw, &native) != nil || native.File == "" {
		return r, nil
	}
	r.file = native.File
	_ = json.Unmarshal(e["step"], &r.step) // an event of no step has none
	for _, key := range []string{"id", "seq", "run", "step", "attempt", "timestamp", "native", "sessionId"} {
		delete(e, key)
	}
	r.body, err = json.Marshal(e)
	return r, err
}

// readings are the sums of what the lines of each native file were read as, in order. A run
// may have millions of events: their texts are not kept.
func readings(seed maphash.Seed, events func(func([]byte) error) error) (map[string][]uint64, error) {
	all := map[string][]uint64{}
	err := events(func(line []byte) error {
		r, err := readEvent(line)
		if err == nil && r.file != "" {
			all[r.file] = append(all[r.file], maphash.Bytes(seed, r.body))
		}
		return err
	})
	return all, err
}

// nthReading is the nth event, from 0, that the lines of a file were read as; none beyond
// the last.
func nthReading(events func(func([]byte) error) error, file string, nth int) (found reading, err error) {
	err = events(func(line []byte) error {
		r, err := readEvent(line)
		if err != nil || r.file != file {
			return err
		}
		if nth == 0 {
			found = r
			return errFound
		}
		nth--
		return nil
	})
	if errors.Is(err, errFound) {
		err = nil
	}
	return found, err
}
