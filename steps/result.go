package steps

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"flow/agents"
)

// inlineMax is the longest text, in bytes, that stands in a fact itself. Longer
// ones are blobs: facts stay small enough for any journal or workflow engine.
const inlineMax = 16 << 10

// Result is what one attempt of a step leaves: the data of its fact. Usage, cost
// and duration add up over the step's attempts.
type Result struct {
	Agent   string `json:"agent,omitempty"` // the profile's name
	Use     string `json:"use,omitempty"`   // the agent behind it
	Model   string `json:"model,omitempty"`
	Version string `json:"version,omitempty"` // of the agent's CLI
	// Session is the native session; Began says that its history holds the prompt.
	Session string `json:"session,omitempty"`
	Began   bool   `json:"began,omitempty"`
	// SessionUsage is the session's running total, for agents that count so.
	SessionUsage *agents.Usage `json:"sessionUsage,omitempty"`

	// Answered says, of an attempt that came to no good end, that the agent's own part was
	// done: Text and Output are its answer, and only the check had yet to pass, or git to keep
	// what the agent changed.
	Answered bool `json:"answered,omitempty"`

	Text   Content `json:"text,omitzero"`
	Output Content `json:"output,omitzero"` // the JSON that the step's schema describes
	Stdout Content `json:"stdout,omitzero"` // of a shell step
	Stderr string  `json:"stderr,omitempty"`
	Exit   *int    `json:"exit,omitempty"`

	// Cached says that the result was taken from the cache; Lookup, of a Started fact, that
	// it is about to be, and from where.
	Cached bool   `json:"cached,omitempty"`
	Lookup string `json:"lookup,omitempty"`
	// Forgotten is, of an attempt that begins, how many turns of that number are on the disk of one
	// that the journal has forgotten: the power failed before its beginning was durable.
	Forgotten int `json:"forgotten,omitempty"`

	Artifacts Content `json:"artifacts,omitzero"` // a JSON list of Artifact
	// Winner is, of a contest, the candidate whose result this is.
	Winner   *int      `json:"winner,omitempty"`
	Question *Question `json:"question,omitempty"` // that a person is asked
	Answer   *Answer   `json:"answer,omitempty"`   // what that person said

	// Workspace is the step's own, where it has one, and Branch where its changes are.
	Workspace *Workspace `json:"workspace,omitempty"`
	Branch    string     `json:"branch,omitempty"`
	Commit    string     `json:"commit,omitempty"` // the last one of Branch
	Tree      string     `json:"tree,omitempty"`   // of the workspace when the attempt began
	Files     Content    `json:"files,omitzero"`   // that changed: a JSON list of workspace.FileChange
	Diff      Content    `json:"diff,omitzero"`    // kept where a template wants it

	Next *Next `json:"next,omitempty"` // of a failed attempt: how it goes on, where `retry` does not decide

	Error string `json:"error,omitempty"`
	Cause string `json:"cause,omitempty"`
	Hint  string `json:"hint,omitempty"`

	Usage      *agents.Usage `json:"usage,omitempty"`
	CostUSD    *float64      `json:"costUsd,omitempty"`
	Dearest    *TurnCost     `json:"dearest,omitempty"` // of the attempt's turns
	DurationMS int64         `json:"durationMs"`
	Leftovers  []string      `json:"leftovers,omitempty"` // processes that outlived the step's own and were ended
}

// Content is a text that is kept inline while it is small and as a blob beyond.
type Content struct {
	Inline string `json:"inline,omitempty"`
	Blob   string `json:"blob,omitempty"`
	Size   int64  `json:"size,omitempty"` // bytes, of a blob
	Cut    bool   `json:"cut,omitempty"`  // the text was longer than flow keeps
}

// IsZero reports whether there is no text.
func (c Content) IsZero() bool { return c == Content{} }

// A BlobStore keeps texts by their content; *state.Run is one.
type BlobStore interface {
	PutBlob(data []byte) (string, error)
	Blob(ref string) ([]byte, error)
}

// keepText keeps a text, masked.
func (x *Executor) keepText(text string) (Content, error) {
	return store(x.Store, x.Mask.Content(text))
}

func store(b BlobStore, text string) (Content, error) {
	if len(text) <= inlineMax && utf8.ValidString(text) {
		return Content{Inline: text}, nil
	}
	ref, err := b.PutBlob([]byte(text))
	return Content{Blob: ref, Size: int64(len(text))}, err
}

// Load returns the text of c.
func (c Content) Load(blobs interface{ Blob(string) ([]byte, error) }) (string, error) {
	if c.Blob == "" {
		return c.Inline, nil
	}
	data, err := blobs.Blob(c.Blob)
	return string(data), err
}

// DecodeResult reads the data of a fact; none gives a zero Result.
func DecodeResult(data json.RawMessage) (Result, error) {
	var r Result
	if len(data) == 0 {
		return r, nil
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("a step's recorded result cannot be read: %w", err)
	}
	return r, nil
}

func (r Result) encode() json.RawMessage {
	data, err := json.Marshal(r)
	if err != nil { // no field of it can fail
		panic(err)
	}
	return data
}
