package agents

// Exec describes a command that speaks no protocol of agents: how it gets its prompt, and
// what it prints.
type Exec struct {
	Prompt string          `json:"prompt,omitempty"` // PromptStdin if ""
	Format string          `json:"format,omitempty"` // FormatText if ""
	Events map[string]Pick `json:"events,omitempty"` // where in its JSON something stands, by what that is
	Resume []string        `json:"resume,omitempty"` // arguments that go on in the session {session}
}

// A Pick is a place in a JSON object.
type Pick struct {
	Path  string            `json:"path"`            // such as .message.content.0.text
	Match map[string]string `json:"match,omitempty"` // values that the object must have, by path
}

// The ways to give a command its prompt.
const (
	PromptStdin    = "stdin"
	PromptArgument = "argument"
	PromptFile     = "file"
)

// What a command prints.
const (
	FormatText  = "text"  // the answer
	FormatJSON  = "json"  // one object
	FormatLines = "jsonl" // an object a line
)
