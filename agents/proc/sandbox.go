package proc

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Sandbox bounds what a process and all its descendants can do. Everything may be
// read and executed, and nothing be written but what Write names, the files of the
// standard streams, and /dev/null, /dev/zero and /dev/full.
//
// What the kernel has no means for is not held: the mode, owner and times of files, and
// what servers do that the process may talk to by a socket of the file system (Landlock
// before ABI 9). Set-user-id programs have no effect in a sandbox.
type Sandbox struct {
	// Write are the files and directories that may be written, absolute and without
	// symbolic links. Those that do not exist when the process starts are left out, and
	// those that have a link in their path by then: somebody has swapped a directory.
	Write []string
	// Network lets the process use the network.
	Network bool
	// Required refuses to start a process that cannot be bounded in full.
	Required bool
}

// A Machine is what the kernel offers to bound processes, to this user.
type Machine struct {
	// Landlock is the version of its interface; 0: there is none.
	Landlock int
	// Namespace is how a process gets a network of its own.
	Namespace Namespace
}

// A Namespace is how a process gets a network namespace.
type Namespace int

// The ways to a network namespace.
const (
	NoNamespace   Namespace = iota // the user may make none
	RootNamespace                  // with the rights of the user as they are
	UserNamespace                  // in a user namespace, which gives these rights
)

// The first versions of Landlock's interface that hold what a Sandbox is about.
const (
	landlockTruncate = 3 // before, a file may be emptied that may not be written
	landlockTCP      = 4
	landlockUDP      = 10
)

// HoldsFiles reports whether a process can be kept from changing the content of files.
func (m Machine) HoldsFiles() bool { return m.Landlock >= landlockTruncate }

// String says what the machine has, for people.
func (m Machine) String() string {
	files := "no Landlock: files cannot be protected"
	if m.Landlock > 0 {
		files = "Landlock ABI " + strconv.Itoa(m.Landlock)
	}
	network := "no network namespaces"
	switch m.Namespace {
	case RootNamespace:
		network = "network namespaces"
	case UserNamespace:
		network = "network namespaces in user namespaces"
	case NoNamespace:
	}
	return files + ", " + network
}

// A bound is a Sandbox as a machine can hold it.
type bound struct {
	landlock  int  // version to use; 0: none
	network   bool // forbid it by Landlock, as far as that can
	namespace Namespace
	write     []string
	held      []string // what is, for people
	lacks     []string // what is not
}

// bounded plans how a process is held to s on m.
func (m Machine) bounded(s *Sandbox) (bound, error) {
	b := bound{landlock: m.Landlock, write: s.Write}
	for _, path := range s.Write {
		if !filepath.IsAbs(path) {
			return b, fmt.Errorf("the sandbox cannot allow %q: it is no absolute path", path)
		}
	}
	b.files()
	if !s.Network {
		b.offline(m.Namespace)
	}
	if s.Required && len(b.lacks) > 0 {
		return b, fmt.Errorf("the sandbox is required and cannot be enforced here: %s; use a newer kernel, or leave `required` out", strings.Join(b.lacks, "; "))
	}
	return b, nil
}

func (b *bound) files() {
	switch {
	case b.landlock == 0:
		b.lacks = append(b.lacks, "files can be written: the kernel has no Landlock")
		return
	case b.landlock < landlockTruncate:
		b.lacks = append(b.lacks, fmt.Sprintf("files can be truncated: Landlock ABI %d does not know of that", b.landlock))
	}
	where := "nothing is written"
	if len(b.write) > 0 {
		where = "writes only in " + strings.Join(b.write, ", ")
	}
	b.held = append(b.held, fmt.Sprintf("Landlock ABI %d: %s", b.landlock, where))
}

// offline plans how the network is kept off. Landlock comes second: it knows neither
// Multipath TCP nor, before ABI 10, UDP.
func (b *bound) offline(n Namespace) {
	switch {
	case n != NoNamespace:
		b.namespace = n
		b.held = append(b.held, "network off (a namespace of its own)")
		return
	case b.landlock >= landlockUDP:
		b.network = true
		b.held = append(b.held, "TCP and UDP off")
		b.lacks = append(b.lacks, "other protocols reach the network: network namespaces cannot be made")
	case b.landlock >= landlockTCP:
		b.network = true
		b.held = append(b.held, "TCP off")
		b.lacks = append(b.lacks, "protocols other than TCP reach the network: network namespaces cannot be made")
	default:
		b.lacks = append(b.lacks, "the network is on: network namespaces cannot be made")
	}
}

// idle reports whether there is nothing to be done.
func (b *bound) idle() bool { return b.landlock == 0 && b.namespace == NoNamespace }

// String is Result.Sandbox.
func (b *bound) String() string {
	var parts []string
	if len(b.held) > 0 {
		parts = append(parts, strings.Join(b.held, "; "))
	}
	if len(b.lacks) > 0 {
		parts = append(parts, "not enforced: "+strings.Join(b.lacks, "; "))
	}
	return strings.Join(parts, ". ")
}

// apply has m started within the bound. The directory that a process is started in is
// allowed as the directory it is, by whatever name. The standard streams' files may be opened again,
// as scripts do that write to /dev/stderr.
func (b *bound) apply(m *start) {
	if b.idle() {
		return
	}
	write := slices.Clone(b.write)
	if i := slices.Index(write, m.Dir); i >= 0 && m.Settled {
		write[i] = "."
	}
	for _, file := range []string{m.Stdout, m.Stderr} {
		if dir, err := filepath.EvalSymlinks(filepath.Dir(file)); file != "" && err == nil {
			write = append(write, filepath.Join(dir, filepath.Base(file)))
		}
	}
	m.Shim, m.Namespace = shimArgs(m.Argv[0], b, write), b.namespace
}
