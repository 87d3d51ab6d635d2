package steps

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
)

// recent keeps the latest few values that were made from results of Opened facts. It
// may be used concurrently. Ten thousand items of a list share one decoded list, and a
// list whose items have all ended is soon forgotten.
type recent[T any] struct {
	limit int

	mu  sync.Mutex
	all []kept[T] // the latest last
}

type kept[T any] struct {
	path  string
	from  json.RawMessage
	value T
}

// get returns the value that was made from the result of path, or makes it.
func (r *recent[T]) get(path string, from json.RawMessage, produce func() (T, error)) (T, error) {
	if v, ok := r.find(path, from); ok {
		return v, nil
	}
	v, err := produce() // not under the lock: it may get others
	if err != nil {
		return v, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) >= r.limit {
		copy(r.all, r.all[1:])
		r.all = r.all[:len(r.all)-1]
	}
	r.all = append(r.all, kept[T]{path, from, v})
	return v, nil
}

func (r *recent[T]) find(path string, from json.RawMessage) (v T, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, k := range slices.Backward(r.all) {
		if k.path == path && bytes.Equal(k.from, from) {
			copy(r.all[i:], r.all[i+1:])
			r.all[len(r.all)-1] = k
			return k.value, true
		}
	}
	return v, false
}
