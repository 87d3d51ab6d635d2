package proc

import (
	"os"
	"os/exec"
	"syscall"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// landlockABI is the version of Landlock that can be used; 0 for none.
func landlockABI() int {
	const newest = 11 // that this package speaks
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	// The first kernels with ABI 6 let a process no more signal its own threads.
	if errata, err := ll.LandlockGetErrata(); abi >= 6 && (err != nil || errata&2 == 0) {
		return 5
	}
	return min(abi, newest)
}

// namespaces finds out how a process gets a network of its own, by making one: what a
// container or a security module forbids shows in no file.
func namespaces() Namespace {
	ways := []Namespace{UserNamespace}
	if os.Geteuid() == 0 { // in a user namespace root would lose its rights on others' files
		ways = []Namespace{RootNamespace, UserNamespace}
	}
	for _, way := range ways {
		cmd := exec.Cmd{
			Path: "/proc/self/exe", Args: probeArgs(), SysProcAttr: way.attributes(&syscall.SysProcAttr{}),
		}
		if cmd.Run() == nil {
			return way
		}
	}
	return NoNamespace
}

// attributes adds to those of a process that it gets a network of its own. It keeps
// its user and group.
func (n Namespace) attributes(a *syscall.SysProcAttr) *syscall.SysProcAttr {
	switch n {
	case RootNamespace:
		a.Cloneflags |= unix.CLONE_NEWNET
	case UserNamespace:
		uid, gid := os.Geteuid(), os.Getegid()
		a.Cloneflags |= unix.CLONE_NEWNET | unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	case NoNamespace:
	}
	return a
}
