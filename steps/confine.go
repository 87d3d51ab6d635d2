package steps

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"flow/agents"
	"flow/agents/proc"
	"flow/state/disk"
)

// A confiner is a Launcher that can put processes into sandboxes; *proc.Supervisor is one.
type confiner interface {
	// HoldsFiles reports whether this machine can keep a process from changing files.
	HoldsFiles() bool
}

// confinable reports whether flow is to confine the agent of a request: it is asked to,
// and the agent does not do so itself.
func confinable(adapter agents.Adapter, r agents.Request) bool {
	return bounded(string(r.Sandbox)) && !adapter.Info().Capabilities.NativeSandbox
}

// bounded reports whether a mode of `sandbox` is one.
func bounded(mode string) bool { return mode != "" && mode != string(agents.SandboxOff) }

// confines reports whether the agent of a request will be kept from changing files. What
// this machine cannot hold is not promised to the adapter, which then gives the agent less.
func (a *attempt) confines(r agents.Request) bool {
	c, ok := a.x.Launcher.(confiner)
	return ok && c.HoldsFiles() && confinable(a.adapter(), r)
}

// confineAgent puts an agent into the sandbox of its request. It keeps the network, which
// it needs for its model: its adapter withholds the tools that would use it. writable is
// Command.Writable. A simulated agent has no sandbox of its own.
func (a *attempt) confineAgent(spec *proc.Spec, r agents.Request, writable []string) error {
	if !confinable(a.adapter(), r) && (a.x.Simulate == nil || !bounded(string(r.Sandbox))) {
		return nil
	}
	if a.x.Simulate != nil {
		writable = append(slices.Clone(writable), simulatedWritable(*spec)...)
	}
	write := expand(writable, spec.Env)
	if r.Sandbox == agents.SandboxWorkspaceWrite {
		write = append(write, a.addDirs(r)...)
	}
	return a.confine(spec, write, true)
}

// simulatedWritable is what a simulated agent keeps: its sessions, and the log of its
// turns, which is made if it is not there.
func simulatedWritable(spec proc.Spec) []string {
	log := lookupEnv(spec.Env, "FLOW_SIMULATE_LOG")
	if log == "" {
		return []string{"${FLOW_SIMULATE_HOME:-}/"}
	}
	if !filepath.IsAbs(log) {
		log = filepath.Join(spec.Dir, log)
	}
	if f, err := disk.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
		_ = f.Close() // the agent says what is wrong with it
	}
	return []string{"${FLOW_SIMULATE_HOME:-}/", log}
}

// addDirs are the directories of the profile's add-dirs, without symbolic links. One in the
// workspace that leads out of it is left out: an agent may have put a link in its place.
func (a *attempt) addDirs(r agents.Request) []string {
	var dirs []string
	for _, dir := range r.AddDirs {
		rel, err := filepath.Rel(a.workspace(), dir)
		if err != nil || !filepath.IsLocal(rel) {
			dirs = append(dirs, settle(dir))
		} else if inside, err := insideWorkspace(a.workspace(), rel); err == nil {
			dirs = append(dirs, inside)
		}
	}
	return dirs
}

// settle is path without symbolic links, as a sandbox wants it; as it is if it is not there.
func settle(path string) string {
	if settled, err := filepath.EvalSymlinks(path); err == nil {
		return settled
	}
	return path
}

// confineScript puts a script into the sandbox of its step, if that has one.
func (a *attempt) confineScript(spec *proc.Spec) error {
	mode, o := a.frame.plan.SandboxOf(a.step)
	if !bounded(mode) {
		return nil
	}
	return a.confine(spec, nil, o.Network != string(agents.NetworkOff))
}

// confine puts a process into the sandbox of the step, in which it may write the files and
// directories given, and temporary files of its own. Caches (of compilers, say) it has in
// common with the other confined processes of the run, and with nobody else: what it leaves
// there must not be what the user builds from.
//
// The repository of a linked worktree is outside of it: an agent there cannot commit. Flow
// does that for isolated steps, and what it would take to let an agent do it, writing the
// objects and branches of the whole repository, is what a worktree is to prevent.
func (a *attempt) confine(spec *proc.Spec, write []string, network bool) error {
	mode, o := a.frame.plan.SandboxOf(a.step)
	temp := a.x.temporary(spec.Label)
	if err := disk.MkdirAll(temp, 0o700); err != nil {
		return err
	}
	cache := a.x.caches()
	if err := disk.MkdirAll(cache, 0o700); err != nil {
		return err
	}
	write = append([]string{settle(temp), settle(cache)}, write...)
	if mode == string(agents.SandboxWorkspaceWrite) {
		if !a.pinned {
			spec.Dir, spec.Settled = settle(a.dir), true
		}
		write = append([]string{spec.Dir}, write...)
	}
	spec.Env = setEnv(spec.Env, "TMPDIR="+temp, "XDG_CACHE_HOME="+cache)
	spec.Sandbox = &proc.Sandbox{Write: write, Network: network, Required: o.Required}
	return nil
}

// caches is where the confined processes of the run have their caches.
func (x *Executor) caches() string { return filepath.Join(x.Store.Dir(), "cache") }

// ClearCaches removes the caches of confined processes. It must come when nothing of the
// run is executed any more.
func (x *Executor) ClearCaches() error { return disk.RemoveAll(x.caches()) }

// temporary is where the process of a label has its temporary files, if it is confined.
func (x *Executor) temporary(label string) string {
	return filepath.Join(x.file(label, "d"), "tmp")
}

// heldTo records what a process of a session was held to, if it was.
func (a *attempt) heldTo(res proc.Result, session string) {
	if res.Sandbox != "" {
		a.noticeIn(session, noticeSandbox, res.Sandbox)
	}
}

// clearTemporary removes what a confined process left of temporary files.
func (x *Executor) clearTemporary(label string) {
	temp := x.temporary(label)
	if err := disk.RemoveAll(temp); err != nil {
		x.Logger.Warn("temporary files are left over", "error", err)
	}
	_ = disk.Remove(filepath.Dir(temp)) // of a script there is nothing else in it
}

// expand puts values of env at the beginning of paths, as Command.Writable has them, and
// resolves symbolic links. What
// is not there is left out, and so is a directory that cannot be made: the agent will say.
func expand(paths, env []string) []string {
	var all []string
	for _, path := range paths {
		path = expandStart(path, env)
		if !filepath.IsAbs(path) {
			continue
		}
		if strings.HasSuffix(path, "/") {
			_ = disk.MkdirAll(path, 0o700)
		}
		if _, err := disk.Stat(path); err == nil {
			all = append(all, settle(path))
		}
	}
	return all
}

// expandStart expands ~ and ${NAME:-DEFAULT} at the beginning of a path.
func expandStart(path string, env []string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok {
		return lookupEnv(env, "HOME") + rest
	}
	rest, ok := strings.CutPrefix(path, "${")
	if !ok {
		return path
	}
	name, rest, _ := strings.Cut(rest, ":-")
	fallback, rest, _ := strings.Cut(rest, "}")
	if value := lookupEnv(env, name); value != "" {
		return value + rest
	}
	return expandStart(fallback+rest, env)
}

// lookupEnv is the value of a variable in env, "" if it is not set.
func lookupEnv(env []string, name string) string {
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}
