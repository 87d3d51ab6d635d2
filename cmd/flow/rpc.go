package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"flow/cmd/flow/internal/rpc"
)

func (a *app) rpcCommand() *cobra.Command {
	var detach bool
	cmd := &cobra.Command{
		Use:   "rpc",
		Short: "Let a program drive flow: JSON-RPC on standard input and output",
		Long: "rpc speaks JSON-RPC 2.0, one message a line, with the program that started it: it discovers and runs agents,\n" +
			"runs pipelines, answers permissions, and follows runs. flow schema rpc prints the methods, docs/rpc.md explains\n" +
			"them. When standard input ends, the runs that were begun are stopped; they can be resumed.",
		Example: "  echo '{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"agent/discover\"}' | flow rpc",
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return a.rpc(detach) },
	}
	cmd.Flags().BoolVar(&detach, "detach", false, "when standard input ends, let the runs come to their end")
	return cmd
}

func (a *app) rpc(detach bool) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	h := a.newHost(dir)
	ctx, stop := watchSignals(context.Background(), h.interrupted)
	defer stop()
	err = h.server().Serve(ctx, a.stdin, a.exact(), func() {
		if !detach {
			h.stopAll(errClientGone)
		}
		h.finish()
	})
	h.end(ctx)
	return err
}

// server is the protocol over what the host can do.
func (h *host) server() *rpc.Server {
	return rpc.NewServer(rpcError,
		inline(rpc.NewMethod("rpc/initialize", "Says who calls and what it can do. Only a client that answers permissions needs it.", h.initialize)),
		rpc.NewMethod("agent/discover", "Lists the agents, what they can do, and whether they are installed and logged in.", h.discoverAgents),
		inline(rpc.NewMethod("agent/select", "Selects the agent that agent/run takes when it names none. One holds for all clients.", h.selectAgent)),
		inline(rpc.NewMethod("agent/configure", "Sets options that every agent/run of an agent has from now on. What is not given stays.", h.configureAgent)),
		rpc.NewMethod("agent/run", "Gives a prompt to an agent, as a run of its own or as the next turn of one. Answers at once.", h.runAgent),
		rpc.NewMethod("agent/stop", "Asks the agent of a run to stop. The session can be continued.", h.stopAgent),
		rpc.NewMethod("agent/respond", "Answers a permission that an agent asks for, or the question of an ask step.", h.respond),
		rpc.NewMethod("pipeline/validate", "Finds all mistakes of a pipeline.", h.validatePipeline),
		rpc.NewMethod("pipeline/run", "Begins a run of a pipeline. Answers at once.", h.runPipeline),
		rpc.NewMethod("pipeline/resume", "Goes on with a run that was interrupted, stopped or failed. Answers at once.", h.resumePipeline),
		rpc.NewMethod("pipeline/cancel", "Stops a run that is under way in this server. It can be resumed.", h.cancelPipeline),
		rpc.NewMethod("pipeline/approve", "Answers a question of a run, and goes on with it if nobody has it under way.", h.approvePipeline),
		rpc.NewMethod("run/list", "Lists the runs, newest first.", h.listRuns),
		rpc.NewMethod("run/show", "Shows how a run and its steps stand, and what it waits for.", h.showRun),
		rpc.NewMethod("run/events", "Reads the unified events of a run behind a cursor; with subscribe, has them told as they come.", h.runEvents),
		inline(rpc.NewMethod("run/unsubscribe", "Ends the notifications of a run.", h.unsubscribe)),
	)
}

func inline(m rpc.Method) rpc.Method {
	m.Inline = true
	return m
}
