// Command flow runs multi-agent pipelines from YAML.
package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"

	"flow/agents/proc"
	"flow/agents/simulate"
	"flow/cmd/flow/internal/console"
)

func main() {
	proc.GuardianMain() // returns unless this process was started as a run's guardian
	os.Exit(realMain(time.Now))
}

// realMain runs the command line of the process, whose clock is now, and returns its exit
// status.
func realMain(now func() time.Time) int {
	if len(os.Args) > 2 && os.Args[1] == agentCommand {
		return simulate.Main(os.Args[2], os.Args[3:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	}
	hideMemory()
	stdout, stderr := console.Standard(os.Stdout, os.Stderr)
	a := &app{
		stdin: os.Stdin, stdout: stdout, stderr: stderr,
		getenv: os.Getenv, environ: os.Environ, now: now,
	}
	return a.main(os.Args[1:])
}

// hideMemory keeps other processes of the user from reading this one's environment and memory
// (/proc/PID/environ), where secrets are that what flow starts is not given. Root still can.
// The guardian must go without it, for it makes user namespaces, which the kernel then refuses;
// it is started without those variables.
func hideMemory() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// agentCommand is the hidden first argument with which flow starts itself as a
// simulated agent.
const agentCommand = "__agent"
