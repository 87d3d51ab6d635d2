package proc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSwappedDirectory has a link put in the place of the directory that a process is to work
// in, or of one above it, before the process is started: nothing is started.
func TestSwappedDirectory(t *testing.T) {
	for _, swapped := range []string{"in/sub", "in"} {
		t.Run(swapped, func(t *testing.T) {
			p := newPlace(t)
			spec := sh(t, "touch here")
			spec.Dir, spec.Settled = filepath.Join(p.in, "sub"), true
			name := filepath.Join(filepath.Dir(p.in), swapped)
			if err := os.Rename(name, name+"-away"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(filepath.Join(p.out), name); err != nil {
				t.Fatal(err)
			}
			r, err := newSupervisor(t, Options{}).Run(t.Context(), spec, Sink{})
			if err != nil || r.Err == nil || !strings.Contains(r.Err.Error(), "a symbolic link was put in its place") {
				t.Errorf("%+v, %v", r, err)
			}
			if got := snapshot(t, p.out); strings.Contains(got, "here") {
				t.Error("it worked outside: ", got)
			}
		})
	}
}

// TestRacedDirectory exchanges the directory for a link and back all the time, while
// processes are started in it whose sandbox lets them write there: whenever one starts, it
// works in the directory that was meant, and can write nowhere else.
func TestRacedDirectory(t *testing.T) {
	needLandlock(t)
	p := newPlace(t)
	sub, link := filepath.Join(p.in, "sub"), filepath.Join(p.in, "link")
	if err := os.Symlink(filepath.Join(p.out, "sub"), link); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, sub, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	}()
	s := newSupervisor(t, Options{})
	started := 0
	for range 60 {
		spec := sh(t, `echo x > here; echo x > "$OUT/sub/there"; true`)
		spec.Dir, spec.Settled, spec.Env = sub, true, append(os.Environ(), "OUT="+p.out)
		spec.Sandbox = &Sandbox{Write: []string{sub}, Network: true}
		r, err := s.Run(t.Context(), spec, Sink{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Err == nil {
			started++
		}
	}
	close(stop)
	<-stopped
	if got := snapshot(t, filepath.Join(p.out, "sub")); strings.Contains(got, "here") {
		t.Error("written outside: ", got)
	}
	if started == 0 {
		t.Error("none was started: the test shows nothing")
	}
}

// TestSandboxTakesNoLinks is that a path to be written which has a link in it by the time the
// process starts is left out.
func TestSandboxTakesNoLinks(t *testing.T) {
	needLandlock(t)
	p := newPlace(t)
	link := filepath.Join(p.in, "link")
	if err := os.Symlink(p.out, link); err != nil {
		t.Fatal(err)
	}
	spec := p.spec(t, `echo x > "$OUT/file"; echo x > "$OUT/sub/new"; true`)
	spec.Sandbox.Write = []string{p.in, link, filepath.Join(link, "sub"), filepath.Join(link, "file")}
	before := snapshot(t, p.out)
	r, err := newSupervisor(t, Options{}).Run(t.Context(), spec, Sink{})
	if err != nil || r.Err != nil {
		t.Fatal(r.Err, err)
	}
	if after := snapshot(t, p.out); after != before {
		t.Errorf("written outside:\n%s", after)
	}
}
