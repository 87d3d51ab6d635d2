package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"flow/agents"
)

const translateBytes = 200 * mib

// BenchmarkTranslate turns what three agents printed into unified events, as `flow
// translate` does: in process, with the events thrown away, and as a command, from
// a file to /dev/null. Its floor is bufio reading the same lines; encoding/json,
// decoding no more than the type of each, is there for comparison.
func BenchmarkTranslate(b *testing.B) {
	for _, kind := range []string{"mix", "chatty"} {
		t := newTalker()
		size := map[string]func() int{"mix": t.mix, "chatty": t.chatty}[kind]
		streams := map[string][]byte{}
		for _, agent := range []string{"claude", "codex", "gemini"} {
			streams[agent] = t.stream(agent, translateBytes/3, size)
		}
		b.Run(kind, func(b *testing.B) { benchTranslate(b, streams) })
		b.Run(kind+"/command", func(b *testing.B) { benchTranslateCommand(b, streams) })
	}
}

func benchTranslate(b *testing.B, streams map[string][]byte) {
	b.Helper()
	total, lines := sizeOf(streams)
	b.SetBytes(int64(total))
	var own, floor, std times
	var before, after runtime.MemStats
	var allocs uint64
	for range b.N {
		runtime.ReadMemStats(&before)
		own = append(own, took(func() { translateAll(b, streams) }))
		runtime.ReadMemStats(&after)
		allocs += after.Mallocs - before.Mallocs
		b.StopTimer()
		floor = append(floor, took(func() { readAll(b, streams) }))
		std = append(std, took(func() { decodeAll(b, streams) }))
		b.StartTimer()
	}
	b.ReportMetric(own.over(floor), "x-bufio")
	b.ReportMetric(std.over(own), "x-faster-than-json")
	b.ReportMetric(1e9*own.seconds()/float64(lines), "ns/line")
	b.ReportMetric(float64(allocs)/float64(b.N)/float64(lines), "allocs/line")
}

func sizeOf(streams map[string][]byte) (total, lines int) {
	for _, stream := range streams {
		total, lines = total+len(stream), lines+bytes.Count(stream, []byte("\n"))
	}
	return total, lines
}

func translateAll(b *testing.B, streams map[string][]byte) {
	b.Helper()
	for agent, stream := range streams {
		a := &app{stdin: bytes.NewReader(stream), stdout: io.Discard, stderr: io.Discard, now: time.Now}
		if err := a.translate(translateFlags{agent: agent}); err != nil {
			b.Fatal(err)
		}
	}
}

func readAll(b *testing.B, streams map[string][]byte) {
	b.Helper()
	for _, stream := range streams {
		r := bufio.NewReaderSize(bytes.NewReader(stream), 256<<10)
		for {
			_, err := r.ReadSlice('\n')
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				b.Fatal(err)
			}
		}
	}
}

func decodeAll(b *testing.B, streams map[string][]byte) {
	b.Helper()
	for _, stream := range streams {
		err := eachLine(bytes.NewReader(stream), maxLine, func(line []byte, _ agents.Native) {
			var head struct {
				Type string `json:"type"`
			}
			if err := json.Unmarshal(line, &head); err != nil {
				b.Fatal(err)
			}
		}, nil)
		if err != nil {
			b.Fatal(err)
		}
	}
}

func benchTranslateCommand(b *testing.B, streams map[string][]byte) {
	b.Helper()
	flow, launch, dir := buildRelease(b), newLauncher(b), b.TempDir()
	for agent, stream := range streams {
		mustWrite(b, filepath.Join(dir, agent), string(stream))
	}
	total, _ := sizeOf(streams)
	b.SetBytes(int64(total))
	b.ResetTimer()
	var rss int64
	for range b.N {
		for agent := range streams {
			f, err := os.Open(filepath.Join(dir, agent))
			if err != nil {
				b.Fatal(err)
			}
			rss = max(rss, launch.run(b, f, flow, "translate", "--agent", agent).RSS)
			f.Close()
		}
	}
	b.ReportMetric(float64(rss)/mib, "RSS-MiB")
}
