package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// place is a directory inside a sandbox and one outside, with a file in each.
type place struct{ in, out string }

func newPlace(t testing.TB) place {
	t.Helper()
	top := t.TempDir()
	p := place{filepath.Join(top, "in"), filepath.Join(top, "out")}
	for _, dir := range []string{p.in, p.out} {
		for _, sub := range []string{dir, filepath.Join(dir, "sub")} {
			if err := os.Mkdir(sub, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte("old\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// spec runs a script in p.in, in a sandbox that lets it write there. $OUT is p.out.
func (p place) spec(t testing.TB, script string) Spec {
	t.Helper()
	spec := sh(t, script)
	spec.Dir, spec.Env = p.in, append(os.Environ(), "OUT="+p.out, "IN="+p.in)
	spec.Sandbox = &Sandbox{Write: []string{p.in}, Network: true}
	return spec
}

// snapshot is a directory as text: names, kinds and contents.
func snapshot(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %s\n", d.Type(), strings.TrimPrefix(path, dir))
		if d.Type().IsRegular() {
			b.WriteString(read(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func needLandlock(t testing.TB) {
	t.Helper()
	if abi := landlockABI(); abi < landlockTruncate {
		t.Skipf("Landlock ABI %d", abi)
	}
}

// needs skips a test whose script calls a program that is not there.
func needs(t testing.TB, program string) {
	t.Helper()
	if _, err := findProgram(program, "/", os.Environ()); err != nil {
		t.Skip(err)
	}
}

// outside are ways to change what is outside of a sandbox. None may.
var outside = map[string]string{
	"write":                  `echo new > "$OUT/file"`,
	"write a new file":       `echo new > "$OUT/new"`,
	"append":                 `echo new >> "$OUT/file"`,
	"read and write":         `exec 4<> "$OUT/file" && echo new >&4`,
	"truncate":               `truncate -s 0 "$OUT/file"`,
	"unlink":                 `rm -f "$OUT/file"`,
	"mkdir":                  `mkdir "$OUT/dir"`,
	"rmdir":                  `rmdir "$OUT/sub"`,
	"mkfifo":                 `mkfifo "$OUT/fifo"`,
	"symlink there":          `ln -s /etc/passwd "$OUT/link"`,
	"rename out":             `mv "$IN/file" "$OUT/new"`,
	"rename over":            `echo new > file; mv -f "$IN/file" "$OUT/file"`,
	"rename in":              `mv "$OUT/file" "$IN/taken"`,
	"rename there":           `mv "$OUT/file" "$OUT/moved"`,
	"rename a directory":     `mv "$OUT/sub" "$IN/taken"`,
	"hard link in":           `ln "$OUT/file" "$IN/linked" && echo new > "$IN/linked"`,
	"hard link out":          `ln "$IN/file" "$OUT/linked"`,
	"symlink to a file":      `ln -s "$OUT/file" link && echo new > link`,
	"symlink to a directory": `ln -s "$OUT" link && echo new > link/new`,
	"dangling symlink":       `ln -s "$OUT/new" link && echo new > link`,
	"dot dot":                `echo new > ../out/new`,
	"cd":                     `cd "$OUT" && echo new > new`,
	"proc cwd":               `cd "$OUT"; echo new > /proc/self/cwd/new`,
	"proc root":              `echo new > "/proc/self/root$OUT/new"`,
	"proc fd":                `exec 4< "$OUT/file" && echo new > /proc/self/fd/4`,
	"subshell":               `(echo new > "$OUT/new")`,
	"background":             `echo new > "$OUT/new" & wait $!`,
	"session of its own":     `setsid sh -c 'echo new > "$OUT/new"'`,
	"daemon":                 `setsid -f sh -c 'echo new > "$OUT/new"; : > "$IN/done"'; while ! [ -e "$IN/done" ]; do :; done; false`,
	"user namespace":         `unshare -Ur sh -c 'echo new > "$OUT/new"'`,
	"mount over":             `unshare -Urm sh -c 'mount --bind "$OUT" "$IN/sub" && echo new > "$IN/sub/new"'`,
	"chroot":                 `unshare -Ur chroot / sh -c 'echo new > "$OUT/new"'`,
	"device node":            `mknod "$IN/node" b 7 0`,
	"copy":                   `cp "$IN/file" "$OUT/new"`,
	"dd":                     `dd if="$IN/file" of="$OUT/file" conv=notrunc`,
	"tee":                    `echo new | tee "$OUT/new"`,
	"install":                `install -m 644 "$IN/file" "$OUT/new"`,
	"tar":                    `tar cf - file | tar xf - -C "$OUT/sub"`,
	"git":                    `git init -q "$OUT/repo"`,
	"kernel setting":         `echo x > /proc/sys/kernel/core_pattern`,
	"shared memory":          `echo x > "/dev/shm/flow-sandbox-$$"`,
}

func TestSandboxHoldsFiles(t *testing.T) {
	needLandlock(t)
	s := newSupervisor(t, Options{})
	for name, script := range outside {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			before := snapshot(t, p.out)
			spec := p.spec(t, "export OUT IN; "+script)
			r := mustRun(t, s, spec, Sink{})
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			if after := snapshot(t, p.out); after != before {
				t.Errorf("outside was\n%sand is\n%s", before, after)
			}
			if r.Code == 0 {
				t.Errorf("%s succeeded", script)
			}
			if !strings.HasPrefix(r.Sandbox, "Landlock ABI ") || !strings.Contains(r.Sandbox, "writes only in "+p.in) {
				t.Errorf("sandbox is %q", r.Sandbox)
			}
		})
	}
}

// The scripts above fail because of the sandbox, and not because they are wrong.
func TestWithoutSandboxScriptsWrite(t *testing.T) {
	s := newSupervisor(t, Options{})
	for _, name := range []string{"write", "append", "read and write", "truncate", "unlink", "rename over", "hard link in", "symlink to a directory", "session of its own", "proc root", "tar"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			before := snapshot(t, p.out)
			spec := p.spec(t, "export OUT IN; "+outside[name])
			spec.Sandbox = nil
			if r := mustRun(t, s, spec, Sink{}); r.Code != 0 || r.Sandbox != "" || snapshot(t, p.out) == before {
				t.Errorf("%+v, and outside is as before", r)
			}
		})
	}
}

// inside are things that a sandbox lets be.
var inside = map[string]string{
	"write":             `echo new > file; echo more >> file; : > new; truncate -s 1 file`,
	"tree":              `mkdir -p a/b && echo x > a/b/c && mv a/b b && ln b/c c && ln -s b d && rm -r a b`,
	"rename across":     `mkdir a b && : > a/x && mv a/x b/y && test -e b/y`,
	"fifo":              `mkfifo f && (echo x > f &) && read line < f && test "$line" = x`,
	"read outside":      `test "$(cat "$OUT/file")" = old && ls / > list`,
	"execute":           `cp /bin/true ./mine && ./mine`,
	"devices":           `echo x > /dev/null && head -c 1 /dev/urandom > random && head -c 1 /dev/zero > zero`,
	"standard streams":  `echo x > /dev/stdout && echo y > /dev/stderr && echo z >> /proc/self/fd/1`,
	"signal oneself":    `sleep 60 & kill $! && ! wait $!`,
	"git":               `git init -q r && cd r && git -c user.name=n -c user.email=e commit -q --allow-empty -m m && git log > log`,
	"argv and variable": `test "$0 $1" = "zero one" && test "$OUT" != ""`,
}

func TestSandboxLetsInsideBe(t *testing.T) {
	needLandlock(t)
	s := newSupervisor(t, Options{})
	for name, script := range inside {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := newPlace(t).spec(t, "set -e; "+script)
			spec.Args = append(spec.Args, "zero", "one")
			if r := mustRun(t, s, spec, Sink{}); r.Code != 0 || r.Err != nil {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A file that may be written is no directory: nothing beside it may.
func TestSandboxOfOneFile(t *testing.T) {
	needLandlock(t)
	s, p := newSupervisor(t, Options{}), newPlace(t)
	spec := p.spec(t, `echo new > "$OUT/file" && ! echo new > "$OUT/new"`)
	spec.Sandbox.Write = []string{p.out + "/file", p.out + "/missing"}
	if r := mustRun(t, s, spec, Sink{}); r.Code != 0 {
		t.Errorf("%+v", r)
	}
	if got := snapshot(t, p.out); !strings.Contains(got, "new\n") || strings.Contains(got, "/new\n") {
		t.Errorf("outside is\n%s", got)
	}
}

func TestSandboxKeepsFromSignalling(t *testing.T) {
	if landlockABI() < 6 {
		t.Skip("Landlock before ABI 6")
	}
	s := newSupervisor(t, Options{})
	spec := newPlace(t).spec(t, `kill -0 `+fmt.Sprint(os.Getpid()))
	if r := mustRun(t, s, spec, Sink{}); r.Code == 0 {
		t.Errorf("%+v", r)
	}
}

// Signals reach the program itself, and the tree below it ends with it.
func TestSandboxSignals(t *testing.T) {
	needLandlock(t)
	s := newSupervisor(t, Options{})
	spec := newPlace(t).spec(t, `trap 'exit 7' INT; setsid -f sleep 3600; echo ready; while :; do sleep 0.01; done`)
	spec.Sandbox.Network = false
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := s.Run(ctx, spec, Sink{Stdout: func(Line) { cancel() }})
	if err != nil || r.Code != 7 || len(r.Leftovers) == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if left := labelled(t, spec.Label); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// A process in a sandbox ends with its guardian, as any other does.
func TestSandboxEndsWithGuardian(t *testing.T) {
	needLandlock(t)
	s := New(Options{})
	spec := newPlace(t).spec(t, `setsid -f sleep 3600; echo ready; sleep 3600`)
	guardian := guardianOf(t, s)
	_, err := s.Run(context.Background(), spec, Sink{Stdout: func(Line) { kill(guardian, syscall.SIGKILL) }})
	if err == nil || s.Close() == nil {
		t.Error("nothing is said of the death of the guardian")
	}
	if left := labelled(t, spec.Label); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestSandboxFailures(t *testing.T) {
	needLandlock(t)
	s := newSupervisor(t, Options{})
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("echo\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(*Spec)
		want   string
		is     error
	}{
		"missing program": {func(s *Spec) { s.Path = "/nowhere/to/be/found" }, "executable not found", nil},
		"no program":      {func(s *Spec) { s.Path = script }, "no program for this machine", syscall.ENOEXEC},
		"not executable":  {func(s *Spec) { s.Path = "/etc/passwd" }, "not executable", syscall.EACCES},
		"missing dir":     {func(s *Spec) { s.Dir = "/nowhere" }, "working directory", syscall.ENOENT},
		"relative path":   {func(s *Spec) { s.Sandbox.Write = []string{"x"} }, `"x"`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			spec := newPlace(t).spec(t, "")
			tt.change(&spec)
			r := mustRun(t, s, spec, Sink{})
			if r.Err == nil || r.Code != -1 || r.Sandbox != "" || !strings.Contains(r.Err.Error(), tt.want) || tt.is != nil && !errors.Is(r.Err, tt.is) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestSandboxFailsClosed(t *testing.T) {
	for name, tt := range map[string]struct {
		machine Machine
		network bool
		want    string // of the error, "" for none
	}{
		"no Landlock":        {Machine{Namespace: UserNamespace}, true, "the kernel has no Landlock"},
		"no truncation":      {Machine{Landlock: 2}, true, "files can be truncated"},
		"no namespace":       {Machine{Landlock: landlockABI()}, false, "network namespaces cannot be made"},
		"nothing":            {Machine{}, false, "the network is on"},
		"network may be on":  {Machine{Landlock: landlockABI()}, true, ""},
		"kernel has not all": {Machine{Landlock: 11}, true, "cannot be set up"},
	} {
		t.Run(name, func(t *testing.T) {
			needLandlock(t)
			if tt.machine.Landlock == 11 && landlockABI() >= 11 {
				t.Skip("it has")
			}
			p := newPlace(t)
			spec := p.spec(t, `: > ran`)
			spec.Sandbox.Network, spec.Sandbox.Required = tt.network, true
			r := mustRun(t, newSupervisor(t, Options{Machine: &tt.machine}), spec, Sink{})
			if ran := exists(p.in + "/ran"); ran != (tt.want == "") {
				t.Errorf("it ran: %t", ran)
			}
			if tt.want != "" && (r.Err == nil || !strings.Contains(r.Err.Error(), tt.want)) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Without `required` what cannot be enforced is said.
func TestSandboxSaysWhatItLacks(t *testing.T) {
	p := newPlace(t)
	spec := p.spec(t, `echo new > "$OUT/new"`)
	spec.Sandbox.Network = false
	r := mustRun(t, newSupervisor(t, Options{Machine: &Machine{}}), spec, Sink{})
	const want = "not enforced: files can be written: the kernel has no Landlock; the network is on: network namespaces cannot be made"
	if r.Code != 0 || r.Sandbox != want {
		t.Errorf("%+v", r)
	}
}

// dialChild connects to an address.
func dialChild(args []string) {
	conn, err := net.Dial(args[0], args[1])
	check(err)
	check(conn.Close())
}

func TestSandboxNetwork(t *testing.T) {
	needLandlock(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	machine, err := newSupervisor(t, Options{}).Machine()
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		machine Machine
		on      bool
		held    string
	}{
		"on":              {machine, true, ""},
		"namespace":       {machine, false, "network off"},
		"user namespace":  {Machine{Landlock: machine.Landlock, Namespace: UserNamespace}, false, "network off"},
		"Landlock":        {Machine{Landlock: min(machine.Landlock, landlockTCP)}, false, "TCP off"},
		"namespace alone": {Machine{Namespace: machine.Namespace}, false, "network off"},
	} {
		t.Run(name, func(t *testing.T) {
			if !tt.on && (tt.held == "TCP off") != (tt.machine.Namespace == NoNamespace) || tt.machine.Namespace == UserNamespace && !mayUnshare(t) {
				t.Skip("not on this machine")
			}
			spec := self(t, "dial", "tcp4", listener.Addr().String())
			spec.Sandbox = &Sandbox{Write: []string{spec.Dir}, Network: tt.on}
			r := mustRun(t, newSupervisor(t, Options{Machine: &tt.machine}), spec, Sink{})
			if (r.Code == 0) != tt.on || !strings.Contains(r.Sandbox, tt.held) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func mayUnshare(t testing.TB) bool {
	t.Helper()
	needs(t, "unshare")
	s := newSupervisor(t, Options{})
	return mustRun(t, s, sh(t, "unshare -Un true"), Sink{}).Code == 0
}

// A namespace has a loopback interface that works: what a script starts it can talk to.
func TestSandboxLoopback(t *testing.T) {
	s := newSupervisor(t, Options{})
	m, err := s.Machine()
	if err != nil {
		t.Fatal(err)
	}
	if m.Namespace == NoNamespace {
		t.Skip("no network namespaces")
	}
	spec := self(t, "loopback")
	spec.Sandbox = &Sandbox{Write: []string{spec.Dir}}
	if r := mustRun(t, s, spec, Sink{}); r.Code != 0 {
		t.Errorf("%+v", r)
	}
}

func loopbackChild([]string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	dialChild([]string{"tcp", listener.Addr().String()})
}

// An ordinary user is held as root is.
func TestSandboxOfOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root to become another")
	}
	needLandlock(t)
	needs(t, "setpriv")
	dir := t.TempDir()
	program := filepath.Join(dir, "test")
	err := errors.Join(
		os.WriteFile(program, []byte(read(t, executablePath(t))), 0o700), os.Chmod(program, 0o755),
		os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, 1000, 1000),
	)
	if err != nil {
		t.Fatal(err)
	}
	s := newSupervisor(t, Options{})
	spec := sh(t, `exec setpriv --reuid=1000 --regid=1000 --clear-groups "$0" child:boxed "$1"`)
	spec.Args = append(spec.Args, program, dir)
	r := mustRun(t, s, spec, Sink{})
	if out := read(t, spec.Stdout); r.Code != 0 || !strings.HasPrefix(out, "0 Landlock ABI") {
		t.Errorf("%+v, printed %s", r, out)
	}
}

// boxedChild puts a process that writes inside and tries to write outside into a
// sandbox. It prints how that went.
func boxedChild(args []string) {
	in := filepath.Join(args[0], "in")
	check(os.Mkdir(in, 0o700))
	s := New(Options{})
	r, err := s.Run(context.Background(), Spec{
		Label: "boxed", Path: "/bin/sh", Args: []string{"-c", `echo x > in && ! echo x > ../out`}, Env: os.Environ(), Dir: in,
		Sandbox: &Sandbox{Write: []string{in}},
	}, Sink{})
	check(errors.Join(err, r.Err, s.Close()))
	fmt.Println(r.Code, r.Sandbox)
}

func FuzzShimArguments(f *testing.F) {
	f.Add("/a\n/b", "/bin/sh\nsh\n-c\n: > x", 7, true, 2)
	f.Fuzz(func(t *testing.T, write, argv string, abi int, network bool, namespace int) {
		b := bound{landlock: abi, network: network, namespace: Namespace(namespace)}
		writes, program := strings.Split(write, "\n"), strings.Split(argv, "\n")
		s, err := parseShim(append(shimArgs("flow", &b, writes), program...))
		if len(program) < 2 {
			if err == nil {
				t.Error("a shim without argv was taken")
			}
			return
		}
		if err != nil || s.landlock != abi || s.network != network || s.namespace != (namespace != 0) ||
			strings.Join(s.write, "\n") != write || strings.Join(s.argv, "\n") != argv {
			t.Errorf("%+v, %v", s, err)
		}
	})
}
