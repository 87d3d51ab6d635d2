package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type noBlobs struct{}

func (noBlobs) Blob(string) ([]byte, error) { return nil, errors.New("not there") }

// A report is written step by step, and is the JSON that it would be in one piece.
func TestReportAsJSON(t *testing.T) {
	for _, results := range [][]string{nil, {`{"text":{"inline":"<a>\n"}}`}, {`{}`, `{"exit":0,"stdout":{"inline":"b\n"},"output":{"inline":"[1]"}}`}} {
		r := report{Schema: reportSchema, Run: "r", Status: "succeeded", Outputs: map[string]any{"x": "<y>"}, blobs: noBlobs{}}
		for i, result := range results {
			r.Steps = append(r.Steps, stepReport{path: fmt.Sprintf("fix.%d.\"", i), Status: "succeeded", result: json.RawMessage(result)})
		}
		var got, want bytes.Buffer
		if err := r.printJSON(&got); err != nil {
			t.Fatal(err)
		}
		if err := json.Indent(&want, got.Bytes(), "", "  "); err != nil {
			t.Fatalf("%v\n%s", err, got.Bytes())
		}
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			t.Error(diff)
		}
		var decoded struct {
			Steps map[string]json.RawMessage `json:"steps"`
		}
		if err := json.Unmarshal(got.Bytes(), &decoded); err != nil || len(decoded.Steps) != len(results) {
			t.Errorf("%v: %+v", err, decoded)
		}
	}
	lost := report{blobs: noBlobs{}, Steps: stepReports{{path: "a", result: json.RawMessage(`{"text":{"blob":"sha256:00"}}`)}}}
	if err := lost.printJSON(io.Discard); err == nil {
		t.Error("a text that is not there is no error")
	}
	lost.Error = "step a: not there"
	if err := lost.printJSON(io.Discard); err != nil {
		t.Errorf("the report says what is wrong, and then it fails: %v", err)
	}
}
