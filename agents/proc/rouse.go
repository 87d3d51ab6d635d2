package proc

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

// rouseTick is how often flow looks whether its guardian was stopped.
const rouseTick = time.Second

// rouse continues a guardian that somebody stopped, for as long as there is one. Without it
// no process would be seen to end, and no timeout could end one. A guardian that is merely
// slow, on a machine that is, is not hurried: it answers later.
func (c *client) rouse(log hclog.Logger) {
	ticker := time.NewTicker(rouseTick)
	defer ticker.Stop()
	for {
		select {
		case <-c.gone:
			return
		case <-ticker.C:
		}
		pid := c.cmd.Process.Pid
		if !c.isNeeded() || !isStopped(pid) {
			continue
		}
		log.Warn("the guardian was stopped by a signal and is continued", "pid", pid)
		kill(pid, unix.SIGCONT)
	}
}

// isNeeded reports whether somebody waits for the guardian.
func (c *client) isNeeded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) > 0 || c.closing
}

// isStopped reports whether a signal has stopped a process. One that a debugger holds is
// the debugger's.
func isStopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	end := strings.LastIndexByte(string(stat), ')')
	return strings.HasPrefix(string(stat[end+1:]), " T ")
}
