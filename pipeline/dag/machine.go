package dag

import (
	"encoding/json"
	"iter"
	"strings"
	"time"

	"flow/pipeline"
)

// A Machine decides what may run. What it knows is what the facts said, each about
// one step, so that facts of steps that do not wait for one another may be applied
// in any order. Everything else (skipped dependents, the end of a group, what
// fail-fast holds back) is derived from that and kept up to date step by step.
//
// A Machine is not safe for concurrent use: one goroutine owns it.
type Machine struct {
	root    *scope
	stopped bool   // the run itself was stopped
	reason  string // why

	limit   int
	busy    int      // slots in use
	classes []*class // see class
	timers  queue[timer]
	active  []*node // claimed or started, and not ended; in no order

	struck int     // scopes that fail-fast holds, and the run if it was stopped
	work   []*node // nodes to derive again
}

// A scope is a graph of siblings: the steps of the run, or those of a group.
type scope struct {
	owner    *node // the group; nil for the run
	nodes    []*node
	byID     map[string]*node
	failFast bool

	pending int   // nodes that have not ended
	cut     int   // nodes that ended cut short, see outcome
	failing int   // nodes that make the scope fail
	culprit *node // the first of them, in plan order
}

// A node is a step and what is known of it.
type node struct {
	path       string
	step       *pipeline.Step
	order      int // place in the plan, depth first
	scope      *scope
	inner      *scope // of a group
	needs      []*node
	dependents []*node
	locks      []lock
	class      *class

	record
	waits   int // needs that have not ended
	barred  int // needs that ended in a way that bars this step
	out     outcome
	failing bool // the step makes its scope fail

	active bool // in Machine.active
	slot   bool // holds one of the run's slots
	queued bool // in the queue of its class, or waits for a lock
}

// A record is what the facts about one step say, and nothing else.
type record struct {
	last     Kind   // of the facts
	attempts int    // Started facts
	previous Kind   // how the last attempt ended
	running  bool   // the last attempt has not ended
	opened   bool   // of a group
	end      Status // how the step ended: "" while it has not

	result  json.RawMessage // these four are of the last attempt
	reason  string
	cause   string
	retryAt time.Time // of a failed attempt that is to be followed by another
}

// An outcome is how a step ended, as far as can be derived; the zero outcome is no end.
type outcome struct {
	status Status
	origin *node // the step that is to blame, among siblings
	cut    bool  // it was cancelled, or a step in it was by other than its own fail-fast
}

func (s *scope) open() bool { return s.owner == nil || s.owner.opened }

// up returns the scope around s, nil for that of the run.
func (s *scope) up() *scope {
	if s.owner == nil {
		return nil
	}
	return s.owner.scope
}

// all yields the nodes of s in plan order, depth first.
func (s *scope) all() iter.Seq[*node] {
	return func(yield func(*node) bool) { s.walk(yield) }
}

func (s *scope) walk(yield func(*node) bool) bool {
	for _, n := range s.nodes {
		if !yield(n) || n.inner != nil && !n.inner.walk(yield) {
			return false
		}
	}
	return true
}

// find returns the node at path, nil if there is none.
func (m *Machine) find(path string) *node {
	s := m.root
	for {
		id, rest, deeper := strings.Cut(path, ".")
		n := s.byID[id]
		if !deeper || n == nil {
			return n
		}
		if s = n.inner; s == nil {
			return nil
		}
		path = rest
	}
}

// tolerated says that a failure of n counts as success for those that need it.
func (n *node) tolerated() bool { return n.step.ContinueOnError }

// bars says that an end with status s keeps the dependents of n from running.
func (n *node) bars(s Status) bool {
	return s != OK && (s != Failure || !n.tolerated())
}

// blocked says that n is to be skipped for what it needs.
func (n *node) blocked() bool { return n.barred > 0 && !n.step.Handles }

// begins says that a new attempt of n, or the opening of the group n, can follow
// from the facts. It asks neither for fail-fast nor for limits and locks: those bind
// Take. A fact that was under way when fail-fast struck still counts, and must count
// the same when the run is read back.
func (n *node) begins() bool {
	return n.end == "" && !n.running && !n.opened &&
		n.scope.open() && n.waits == 0 && !n.blocked()
}
