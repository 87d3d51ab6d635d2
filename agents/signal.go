package agents

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// SignalName is the name of signal n without its prefix: "KILL" for 9. A number
// that is no signal is returned as text.
func SignalName(n int) string {
	if name := unix.SignalName(unix.Signal(n)); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return strconv.Itoa(n)
}
