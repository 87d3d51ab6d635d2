package steps

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"flow/state"
)

// BlobRefs returns the references to the blobs that a record needs, sorted: those that it
// names, and the artifacts of a list that is a blob itself, if that can be read.
func BlobRefs(r state.Record, blobs interface{ Blob(string) ([]byte, error) }) []string {
	refs := refSet{}
	var data any
	if json.Unmarshal(r.Data, &data) != nil {
		return nil // whoever reads the record says what is wrong with it
	}
	if u, ok := data.(map[string]any); ok && r.Type == recordUpdate {
		for _, key := range []string{"pipeline", "plan", "inputs"} {
			refs.add(u[key])
		}
	}
	refs.within(data)
	var fact struct {
		Result Result `json:"result"`
	}
	if r.Type == recordFact && json.Unmarshal(r.Data, &fact) == nil {
		list, _ := fact.Result.ArtifactList(blobs)
		for _, artifact := range list {
			refs.add(artifact.Blob)
		}
	}
	return slices.Sorted(maps.Keys(refs))
}

// refSet is a set of references to blobs.
type refSet map[string]bool

func (s refSet) add(v any) {
	if ref, ok := v.(string); ok && blobName().MatchString(ref) {
		s[ref] = true
	}
}

func blobName() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) }

// within adds what stands as "blob" anywhere in a JSON value, as in Content.
func (s refSet) within(v any) {
	switch v := v.(type) {
	case map[string]any:
		s.add(v["blob"])
		for _, inner := range v {
			s.within(inner)
		}
	case []any:
		for _, inner := range v {
			s.within(inner)
		}
	}
}
