package proc

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// openSettled opens an absolute path that has no symbolic link in it, without reading it: the
// descriptor is the file that was meant, whatever is put in the place of its name meanwhile.
// A link anywhere in the path is ENOTDIR, or ELOOP at its end.
//
// It goes from directory to directory: openat2, which could do it at once, is unknown to some
// containers' filters.
func openSettled(path string) (int, error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open("/", flags|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1, err
	}
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	for i, name := range names {
		kind := unix.O_DIRECTORY
		if i == len(names)-1 {
			kind = 0
		}
		next, err := unix.Openat(fd, name, flags|kind, 0)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	if err := notLink(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// notLink returns an error if fd is a symbolic link itself.
func notLink(fd int) error {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	return err
}

// descriptorPath is a name for what fd is, for calls of this process that take nothing else.
func descriptorPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
