package main

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/pipeline/dag"
)

// Of a list with very many items only those are shown that did not end well.
func TestWithoutCrowds(t *testing.T) {
	var all stepReports
	add := func(path string, form dag.Form, status dag.Status) {
		all = append(all, stepReport{path: path, form: form, Status: string(status)})
	}
	for _, each := range []struct {
		name  string
		items int
	}{{"few", crowded}, {"many", crowded + 1}} {
		add(each.name, dag.Each, dag.Failure)
		for i := range each.items {
			status := dag.OK
			if i == 7 {
				status = dag.Failure
			}
			add(fmt.Sprint(each.name, ".", i), dag.Group, status)
			add(fmt.Sprint(each.name, ".", i, ".step"), dag.Single, status)
		}
	}
	add("manyfold", dag.Single, dag.OK)
	shown := all.withoutCrowds()
	var tail []string
	for _, s := range shown[1+2*crowded:] {
		tail = append(tail, s.path+" "+deref(s.Error))
	}
	want := []string{"many 50 of 51 items ended well", "many.7 ", "many.7.step ", "manyfold "}
	if diff := cmp.Diff(want, tail); diff != "" || shown[0].Error != nil {
		t.Error(diff)
	}
}
