package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"flow/cmd/flow/internal/rpc"
)

// crashServers kills servers while runs are under way in them, several of them at once in one
// process. Each run is then gone on with by itself, and comes to what it would have come to.
func crashServers(t *testing.T, y *survived, seed uint64) {
	t.Parallel()
	servers, runs := 1, 2
	if *long {
		servers, runs = 12, 4
	}
	for i := range servers {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			p := newPlot(seed+uint64(1000+i), true)
			for slices.Contains(p.scenes, "permission") { // no client is there to permit anything
				p = newPlot(p.seed+1000, true)
			}
			want, usual := p.undisturbed(t)
			for task := range want.Turns {
				want.Turns[task] *= runs // the agents of all runs in a server note their turns in one place
			}
			random := rand.New(rand.NewPCG(p.seed, 7))
			var all []*story
			for j := range runs {
				s := p.story(t, y, fmt.Sprintf("s%d", j), want, usual, random)
				if j > 0 {
					s.shared = all[0].state()
				}
				write(t, filepath.Dir(s.dir), filepath.Base(s.dir)+".log") // all may have happened in the server
				all = append(all, s)
			}
			crashServer(t, all, time.Duration(random.Int64N(int64(usual))))
			for _, s := range all {
				s.tell(t, nil)
			}
			for _, s := range all {
				s.conclude(t)
			}
		})
	}
}

// crashServer begins the stories in one server, and kills it after a while.
func crashServer(t *testing.T, all []*story, after time.Duration) {
	t.Helper()
	server := all[0].serve(t)
	client := server.dial(t)
	for _, s := range all {
		go func() {
			file := rpc.PipelineRef{File: s.pipeline, Dir: s.dir}
			_, _ = client.RunPipeline(t.Context(), rpc.PipelineRunParams{PipelineRef: file, RunID: s.id, Simulate: true}) // the server may die before it answers
		}()
	}
	time.Sleep(after)
	server.stop(syscall.SIGKILL)
	all[0].score.killed("a server")
	for _, s := range all {
		s.kills++
		s.settle(t)
		s.invariants(t)
	}
}
