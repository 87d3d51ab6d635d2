package steps

import (
	"encoding/json"
	"fmt"

	"flow/pipeline"
)

// listKeep is how many lists are kept decoded.
const listKeep = 16

// An Opening is what the Opened fact of a node holds: what the steps within it need to
// know of it.
type Opening struct {
	Items  Content `json:"items,omitzero"`  // of a `foreach`: its list, in JSON
	Inputs Content `json:"inputs,omitzero"` // of a call: an object of JSON values by name
	// Workspace is the one that the node has of its own.
	Workspace *Workspace `json:"workspace,omitempty"`
	Tree      string     `json:"tree,omitempty"` // of the shared workspace then, where its changes are kept
}

func decodeOpening(data json.RawMessage) (Opening, error) {
	var o Opening
	if len(data) == 0 {
		return o, nil
	}
	if err := json.Unmarshal(data, &o); err != nil {
		return o, fmt.Errorf("what a step recorded when it began cannot be read: %w", err)
	}
	return o, nil
}

// encode returns nil for a zero Opening: most groups leave nothing.
func (o Opening) encode() json.RawMessage {
	if o == (Opening{}) {
		return nil
	}
	data, err := json.Marshal(o)
	if err != nil { // no field of it can fail
		panic(err)
	}
	return data
}

// itemsOf returns the items of the `foreach` at path, opened with result, each in JSON.
func (x *Executor) itemsOf(path string, result json.RawMessage) ([]json.RawMessage, error) {
	return x.items.get(path, result, func() (items []json.RawMessage, err error) {
		opening, err := decodeOpening(result)
		if err != nil {
			return nil, err
		}
		text, err := opening.Items.Load(x.Store)
		if err == nil && text != "" {
			err = json.Unmarshal([]byte(text), &items)
		}
		return items, err
	})
}

// item is the value that `.item` has in the item at an index.
func (x *Executor) item(path string, result json.RawMessage, index int) (any, error) {
	items, err := x.itemsOf(path, result)
	if err != nil {
		return nil, err
	}
	if index >= len(items) {
		return nil, fmt.Errorf("step %s has %d items, and none with index %d; its record is damaged", path, len(items), index)
	}
	return pipeline.DecodeJSON(items[index])
}
