package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// killAdopted kills and reaps what came to flow because its guardian died. What the
// killed leave comes to flow in turn, so it goes on until there is nothing.
func killAdopted() error {
	for {
		t, err := readTree()
		if err != nil {
			return fmt.Errorf("processes may be left over; look for %s in their environment: %w", attemptVar, err)
		}
		adopted := t.adopted(os.Getpid())
		if len(adopted) == 0 {
			return nil
		}
		for _, root := range adopted {
			for _, pid := range t.below(root) {
				kill(pid, unix.SIGKILL)
			}
		}
		for _, root := range adopted {
			reapOne(root)
		}
	}
}

// adopted are the children of flow that flow did not start: they have a session of
// their own and are no guardian of another Supervisor.
func (t tree) adopted(flow int) []int {
	own := t.byPID[flow].session
	return slices.DeleteFunc(slices.Clone(t.children[flow]), func(pid int) bool {
		return t.byPID[pid].session == own || runsGuardian(pid)
	})
}

func runsGuardian(pid int) bool {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && isGuardian(strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00"))
}

// reapOne waits for a killed child.
func reapOne(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
