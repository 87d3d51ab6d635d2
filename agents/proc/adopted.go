package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// adoptedTimeout bounds the wait for killed processes; only one stuck in the kernel
// takes long.
const adoptedTimeout = 5 * time.Second

// killAdopted kills and reaps what came to flow because its guardian died.
func killAdopted() error {
	deadline := time.Now().Add(adoptedTimeout)
	for pause := time.Millisecond; ; pause *= 2 {
		t, err := readTree()
		if err != nil {
			return fmt.Errorf("processes may be left over: %w", err)
		}
		adopted := t.adopted(os.Getpid())
		if len(adopted) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v do not end; end them by hand", adopted)
		}
		for _, root := range adopted {
			for _, pid := range t.below(root) {
				unix.Kill(pid, unix.SIGKILL)
			}
			reapOne(root)
		}
		time.Sleep(pause)
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

// reapOne reaps a child if it has ended.
func reapOne(pid int) {
	for {
		if _, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
