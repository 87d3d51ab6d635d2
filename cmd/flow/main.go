// Command flow runs multi-agent pipelines from YAML.
package main

import (
	"os"
	"time"

	"flow/agents/proc"
	"flow/agents/simulate"
	"flow/cmd/flow/internal/console"
)

func main() {
	proc.GuardianMain() // returns unless this process was started as a run's guardian
	os.Exit(realMain())
}

// realMain runs the command line of the process and returns its exit status.
func realMain() int {
	if len(os.Args) > 2 && os.Args[1] == agentCommand {
		return simulate.Main(os.Args[2], os.Args[3:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	}
	stdout, stderr := console.Standard(os.Stdout, os.Stderr)
	a := &app{
		stdin: os.Stdin, stdout: stdout, stderr: stderr,
		getenv: os.Getenv, environ: os.Environ, now: time.Now,
	}
	return a.main(os.Args[1:])
}

// agentCommand is the hidden first argument with which flow starts itself as a
// simulated agent.
const agentCommand = "__agent"
