package disk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"flow/state/failpoint"
)

// TestMain does some operations in the directory that a test names, and says how they went.
func TestMain(m *testing.M) {
	dir := os.Getenv("DISK_PROGRAM")
	if dir == "" {
		os.Exit(m.Run())
	}
	Observe(func(op Op) {
		fmt.Println(strings.TrimPrefix(string(op.Kind), "disk-"), filepath.Base(op.Path), op.Offset, string(op.Data))
	})
	if err := program(dir); err != nil {
		fmt.Println(strings.ReplaceAll(err.Error(), dir, "DIR"))
	}
}

func program(dir string) error {
	name := filepath.Join(dir, "sub", "file")
	if err := MkdirAllDurably(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	for _, text := range []string{"one;", "two;"} {
		if _, err := f.Write([]byte(text)); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	if err := errors.Join(f.Datasync(), f.Close()); err != nil {
		return err
	}
	return Rename(name, filepath.Join(dir, "done"))
}

func TestOperationsAreSeenAndFail(t *testing.T) {
	const begin = "mkdir sub 0 \nsync 001 0 \ncreate file 0 \n"
	for _, tt := range []struct{ points, out, file string }{
		{"", begin + "write file 0 one;\nwrite file 4 two;\nsync file 0 \nrename file 0 \n", "done"},
		{"disk-write:2=ENOSPC", begin + "write file 0 one;\nwrite file 4 tw\nwrite DIR/sub/file: no space left on device\n", "sub/file"},
		{"disk-grow:3=EDQUOT", "mkdir sub 0 \nsync 001 0 \ncreate DIR/sub/file: disk quota exceeded\n", ""},
		{"disk-change:1+=EROFS", "mkdir DIR/sub: read-only file system\n", ""},
		{"disk:7=EIO", begin + "write file 0 one;\nwrite file 4 two;\nsync file 0 \nrename DIR/sub/file: input/output error\n", "sub/file"},
	} {
		t.Run(tt.points, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "001")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "DISK_PROGRAM="+dir, failpoint.Variable+"="+tt.points)
			out, err := cmd.Output()
			if err != nil || string(out) != tt.out {
				t.Errorf("%v\n got %q\nwant %q", err, out, tt.out)
			}
			if tt.file == "" {
				return
			}
			if _, err := os.Stat(filepath.Join(dir, tt.file)); err != nil {
				t.Error(err)
			}
		})
	}
}
