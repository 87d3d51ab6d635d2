package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"flow/agents"
	"flow/pipeline/dag"
	"flow/state/disk"
)

// A Conversation is the native session of a step that has run, and how its latest
// process was started.
type Conversation struct {
	Path    string // of the step
	Agent   string // the profile's name
	Session string
	Launch  Launch
	// Usage is what the session has used so far, for agents that count so.
	Usage *agents.Usage

	run string // the run's directory
}

// ConversationOf finds the session of a step, given its state, in the directory of its
// run. The error says why there is none.
func ConversationOf(dir string, st dag.StepState) (*Conversation, error) {
	r, err := DecodeResult(st.Result)
	if err != nil {
		return nil, err
	}
	if r.Session == "" {
		return nil, fmt.Errorf("step %s has no session of an agent (it is %s)\nhint: flow sessions lists the steps that have", st.Path, st.Status)
	}
	c := &Conversation{Path: st.Path, Agent: r.Agent, Session: r.Session, Usage: r.SessionUsage, run: dir}
	c.Launch, err = latestLaunch(dir, st.Path)
	return c, err
}

var attemptAndTurn = regexp.MustCompile(`^(\d+)\.(\d+)\.json$`)

// latestLaunch reads how the latest process of a step was started.
func latestLaunch(dir, path string) (l Launch, err error) {
	entries, err := disk.ReadDir(filepath.Join(dir, "attempts"))
	if err != nil {
		return l, err
	}
	best, name := []int{0, 0}, ""
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), path+".")
		m := attemptAndTurn.FindStringSubmatch(rest)
		if !ok || m == nil {
			continue
		}
		attempt, _ := strconv.Atoi(m[1])
		turn, _ := strconv.Atoi(m[2])
		if at := []int{attempt, turn}; slices.Compare(at, best) > 0 {
			best, name = at, e.Name()
		}
	}
	if name == "" {
		return l, fmt.Errorf("step %s: the run has no record of a process of its agent", path)
	}
	data, err := disk.ReadFile(filepath.Join(dir, "attempts", name))
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(data, &l); err != nil {
		return l, fmt.Errorf("the record %s cannot be read: %w", name, err)
	}
	return l, nil
}

// Attach prepares the session for a person and returns the command that opens it at a
// terminal, its executable first. The run must be the caller's alone meanwhile.
func (c *Conversation) Attach(adapter agents.Adapter) (argv []string, cmd agents.Command, err error) {
	attacher, ok := adapter.(agents.Attacher)
	if !ok {
		return nil, cmd, fmt.Errorf("agent %s cannot go on in a session at a terminal\nhint: flow chat asks it something", c.Agent)
	}
	if _, err := disk.Stat(c.Launch.Request.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, cmd, fmt.Errorf("the directory of step %s is gone: %s\nhint: flow chat and flow attach need the step's workspace", c.Path, c.Launch.Request.Dir)
	}
	r := c.Launch.Request
	r.Session = agents.Session{Mode: agents.SessionResume, ID: c.Session}
	cmd = attacher.Attach(r)
	return append(c.executable(adapter), cmd.Args...), cmd, prepare(scratchOf(c.run), r.Home, cmd.Prepare)
}

// executable is what stands before the agent's own arguments in the recorded process.
func (c *Conversation) executable(adapter agents.Adapter) []string {
	r := c.Launch.Request
	r.Prompt = "-"
	own, err := adapter.Command(r)
	if err != nil || len(own.Args) == 0 {
		return []string{c.Launch.Path}
	}
	i := max(0, slices.Index(c.Launch.Args, own.Args[0]))
	return append([]string{c.Launch.Path}, c.Launch.Args[:i]...)
}
