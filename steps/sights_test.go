package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"flow/pipeline/dag"
)

// What templates see of a step is made once for one input of the machine, and made again
// for another one of the same step.
func TestSights(t *testing.T) {
	var s sights
	made := 0
	see := func(in dag.Input, text string) {
		t.Helper()
		data, err := s.get(in, func(dag.Input) (map[string]any, error) { made++; return map[string]any{"text": text}, nil })
		if err != nil || data["text"] != text {
			t.Errorf("%v, %v, want %s", data, err, text)
		}
	}
	first := dag.Input{Path: "list", Status: dag.OK, Result: json.RawMessage(`{"text":{"inline":"a"}}`)}
	see(first, "a")
	see(first, "a")
	see(dag.Input{Path: "other", Status: dag.OK, Result: first.Result}, "b")
	again := first
	again.Result = append(json.RawMessage(nil), first.Result...)
	see(again, "c") // done again, with the same result
	list := dag.Input{Path: "each", Status: dag.OK, Items: []dag.Input{first}}
	see(list, "d")
	list.Items = []dag.Input{first}
	see(list, "e")
	see(list, "e")
	if made != 5 {
		t.Errorf("made %d times, want 5", made)
	}
	if _, err := s.get(dag.Input{Path: "bad"}, func(dag.Input) (map[string]any, error) { return nil, errors.New("no blob") }); err == nil {
		t.Error("no error")
	}
}

// What is kept is bounded, by number and by size; what is larger is not kept at all.
func TestSightsAreBounded(t *testing.T) {
	var s sights
	see := func(name string, size int) {
		t.Helper()
		_, err := s.get(dag.Input{Path: name}, func(dag.Input) (map[string]any, error) {
			return map[string]any{"items": []any{strings.Repeat("x", size), int64(1), nil}}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 {
		see(fmt.Sprint("small", i), 10)
	}
	if n := len(s.all); n != 64 || s.all[n-1].in.Path != "small199" {
		t.Errorf("%d are kept", n)
	}
	see("small150", 10) // asked for again: it goes last
	see("large", sightsMax-20_000)
	if n := len(s.all); n < 2 || s.all[n-2].in.Path != "small150" || s.size > sightsMax {
		t.Errorf("%d are kept, %d bytes", n, s.size)
	}
	see("too large", sightsMax)
	if s.find(dag.Input{Path: "too large"}) != nil || s.find(dag.Input{Path: "large"}) == nil {
		t.Error("the largest is kept in place of others")
	}
	sum := 0
	for _, k := range s.all {
		sum += k.size
	}
	if sum != s.size {
		t.Errorf("%d bytes, counted %d", sum, s.size)
	}
}
