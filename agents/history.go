package agents

import "time"

// A SessionKeeper is an Adapter whose CLI keeps its sessions in files that flow can read.
type SessionKeeper interface {
	// Sessions says where the files are.
	Sessions() SessionFiles
	// History returns a new reader of one of them.
	History() History
}

// SessionFiles says where a CLI keeps its sessions: in a directory with a file of JSON
// Lines for each.
type SessionFiles struct {
	// Dir is that directory, given the environment. "" when the environment names none.
	Dir func(getenv func(string) string) string
	// Patterns of fs.Glob, within Dir, that the files match.
	Patterns []string
	// ID is what the name of a file, within Dir, says of its session's id: its beginning at
	// least. "" for a file that is no session.
	ID func(name string) string
	// Marker names, within Dir, a file whose text is the working directory of the sessions
	// in the file name. nil where a session says that itself.
	Marker func(name string) string
}

// A History turns the file of one session into events. Like a Dialog it is a pure state
// machine for one goroutine. Lines come without their newline, oldest first, and must not
// be kept. Events carry the time at which they happened, where the file tells it.
type History interface {
	// Line takes one line. It never fails: what it does not understand becomes a Log,
	// Malformed or Unknown event, and what only the CLI itself has use for nothing.
	Line(line []byte) []Event
	// Skip says that lines are left out here: what is counted is then not known.
	Skip()
	// End returns what is left to be told after the last line.
	End() []Event
	// Summary is what the lines so far say of the session as a whole.
	Summary() SessionSummary
}

// A SessionSummary is what is known of a session without its events.
type SessionSummary struct {
	ID      string    `json:"id"`
	Parent  string    `json:"parentId,omitempty"` // the session it was forked from, where that is known
	Dir     string    `json:"repoPath,omitempty"` // working directory
	Model   string    `json:"model,omitempty"`    // the last that answered
	Version string    `json:"version,omitempty"`  // of the CLI
	Title   string    `json:"title,omitempty"`    // how the first prompt begins, or what the CLI calls the session
	Created time.Time `json:"createdAt,omitzero"`
	Updated time.Time `json:"updatedAt,omitzero"` // of the last line that tells its time
	// Messages are the prompts and the answers to them. What is said between two tool
	// calls belongs to the answer. 0 when not all of the session was read.
	Messages int `json:"messageCount,omitempty"`
	// Usage and CostUSD are of the whole session; nil when they are not known. Some CLIs
	// begin those of a fork at its parent's.
	Usage   *Usage        `json:"usage,omitempty"`
	CostUSD *float64      `json:"costUsd,omitempty"`
	Status  SessionStatus `json:"status"`
}

// SessionStatus is how a session stands.
type SessionStatus string

// The session statuses.
const (
	SessionActive     SessionStatus = "active"     // its agent is at work
	SessionCompleted  SessionStatus = "completed"  // the last prompt was answered
	SessionFailed     SessionStatus = "failed"     // the last turn ended with an error
	SessionCancelled  SessionStatus = "cancelled"  // the last turn was interrupted
	SessionTimedOut   SessionStatus = "timeout"    // the last turn took too long
	SessionUnfinished SessionStatus = "unfinished" // the last prompt has no answer, and nothing says why
)

// A HistoryReader drives a History over the lines of a file and completes what it says:
// envelopes, times, and tools that were left open. There is no SessionEnded: a session
// that is kept can always go on.
type HistoryReader struct {
	history History
	tr      *Translator
	last    time.Time
}

// NewHistoryReader returns a reader that calls emit for every event.
func NewHistoryReader(h History, agent string, emit func(Event)) *HistoryReader {
	r := &HistoryReader{history: h}
	r.tr = NewTranslator(stored{h}, Envelope{Agent: agent}, func() time.Time { return r.last }, emit)
	return r
}

// Line reads one line, found at native.
func (r *HistoryReader) Line(line []byte, native Native) {
	events := r.history.Line(line)
	r.note()
	r.tr.send(events, &native)
}

// Oversized reports a line of which only the beginning, line, was kept.
func (r *HistoryReader) Oversized(line []byte, native Native) { r.tr.Oversized(line, native) }

// End tells what is left, and returns what is known of the session.
func (r *HistoryReader) End() SessionSummary {
	events := r.history.End()
	r.note()
	r.tr.send(events, nil)
	r.tr.closeTools("no result in the session")
	return r.history.Summary()
}

func (r *HistoryReader) note() { r.last = r.history.Summary().Updated }

// stored is a History as the Dialog that a Translator drives.
type stored struct{ History }

func (stored) Stderr([]byte) []Event { return nil }

func (stored) End(Exit) Outcome { return Outcome{} }

func (s stored) SessionID() string { return s.Summary().ID }
