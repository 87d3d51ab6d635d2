package state

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"flow/state/disk"
)

var fact = json.RawMessage(`{"kind":"succeeded","path":"fix.edit","attempt":1,"result":{"text":"` + strings.Repeat("x", 200) + `"}}`)

// BenchmarkAppend measures durable appends of records of 0.4 KB.
func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 2, 64} {
		b.Run(fmt.Sprintf("sync/callers=%d", callers), func(b *testing.B) { benchAppend(b, callers) })
	}
	b.Run("nosync", func(b *testing.B) {
		r := createRun(b, openStore(b), "a")
		for b.Loop() {
			must(b, r.Append(b.Context(), "fact", fact, false))
		}
	})
}

func benchAppend(b *testing.B, callers int) {
	b.Helper()
	r := createRun(b, openStore(b), "a")
	var syncs, next atomic.Int64
	r.journal.fdatasync = func(f *disk.File) error {
		syncs.Add(1)
		return f.Datasync()
	}
	b.ResetTimer()
	var g errgroup.Group
	for range callers {
		g.Go(func() error {
			for next.Add(1) <= int64(b.N) {
				if err := r.Append(b.Context(), "fact", fact, true); err != nil {
					return err
				}
			}
			return nil
		})
	}
	must(b, g.Wait())
	b.ReportMetric(float64(syncs.Load())/float64(b.N), "fsyncs/op")
}

func BenchmarkAppendEvents(b *testing.B) {
	line := append(bytes.Repeat([]byte("e"), 499), '\n')
	for _, batch := range []int{1, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			r := createRun(b, openStore(b), "a")
			p := bytes.Repeat(line, batch)
			for b.Loop() {
				must(b, r.AppendEvents(p))
			}
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func BenchmarkEvents(b *testing.B) {
	r := createRun(b, openStore(b), "a")
	p := bytes.Repeat(append(bytes.Repeat([]byte("e"), 499), '\n'), 100_000)
	must(b, r.AppendEvents(p))
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		must(b, r.Events(func([]byte) error { return nil }))
	}
}

// BenchmarkRuns lists a state of 100,000 runs, which are empty directories.
func BenchmarkRuns(b *testing.B) {
	s := openStore(b)
	fillIndex(b, s, 100_000)
	for _, limit := range []int{50, 0} {
		b.Run(fmt.Sprintf("limit=%d", limit), func(b *testing.B) {
			for b.Loop() {
				if list, err := s.Runs(limit); err != nil || len(list) != limit && limit > 0 {
					b.Fatal(len(list), err)
				}
			}
		})
	}
}

func fillIndex(b *testing.B, s *Store, n int) {
	b.Helper()
	var index bytes.Buffer
	enc := json.NewEncoder(&index)
	for i := range n {
		id := NewID(t0.Add(time.Duration(i) * time.Second))
		must(b, os.Mkdir(s.path(runsDir, id), 0o700))
		h := Header{ID: id, Name: "a-pipeline", File: "pipelines/a-pipeline.yaml", Created: t0, Steps: 7}
		must(b, enc.Encode(h.entry()))
		must(b, enc.Encode(entry{ID: id, Type: entryFinished, Time: t0, Status: "succeeded"}))
	}
	mustWrite(b, s.path(indexFile), index.Bytes())
}

func BenchmarkOpenRun(b *testing.B) {
	s := openStore(b)
	r := createRun(b, s, "a")
	for range 10_000 {
		must(b, r.Append(b.Context(), "fact", fact, false))
	}
	closeRun(b, r)
	for b.Loop() {
		r, err := s.OpenRun(b.Context(), "a")
		must(b, err)
		must(b, r.Close())
	}
}

func BenchmarkCreate(b *testing.B) {
	s := openStore(b)
	files := map[string][]byte{"pipeline.yaml": make([]byte, 2000), "plan.json": make([]byte, 5000), "inputs.json": []byte("{}")}
	for i := 0; b.Loop(); i++ {
		r, err := s.Create(Header{ID: fmt.Sprint("r", i)}, files)
		must(b, err)
		must(b, r.Close())
	}
}
