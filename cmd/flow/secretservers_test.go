package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"flow/cmd/flow/internal/rpc"
)

// TestServeComplainsWithoutSecrets: what a server says of a run that no client asked about has
// no secret of that run: here a part of a path.
func TestServeComplainsWithoutSecrets(t *testing.T) {
	t.Parallel()
	r := newCrashRun(t, "complains")
	secret := filepath.Base(filepath.Dir(r.state()))
	r.env = append(r.env, "COMPLAINT_TOKEN="+secret)
	s := r.serve(t)
	p := s.dial(t)
	begun, err := p.RunPipeline(t.Context(), rpc.PipelineRunParams{
		PipelineRef: rpc.PipelineRef{Text: "secrets: COMPLAINT_TOKEN\nsteps: {a: {run: 'rm " + r.state() + "/runs/*/journal.jsonl'}}"},
	})
	if err != nil {
		t.Fatal(err)
	}
	journal := filepath.Join(r.state(), "runs", begun.Run, "journal.jsonl")
	if !eventually(func() bool { _, err := os.Stat(journal); return err != nil }) {
		t.Fatal("the step did not begin")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	s.stop(syscall.SIGTERM)
	_, complaint, complained := strings.Cut(s.said.String(), "flow: ")
	if !complained || !strings.Contains(complaint, "***") || strings.Contains(complaint, secret) {
		t.Errorf("of a run with %s as its secret it says: %s", secret, s.said.String())
	}
}
