package dag

import (
	"container/heap"
	"time"
)

// ordered is what a queue holds.
type ordered[T any] interface{ before(other T) bool }

// A queue is a heap: its first item is before all others.
type queue[T ordered[T]] []T

// Len is for container/heap, as are the four below.
func (q queue[T]) Len() int { return len(q) }

// Less orders the heap.
func (q queue[T]) Less(i, j int) bool { return q[i].before(q[j]) }

// Swap swaps two items.
func (q queue[T]) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push appends an item.
func (q *queue[T]) Push(x any) { *q = append(*q, x.(T)) } // only add pushes

// Pop cuts off the last item.
func (q *queue[T]) Pop() any {
	var none T
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = none
	*q = (*q)[:last]
	return x
}

func (q *queue[T]) add(x T) { heap.Push(q, x) }
func (q *queue[T]) drop()   { heap.Pop(q) }

// before compares in plan order, depth first. It climbs to the scope that holds both,
// because numbers for all nodes would have to be given anew whenever the run grows.
func (n *node) before(o *node) bool {
	if n.scope == o.scope {
		return n.index < o.index
	}
	inside := n.scope.depth > o.scope.depth // should one of them hold the other
	for n.scope.depth > o.scope.depth {
		n = n.scope.owner
	}
	for o.scope.depth > n.scope.depth {
		o = o.scope.owner
	}
	if n == o {
		return !inside
	}
	for n.scope != o.scope {
		n, o = n.scope.owner, o.scope.owner
	}
	return n.index < o.index
}

// A timer is the time from which a retry may start. One that no longer holds stays in
// its queue until its turn comes.
type timer struct {
	at   time.Time
	node *node
}

func (t timer) before(o timer) bool {
	if t.at.Equal(o.at) {
		return t.node.before(o.node)
	}
	return t.at.Before(o.at)
}
