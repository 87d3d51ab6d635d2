package native

// ringSize is how many ids a Ring remembers: more than any agent has open at once.
const ringSize = 1024

// A Ring remembers the last ids that were put into it, so that what is kept of calls that
// have ended stays small however many there are. The zero Ring is empty.
type Ring struct {
	ids  []string
	next int // the place of the oldest, once there are ringSize
}

// Put takes in an id, and returns the one that is forgotten for it, "" while there is room.
func (r *Ring) Put(id string) (forgotten string) {
	if len(r.ids) < ringSize {
		r.ids = append(r.ids, id)
		return ""
	}
	forgotten, r.ids[r.next] = r.ids[r.next], id
	r.next = (r.next + 1) % ringSize
	return forgotten
}
