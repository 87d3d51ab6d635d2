package main

import (
	"testing"
	"time"

	"flow/cmd/flow/internal/scriptmodel"
)

// TestRealPipeline runs a pipeline through the real CLIs.
func TestRealPipeline(t *testing.T) {
	path, binary := realCLIs(t), buildFlow(t)
	c := cast{line: "Hello, world of 4711", delay: 50 * time.Millisecond}
	l := newLab(t, path, binary, scriptmodel.New(c.script, nil))
	start := time.Now()
	cmd := l.flow(t, 0, "run", l.pipeline(t, "pipeline.yaml"), "--run-id", "real", "-o", "json")
	t.Logf("%v\n%s\n%s", time.Since(start), cmd.stderr.String(), cmd.stdout.String())
	for _, e := range l.events(t, "real") {
		t.Logf("%+v", e)
	}
	for _, x := range l.model.Exchanges() {
		t.Logf("%v %s %s %d %v %v %v", x.Request.API, x.Request.Model, x.Request.Session, len(x.Request.Items), x.Request.Side, x.Turn, x.Done)
	}
}
