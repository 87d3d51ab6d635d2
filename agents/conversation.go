package agents

import "encoding/json"

// A Conversation is a Dialog with an agent that listens while it works: a two-way
// protocol over standard input and output. Like every Dialog it is pure and for one
// goroutine. What it has to say it keeps until Take is called.
//
// The ids of what it sends are counted in an order that does not depend on decisions, so
// that the lines of one process, played again to a new Conversation after Open, come to
// the same Outcome.
type Conversation interface {
	Dialog
	// Open begins: what is to be said before anything is heard.
	Open()
	// Take returns the lines that are to be written now, each without its newline, and
	// forgets them. It is to be called after every other method.
	Take() [][]byte
	// Decide answers the PermissionRequested of that id. It reports whether one with this id
	// was still waiting.
	Decide(id string, v Verdict) bool
	// Interrupt asks the agent to end the turn under way, and reports whether it can be
	// asked now. The turn then ends as any other: Ended will be true.
	Interrupt() bool
	// Say sends more words of the user: into the turn under way, where the protocol allows
	// it, or as the next turn. It reports whether that can be done now.
	Say(text string) bool
	// Ended reports whether the turn has ended, so that nothing more is to come unless
	// something is said: standard input may be closed.
	Ended() bool
	// Sent takes in a line that another client wrote to the agent, in a conversation that
	// was recorded: it is to be understood as if this one had sent it.
	Sent(line []byte) []Event
}

// A Verdict answers a tool call that waits for a decision.
type Verdict struct {
	Effect    string          // allow, deny, ask or "" (no opinion); the last two for a preliminary request only
	Message   string          // for the model, when it is denied
	Interrupt bool            // denied, and the turn is to end
	Input     json.RawMessage // what the call is to be made with instead, or nil
}

// The effects of a Verdict.
const (
	EffectNone  = ""
	EffectAllow = "allow"
	EffectAsk   = "ask"
	EffectDeny  = "deny"
)

// A Transporter is an Adapter whose agent speaks several protocols.
type Transporter interface {
	// Transport returns the name of the protocol for r: the one that r.Transport names, or
	// if that is "" the one that suits r best. An unknown name is returned as it is;
	// Command refuses it.
	Transport(r Request) string
}

// A Closer is a Conversation whose agent wants to be told that there will be no more turns,
// before its standard input ends.
type Closer interface {
	// Close says so.
	Close()
}
