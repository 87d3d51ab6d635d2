package claude

import (
	"slices"
	"strings"

	"flow/agents"
)

// The transports. Both begin `claude -p` and read stream-json. printed gets the prompt
// and is on its own; in talked, standard input stays open: the CLI asks before every
// call of a tool, can be interrupted and be told more.
const (
	printed = "print"
	talked  = "stream-json"
)

func transports() []string { return []string{printed, talked} }

// Transport returns the protocol for r. Rules make it the two-way one: there each call is
// put to flow before it is made, while the CLI's own rules say less than flow's, and
// commands that only read pass them unasked. So does an approval mode that asks.
func (Adapter) Transport(r agents.Request) string {
	switch {
	case r.Transport != "":
		return r.Transport
	case r.Ruled(), r.Asks():
		return talked
	}
	return printed
}

func talks(r agents.Request) bool { return r.Transport == talked }

func refuseTransport(r agents.Request) error {
	if r.Transport == "" || slices.Contains(transports(), r.Transport) {
		return nil
	}
	return unsupported("Claude Code has no transport "+r.Transport, "use "+strings.Join(transports(), " or "))
}
