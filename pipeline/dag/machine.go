package dag

import (
	"encoding/json"
	"iter"
	"strings"
	"time"

	"flow/pipeline"
)

// A Machine decides what may run. What it knows is what the facts said, each about
// one node, so that facts of nodes that do not wait for one another may be applied
// in any order. Everything else (skipped dependents, the end of a group, what
// fail-fast holds back) is derived from that and kept up to date step by step.
//
// A Machine is not safe for concurrent use: one goroutine owns it.
type Machine struct {
	nursery
	root    *scope
	stopped bool   // the run itself was stopped
	reason  string // why
	floor   int    // the first attempt of a node that has had none comes after it, see Updated

	limit   int
	busy    int      // slots in use
	classes []*class // see class
	timers  queue[timer]
	active  []*node // claimed or started, and not ended; in no order
	waiting int     // questions that stand, see Suspended
	gates   []*gate // those whose items may have changed

	struck int     // scopes that hold what is in them, and the run if it was stopped
	work   []*node // nodes to derive again
}

// A scope is a graph of siblings: the steps of the run or of a group, the items of an
// Each, the rounds of a Loop that there have been, the candidates of a Contest and its
// judge. That of a group is there from the beginning, any other once it is opened.
type scope struct {
	owner    *node // the node that it is in; nil for the run
	nodes    []*node
	ids      map[string]int // places in nodes by id, shared by all scopes of the same steps
	plan     *pipeline.Plan // whose steps they are: the run's or a called pipeline's
	depth    int            // scopes around it
	level    int            // groups around it within its plan
	failFast bool
	race     bool
	gate     *gate // of an Each that bounds its items

	attempt int             // of the Opened
	opening json.RawMessage // its Result
	seen    *Input          // of the owner, once it has ended

	pending int   // nodes that have not ended
	cut     int   // nodes that ended cut short, see outcome
	failing int   // nodes that failed, and are not tolerated
	won     int   // candidates that succeeded
	culprit *node // the first of those that failed, in plan order
}

// A node is a step, or an instance of it, and what is known of it.
type node struct {
	path       string
	step       *pipeline.Step
	form       Form
	layer      int // nodes of the same step around it: an item is in its Each
	index      int // place in the scope
	scope      *scope
	inner      *scope
	needs      []*node
	dependents []*node
	locks      []lock
	class      *class

	record
	waits  int // needs that have not ended
	barred int // needs that ended in a way that bars this step
	out    outcome

	judge    bool // of a vote
	failing  bool // counts in scope.failing
	admitted bool // of an item: its gate has let it in
	begun    bool // of an item that was let in: something has happened in it since
	active   bool // in Machine.active
	slot     bool // holds one of the run's slots
	queued   bool // in the queue of its class, or waits for a lock
	rung     bool // the time of its retry has come
}

// A record is what the facts about one node say, and nothing else.
type record struct {
	last     Kind   // of the facts
	attempts int    // the number of the last that started
	starts   int    // how many started
	previous Kind   // how the last attempt ended
	running  bool   // the last attempt has not ended
	opened   bool   // there is something in it that may run, or has
	end      Status // how the node ended by a fact of its own: "" while it has not

	result  json.RawMessage // these four are of the last attempt
	reason  string
	cause   string
	retryAt time.Time // of a failed attempt that is to be followed by another
}

// An outcome is how a node ended, as far as can be derived; the zero outcome is no end.
type outcome struct {
	status Status
	origin *node // the node that is to blame, among siblings
	cut    bool  // it was cancelled, or a node in it was by other than its own fail-fast
}

func (s *scope) open() bool { return s.owner == nil || s.owner.opened }

// up returns the scope around s, nil for that of the run.
func (s *scope) up() *scope {
	if s.owner == nil {
		return nil
	}
	return s.owner.scope
}

// sealed says that s is that of the run or of a called pipeline: its steps see nothing of
// what is around it.
func (s *scope) sealed() bool { return s.owner == nil || s.owner.calls() }

// outer returns the scope around s whose steps those in s can see, nil if there is none.
func (s *scope) outer() *scope {
	if s.sealed() {
		return nil
	}
	return s.owner.scope
}

// of says that s holds what a node of this form grows.
func (s *scope) of(form Form) bool { return s.owner != nil && s.owner.form == form }

// last returns the round that a loop is in.
func (s *scope) last() *node { return s.nodes[len(s.nodes)-1] }

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
	s, rest := m.root, path
	for {
		name, after, deeper := strings.Cut(rest, ".")
		n := s.child(name)
		if n == nil || !deeper {
			return n
		}
		if s, rest = n.inner, after; s == nil {
			return nil
		}
	}
}

// tolerated says that a failure of n counts as success for those that need it.
func (n *node) tolerated() bool { return n.layer == 0 && n.step.ContinueOnError }

// bars says that an end with status s keeps the dependents of n from running. A judge has
// work with those candidates that are left.
func (n *node) bars(s Status) bool {
	return s != OK && (s != Failure || !n.tolerated() && !n.scope.of(Contest))
}

// blocked says that n is to be skipped for what it needs.
func (n *node) blocked() bool {
	return n.barred > 0 && !n.step.Handles || n.judge && n.scope.won == 0
}

// begins says that a new attempt of n, or its opening, can follow from the facts. It
// asks neither for fail-fast nor for limits and locks: those bind Take. A fact that was
// under way when fail-fast struck still counts, and must count the same when the run
// is read back.
func (n *node) begins() bool {
	return n.end == "" && !n.running && !n.opened && n.last != Suspended &&
		n.scope.open() && n.waits == 0 && !n.blocked()
}

// closing says that what is in n has ended well, and that n has yet to be closed.
func (n *node) closing() bool {
	return n.opened && n.end == "" && n.closes() && n.inner.status() == OK
}

// closes says that n does not end together with what is in it, but is closed.
func (n *node) closes() bool {
	changes := n.form == Group && n.step.Changes // what a plain group changed is known at its end
	return n.form == Loop || n.form == Contest || n.calls() || changes || n.form != Single && n.owns()
}

// calls says that n holds the steps of another pipeline.
func (n *node) calls() bool { return n.form == Group && n.step.Kind == pipeline.KindCall }

// owns says that the workspace that the isolation of n's step describes is n's: the step
// gets one, or each of its items, or each of its candidates.
func (n *node) owns() bool {
	iso := n.step.Isolation
	switch {
	case iso == nil || iso.Mode == "none":
		return false
	case n.step.Contest != nil:
		return n.scope.of(Contest)
	case n.step.Foreach != nil:
		return n.layer == 1
	}
	return n.layer == 0
}

// past says that what is around n is over: nothing in it can change any more.
func (n *node) past() bool {
	for o := n.scope.owner; o != nil; n, o = o, o.scope.owner {
		if o.end != "" || o.form == Loop && o.opened && n != o.inner.last() {
			return true
		}
	}
	return false
}

// asks says that n is a question to a person.
func (n *node) asks() bool { return n.step.Kind == pipeline.KindAsk && n.form == Single }

// slotless says that the tasks of n need no slot.
func (n *node) slotless() bool { return n.form != Single || n.asks() }

// outermost returns the node of n's step that holds all its others, n if it has no others.
func (n *node) outermost() *node {
	for n.layer > 0 {
		n = n.scope.owner
	}
	return n
}
