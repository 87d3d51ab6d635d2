package dag

import "slices"

// A session is a native session that more than one step uses. A step that continues
// it must be alone; steps that fork it only read it, and may do so together.
type session struct {
	root    string // path of the step that began it
	holders []*node
	alone   bool    // the holder is one that continues it, or began it
	waiting []*node // ready but for this session; woken together when it is left
}

// A lock is the use that a step makes of a session, from Take until the end of the
// attempt has been applied.
type lock struct {
	session *session
	alone   bool
}

func (l lock) free() bool {
	return len(l.session.holders) == 0 || !l.alone && !l.session.alone
}

// taken returns the session that n would have to wait for, nil if there is none.
func (n *node) taken() *session {
	for _, l := range n.locks {
		if !l.free() {
			return l.session
		}
	}
	return nil
}

func (n *node) lock() {
	for _, l := range n.locks {
		l.session.holders = append(l.session.holders, n)
		l.session.alone = l.session.alone || l.alone
	}
}

// unlock leaves the sessions of n and lets those that wait for them compete again.
func (n *node) unlock() {
	for _, l := range n.locks {
		s := l.session
		s.holders = slices.DeleteFunc(s.holders, func(h *node) bool { return h == n })
		s.alone = s.alone && len(s.holders) > 0
		for _, w := range s.waiting {
			w.class.ready.add(w)
		}
		s.waiting = s.waiting[:0]
	}
}
