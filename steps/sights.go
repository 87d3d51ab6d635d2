package steps

import (
	"reflect"
	"slices"
	"sync"

	"flow/pipeline/dag"
)

// sightsMax bounds what is kept of what templates saw, in bytes as weigh counts them.
const sightsMax = 32 << 20

// sights keeps what templates saw of steps lately, up to sightsMax: ten thousand items that
// all name one list share what was made of it. It may be used concurrently; what is in it
// may be shared because no template changes a value (see pipeline.Functions).
type sights struct {
	mu   sync.Mutex
	all  []sight // the latest last
	size int     // of all together
}

// A sight is a step as templates see it, made from in.
type sight struct {
	in   dag.Input
	data map[string]any
	size int
}

// get returns what was made of in, or makes it.
func (s *sights) get(in dag.Input, produce func(dag.Input) (map[string]any, error)) (map[string]any, error) {
	if data := s.find(in); data != nil {
		return data, nil
	}
	data, err := produce(in) // not under the lock: it reads files
	if err == nil {
		s.keep(sight{in, data, weigh(reflect.ValueOf(data))})
	}
	return data, err
}

func (s *sights) find(in dag.Input) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, k := range slices.Backward(s.all) {
		if same(k.in, in) {
			copy(s.all[i:], s.all[i+1:])
			s.all[len(s.all)-1] = k
			return k.data
		}
	}
	return nil
}

// keep takes k in, in place of what was not asked for the longest.
func (s *sights) keep(k sight) {
	const most = 64
	if k.size > sightsMax {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.all) == most || s.size+k.size > sightsMax {
		s.size -= s.all[0].size
		copy(s.all, s.all[1:])
		s.all[len(s.all)-1] = sight{}
		s.all = s.all[:len(s.all)-1]
	}
	s.all = append(s.all, k)
	s.size += k.size
}

// same says that two inputs are the same one: the machine puts that of a step together
// once, when it has ended. Their contents are not compared.
func same(a, b dag.Input) bool {
	return a.Path == b.Path && a.Status == b.Status && a.Rounds == b.Rounds && place(a.Result) == place(b.Result) &&
		place(a.Items) == place(b.Items) && reflect.ValueOf(a.Steps).Pointer() == reflect.ValueOf(b.Steps).Pointer()
}

// A span is where a slice is in memory.
type span[T any] struct {
	first *T
	n     int
}

func place[T any](s []T) span[T] {
	if len(s) == 0 {
		return span[T]{}
	}
	return span[T]{&s[0], len(s)}
}

// weigh estimates the memory of a value that templates see.
func weigh(v reflect.Value) int {
	const header = 48
	size := header
	switch v.Kind() {
	case reflect.String:
		size += v.Len()
	case reflect.Interface:
		if !v.IsNil() {
			size = weigh(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			size += weigh(v.Index(i))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			size += header + weigh(it.Key()) + weigh(it.Value())
		}
	default:
	}
	return size
}
