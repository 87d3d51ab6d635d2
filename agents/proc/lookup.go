package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// findProgram is the file to execute for name. One with a slash is taken as it is,
// seen from dir; whether it can be executed shows when it is. Another is looked
// for in the absolute directories of the PATH in env. As with [exec.LookPath], a
// program of the working directory is never found by chance.
func findProgram(name, dir string, env []string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	if strings.Contains(name, "/") {
		return filepath.Join(dir, name), nil
	}
	blocked := ""
	for _, d := range filepath.SplitList(variable(env, "PATH")) {
		if !filepath.IsAbs(d) || name == "" {
			continue
		}
		file := filepath.Join(d, name)
		switch err := executable(file); {
		case err == nil:
			return file, nil
		case errors.Is(err, fs.ErrPermission):
			blocked = file
		}
	}
	if blocked != "" {
		return "", notExecutable(blocked, fs.ErrPermission)
	}
	return "", fmt.Errorf("executable not found: %q is in no directory of PATH; install it or give its full path: %w", name, exec.ErrNotFound)
}

// variable is the value of name in env, the first one as in libc's getenv.
func variable(env []string, name string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// executable says why file cannot be executed, or nil.
func executable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	return unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
}

func notExecutable(file string, err error) error {
	return fmt.Errorf("%q is not executable; chmod +x it or give another path: %w", file, err)
}

// explain says in words why the guardian could not start m. exec and chdir share
// their error numbers, so the files are looked at again.
func explain(m start, f failure) error {
	if f.File != "" && f.File == m.Dir {
		return fmt.Errorf("the working directory %q is not there (any more), or a symbolic link was put in its place: %w", m.Dir, f.Errno)
	}
	if f.File != "" {
		return fmt.Errorf("cannot open %s: %w", f.File, f.Errno)
	}
	if f.Sandbox != "" {
		return fmt.Errorf("the sandbox cannot be set up, so nothing was started: %s", f.Sandbox)
	}
	if info, err := os.Stat(m.Dir); err != nil || !info.IsDir() {
		return fmt.Errorf("the working directory %q is not there (any more): %w", m.Dir, f.Errno)
	}
	switch f.Errno {
	case syscall.ENOENT:
		return explainMissing(m.Program)
	case syscall.EACCES:
		return notExecutable(m.Program, f.Errno)
	case syscall.ENOEXEC:
		return fmt.Errorf("%q is no program for this machine; does it lack its #! line? %w", m.Program, f.Errno)
	case syscall.E2BIG:
		return fmt.Errorf("arguments of %q are too long; one may have 128 KiB, pass more on standard input: %w", m.Program, f.Errno)
	default:
		return fmt.Errorf("cannot start %q: %w", m.Program, f.Errno)
	}
}

// explainMissing tells a missing program from one whose interpreter is missing.
func explainMissing(program string) error {
	if _, err := os.Stat(program); err == nil {
		return fmt.Errorf("%q cannot run: the interpreter of its #! line is missing: %w", program, syscall.ENOENT)
	}
	return fmt.Errorf("executable not found: %q; install it or correct the path: %w", program, exec.ErrNotFound)
}
