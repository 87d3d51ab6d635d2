package steps

import "sync"

// traffic counts the steps that work in each directory, for what one of them changed can
// only be told when no other was there.
type traffic struct {
	mu      sync.Mutex
	working map[string]int
	arrived map[string]int
}

// enter counts a step that begins to work in dir, until what it returns is called.
func (t *traffic) enter(dir string) (leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.working[dir]++
	t.arrived[dir]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.working[dir]--
	}
}

// count is how many steps have arrived in dir, and whether the caller's is alone there.
func (t *traffic) count(dir string) (arrived int, alone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.arrived[dir], t.working[dir] <= 1
}
