package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"flow/state/disk"
	"flow/state/failpoint"
)

const (
	lockWait = 10 * time.Second // for what a dead owner left behind
	lockPoll = 20 * time.Millisecond
)

// owner is the text of a lock file. The lock itself is the kernel's (flock), so
// that it ends with its last holder; the text only tells people who that is.
type owner struct {
	PID   int       `json:"pid"`
	Start uint64    `json:"start"` // field 22 of /proc/PID/stat: pids are used again
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// thisProcess describes the caller as an owner.
func thisProcess() (owner, error) {
	host, err := os.Hostname()
	if err != nil {
		return owner{}, err
	}
	start, _, err := procStat(os.Getpid())
	return owner{PID: os.Getpid(), Start: start, Host: host, Since: time.Now().UTC().Truncate(time.Second)}, err
}

// alive says whether the process that wrote the text still runs. Of other hosts it
// cannot know and says yes.
func (o owner) alive() bool {
	if host, err := os.Hostname(); err != nil || host != o.Host {
		return true
	}
	start, state, err := procStat(o.PID)
	return err == nil && start == o.Start && state != "Z" && state != "X"
}

// procStat returns when a process started, in clock ticks since boot, and its
// state (proc(5), /proc/PID/stat).
func procStat(pid int) (start uint64, state string, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", err
	}
	// The name, in parentheses, may contain anything. The state follows it.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return 0, "", fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return start, fields[0], err
}

// lockRun takes the exclusive lock of the run in dir. A live owner makes it fail at
// once; one that has ended, or has not yet written who it is, makes it wait.
func lockRun(ctx context.Context, dir, id string) (*disk.File, error) {
	f, err := openFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := acquire(ctx, f, id); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	failpoint.Reach("lock-taken")
	if err := writeOwner(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	failpoint.Reach("lock-signed")
	return f, nil
}

func acquire(ctx context.Context, f *disk.File, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, errOrphans)
	defer cancel()
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		held := lockedError(f, id)
		if held.PID != 0 && !held.Dead {
			return held
		}
		select {
		case <-ctx.Done():
			return waited(ctx, held)
		case <-tick.C:
		}
	}
}

var errOrphans = errors.New("gave up waiting for the lock")

// waited is the error after waiting for a lock in vain.
func waited(ctx context.Context, held *LockedError) error {
	return fmt.Errorf("%w: %w", held, context.Cause(ctx))
}

// lockedError says who holds the lock of f. PID is 0 when the text is not there
// (yet): the holder has just taken it, is about to release it, or only asks
// whether it is free.
func lockedError(f *disk.File, id string) *LockedError {
	text, _ := readOpened(f) // no text says as little as one that cannot be read
	line, _, _ := bytes.Cut(text, []byte("\n"))
	var o owner
	if json.Unmarshal(line, &o) != nil {
		return &LockedError{ID: id}
	}
	return &LockedError{ID: id, PID: o.PID, Host: o.Host, Since: o.Since, Dead: !o.alive()}
}

func writeOwner(f *disk.File) error {
	o, err := thisProcess()
	if err != nil {
		return err
	}
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(append(line, '\n'), 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(line)) + 1)
}

// unlockRun takes the text away and closes the file. The lock itself stays until
// those who inherited the file have closed it too.
func unlockRun(f *disk.File) error {
	_ = f.Truncate(0) // the text of a process that has ended misleads nobody
	failpoint.Reach("lock-cleared")
	return f.Close()
}

// lockHeld says whether a process holds the lock of the run in dir.
func lockHeld(dir string) bool {
	f, err := openFile(filepath.Join(dir, lockFile), os.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close() // and with it our own lock
	return errors.Is(flock(f, unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}

func flock(f *disk.File, how int) error {
	return retryIntr(func() error { return unix.Flock(int(f.OS().Fd()), how) })
}
