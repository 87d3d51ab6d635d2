// Package proc is the only place of flow where processes are started and ended.
// It is for Linux.
//
// A [Supervisor] runs processes and promises:
//
//   - When Run returns, nothing of the process is left: not its children, not
//     daemons that left its session, as far as they can be attributed to it.
//   - When flow dies, even by kill -9, everything it started ends within a second,
//     and what ended how is on record.
//   - Output goes straight into files. It survives flow, and a descendant that
//     holds it open delays nothing. Every byte reaches the file; every line reaches
//     the [Sink], in order, however slow that is.
//
// # How
//
// All processes are started by one guardian: the same executable, started again
// with a hidden argument ([GuardianMain] must come first in main and in TestMain).
// The guardian has a session of its own, so that signals of the terminal miss it,
// and it is a child subreaper, so that every orphan among its descendants becomes
// its child instead of init's. flow and guardian speak over a socket, which is also
// the lifeline: once it is closed, flow is dead, and the guardian ends everything.
//
// If it is the guardian that dies, the kernel kills the processes it started
// (PR_SET_PDEATHSIG), and flow, a subreaper as well, inherits and kills the rest.
// Only if both are killed in the same instant may a daemon survive; nothing short
// of a cgroup could prevent that, and those need rights flow does not have.
//
// # Roads not taken
//
// A helper process for each step costs 8 to 20 ms, the guardian is paid for once.
// Process groups miss whatever calls setsid, as the agents' shells do. Pipes lose
// output when flow dies, are held open by grandchildren, and cost a wake-up for
// each line, where one goroutine that sweeps the files on a tick costs a fifth.
package proc
