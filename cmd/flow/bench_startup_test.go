package main

import (
	"os"
	"testing"
)

// BenchmarkStartup starts `flow version`. Its floor is a Go program that prints
// hello. starts/op tells how many of each one turn has.
func BenchmarkStartup(b *testing.B) {
	const starts = 20
	flow, hello := buildRelease(b), build(b, "flow/cmd/flow/testdata/bench/hello")
	launch := newLauncher(b)
	var own, floor times
	var rss []int64
	for range b.N {
		for range starts {
			c := launch.run(b, nil, flow, "version")
			own, rss = append(own, c.Wall), append(rss, c.RSS)
			floor = append(floor, launch.run(b, nil, hello).Wall)
		}
	}
	info, err := os.Stat(flow)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(starts, "starts/op")
	b.ReportMetric(1e3*own.seconds(), "ms")
	b.ReportMetric(own.over(floor), "x-hello")
	b.ReportMetric(float64(median(rss))/mib, "RSS-MiB")
	b.ReportMetric(float64(info.Size())/1e6, "binary-MB")
}
