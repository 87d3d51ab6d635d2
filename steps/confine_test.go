package steps

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
)

// HoldsFiles makes the Launcher of a world one that can confine.
func (w *world) HoldsFiles() bool { return w.holds }

func sandbox(mode string, o pipeline.SandboxOptions) func(*pipeline.Step) {
	return func(s *pipeline.Step) { s.Sandbox, s.SandboxOptions = mode, o }
}

// confinedWorld has a workspace, WS, and a home, HOME, in which the agent keeps something.
func confinedWorld(t *testing.T, steps ...pipeline.Step) *world {
	t.Helper()
	w := newWorld(t, steps...)
	w.holds = true
	w.config.Workspace = filepath.Join(t.TempDir(), "ws")
	home := filepath.Join(filepath.Dir(w.config.Workspace), "home")
	for _, dir := range []string{filepath.Join(w.config.Workspace, "sub"), home} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.config.Environ = []string{"HOME=" + home, "XDG_FAKE=", "TMPDIR=/tmp"}
	w.plan.Env = vars("FAKE_HOME", home)
	return w
}

// boxes are the sandboxes of the processes that ran, paths shortened.
func (w *world) boxes() map[string]*proc.Sandbox {
	short := strings.NewReplacer(w.config.Workspace, "WS", filepath.Dir(w.config.Workspace)+"/home", "HOME", w.store.dir, "RUN")
	all := map[string]*proc.Sandbox{}
	for _, p := range w.ran {
		if p.spec.Sandbox != nil {
			for i, path := range p.spec.Sandbox.Write {
				p.spec.Sandbox.Write[i] = short.Replace(path)
			}
		}
		all[p.spec.Label] = p.spec.Sandbox
	}
	return all
}

func TestSandboxOfScripts(t *testing.T) {
	w := confinedWorld(t,
		script("none", "x"),
		script("off", "x", sandbox("off", pipeline.SandboxOptions{})),
		script("write", "x", sandbox("workspace-write", pipeline.SandboxOptions{})),
		script("below", "x", sandbox("workspace-write", pipeline.SandboxOptions{}), func(s *pipeline.Step) { s.Cwd = text("sub") }),
		script("read", "x", sandbox("read-only", pipeline.SandboxOptions{Network: "off", Required: true})),
	)
	w.play = func(p *process) (proc.Result, error) {
		if p.spec.Sandbox != nil && !slices.Contains(p.spec.Env, "TMPDIR="+p.store.dir+"/attempts/"+p.spec.Label+".d/tmp") {
			t.Errorf("%s has no temporary directory: %q", p.spec.Label, p.spec.Env)
		}
		return proc.Result{}, nil
	}
	w.finish()
	want := map[string]*proc.Sandbox{
		"none.1.1": nil, "off.1.1": nil,
		"write.1.1": {Write: []string{"WS", "RUN/attempts/write.1.1.d/tmp", "RUN/cache"}, Network: true},
		"below.1.1": {Write: []string{"WS/sub", "RUN/attempts/below.1.1.d/tmp", "RUN/cache"}, Network: true},
		"read.1.1":  {Write: []string{"RUN/attempts/read.1.1.d/tmp", "RUN/cache"}, Required: true},
	}
	if diff := cmp.Diff(want, w.boxes()); diff != "" {
		t.Error(diff)
	}
	if left, err := filepath.Glob(filepath.Join(w.store.dir, "attempts", "*.d")); err != nil || len(left) > 0 {
		t.Errorf("left over: %q, %v", left, err)
	}
}

func TestSandboxOfAgents(t *testing.T) {
	kept := []string{"HOME/kept"}
	for name, tt := range map[string]struct {
		mode, network string
		native, holds bool
		dirs          []string
		want          []string // nil: flow confines nothing
		confined      bool     // the adapter is told so
	}{
		"nothing is said":   {holds: true},
		"off":               {mode: "off", holds: true},
		"its own":           {mode: "workspace-write", native: true, holds: true},
		"workspace":         {mode: "workspace-write", holds: true, want: append([]string{"WS", "RUN/attempts/s.1.1.d/tmp", "RUN/cache"}, kept...), confined: true},
		"read-only":         {mode: "read-only", holds: true, dirs: []string{"/docs"}, want: append([]string{"RUN/attempts/s.1.1.d/tmp", "RUN/cache"}, kept...), confined: true},
		"offline":           {mode: "read-only", network: "off", holds: true, want: append([]string{"RUN/attempts/s.1.1.d/tmp", "RUN/cache"}, kept...), confined: true},
		"machine cannot":    {mode: "workspace-write", want: append([]string{"WS", "RUN/attempts/s.1.1.d/tmp", "RUN/cache"}, kept...)},
		"further":           {mode: "workspace-write", holds: true, dirs: []string{"/docs", "../other", "sub"}, want: slices.Concat([]string{"WS", "RUN/attempts/s.1.1.d/tmp", "RUN/cache"}, kept, []string{"/docs", "/other", "WS/sub"}), confined: true},
		"link to elsewhere": {mode: "workspace-write", holds: true, dirs: []string{"link"}, want: append([]string{"WS", "RUN/attempts/s.1.1.d/tmp", "RUN/cache"}, kept...), confined: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := confinedWorld(t, ask("s"))
			w.agent.native, w.holds = tt.native, tt.holds
			profile := w.plan.Agents["a"]
			profile.Sandbox, profile.SandboxOptions.Network, profile.AddDirs = tt.mode, tt.network, tt.dirs
			w.plan.Agents["a"] = profile
			if err := os.Symlink("/", filepath.Join(w.config.Workspace, "link")); err != nil {
				t.Fatal(err)
			}
			w.play = func(p *process) (proc.Result, error) {
				p.print("session S", "answer ok")
				return proc.Result{Sandbox: "held"}, nil
			}
			w.want(w.finish(), "s", dag.OK)
			var got []string
			if box := w.boxes()["s.1.1"]; box != nil {
				for _, path := range box.Write {
					got = append(got, strings.Replace(path, filepath.Dir(w.config.Workspace), "", 1))
				}
				if !box.Network {
					t.Error("the agent does not reach its model")
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if r := w.ran[0].request; r.Confined != tt.confined || string(r.Network) != tt.network {
				t.Errorf("the adapter was told: confined %t, network %q", r.Confined, r.Network)
			}
		})
	}
}

// A sandbox of the step goes before that of the profile, as a whole; its check is in it.
func TestSandboxOfCheck(t *testing.T) {
	w := confinedWorld(t, ask("s", sandbox("read-only", pipeline.SandboxOptions{Network: "off"}), func(s *pipeline.Step) {
		s.Check = &pipeline.Check{Run: *text("make")}
	}))
	profile := w.plan.Agents["a"]
	profile.Sandbox, profile.SandboxOptions = "workspace-write", pipeline.SandboxOptions{Required: true}
	w.plan.Agents["a"] = profile
	w.play = inTurn(says(0, "session S", "answer ok"), says(0))
	w.want(w.finish(), "s", dag.OK)
	want := map[string]*proc.Sandbox{
		"s.1.1": {Write: []string{"RUN/attempts/s.1.1.d/tmp", "RUN/cache", "HOME/kept"}, Network: true},
		"s.1.2": {Write: []string{"RUN/attempts/s.1.2.d/tmp", "RUN/cache"}},
	}
	if diff := cmp.Diff(want, w.boxes()); diff != "" {
		t.Error(diff)
	}
}

// What a process was held to is in the events.
func TestSandboxIsReported(t *testing.T) {
	w := confinedWorld(t, script("s", "x", sandbox("read-only", pipeline.SandboxOptions{})))
	w.play = func(*process) (proc.Result, error) { return proc.Result{Sandbox: "Landlock, all of it"}, nil }
	w.finish()
	if e := w.store.events(t); len(e) != 1 || e[0].Type != "system" || e[0].Subtype != "sandbox" || e[0].Message != "Landlock, all of it" || e[0].Step != "s" {
		t.Errorf("%+v", e)
	}
}

// What a process that ended after flow had died left of temporary files is removed.
func TestSandboxAfterDeath(t *testing.T) {
	w := confinedWorld(t, script("s", "x", sandbox("read-only", pipeline.SandboxOptions{})))
	var temp string
	w.play = func(p *process) (proc.Result, error) {
		temp = filepath.Join(p.store.dir, "attempts", p.spec.Label+".d", "tmp")
		return proc.Result{}, errDied
	}
	w.die()
	if err := os.MkdirAll(filepath.Join(temp, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.exits = []proc.Record{{Label: "s.1.1", Code: -1, EndedByGuardian: true}}
	w.play = says(0)
	w.want(w.finish(), "s", dag.OK)
	if _, err := os.Stat(filepath.Dir(temp)); !os.IsNotExist(err) {
		t.Errorf("%s is left over", temp)
	}
}

func TestExpand(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := expand([]string{
		"~/made/", "~/file", "~/missing", "${DIR:-~/no}/a/b/", "${UNSET:-~/default}/x/", "${EMPTY:-~}/e/", "${RELATIVE:-~}/x/", "${UNSET:-}x",
		home + "/abs/", "~", "~/file/below/", "${UNSET", "${UNSET:-",
	}, []string{"HOME=" + home, "DIR=" + home + "/", "EMPTY=", "RELATIVE=rel"})
	want := []string{home + "/made", home + "/file", home + "/a/b", home + "/default/x", home + "/e", home + "/abs", home}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
