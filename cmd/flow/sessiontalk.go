package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// A talk prints events as a conversation: who speaks, indented what is said, and a line for
// each tool.
type talk struct {
	w       io.Writer
	speaker string
	midLine bool
	err     error
}

func (t *talk) event(line []byte) error {
	var e talkEvent
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	switch e.Type {
	case "textChunk":
		t.says(e.Role, e)
	case "reasoning":
		t.says("thinks", e)
	case "toolStarted":
		t.does(e, e.NativeName+" "+e.Target)
	case "toolCompleted":
		if e.Error != "" {
			t.does(e, "failed: "+e.Error)
		}
	case "fileChanged":
		t.does(e, e.ChangeType+" "+e.FilePath)
	case "system":
		if tellsOfSession(e.Subtype) {
			t.note(e.Subtype + ": " + e.Message)
		}
	case "error", "malformed":
		t.note(e.Type + ": " + e.Message + e.Error)
	case "sessionEnded":
		if e.Error != "" {
			t.note(e.Reason + ": " + e.Error)
		}
	}
	return t.err
}

// tellsOfSession reports whether a notice changes what the conversation is. The others, of
// which some agents give many, are in the JSON.
func tellsOfSession(subtype string) bool {
	switch subtype {
	case "forked", "compacted", "compact_boundary", "compact_summary", "context_compacted", "summary",
		"interrupted", "turn_aborted", "thread_rolled_back":
		return true
	default:
		return false
	}
}

// talkEvent is what a person reads of an event in a conversation.
type talkEvent struct {
	eventLine
	Role      string `json:"role"`
	IsPartial bool   `json:"isPartial"`
}

// says prints text, under the name of who says it.
func (t *talk) says(speaker string, e talkEvent) {
	text := e.Content
	if t.speaks(speaker, e) {
		text = strings.TrimLeft(text, "\n")
	}
	for part := range strings.Lines(text) {
		if !t.midLine && part != "\n" {
			t.printf("  ")
		}
		t.printf("%s", part)
		t.midLine = !strings.HasSuffix(part, "\n")
	}
	if !e.IsPartial {
		t.endLine()
	}
}

// does prints a line about something that the agent did.
func (t *talk) does(e talkEvent, what string) {
	t.speaks("assistant", e)
	t.note(what)
}

// note prints a line that is nobody's words.
func (t *talk) note(text string) {
	t.endLine()
	t.printf("  [%s]\n", oneLine(strings.TrimSpace(text), 200))
}

// speaks prints who is heard next, unless it is who was heard last, and reports whether it
// did.
func (t *talk) speaks(speaker string, e talkEvent) bool {
	if speaker == t.speaker {
		return false
	}
	t.endLine()
	t.printf("\n%s  %s\n", speaker, e.Timestamp.Local().Format(time.DateTime))
	t.speaker = speaker
	return true
}

func (t *talk) endLine() {
	if t.midLine {
		t.midLine = false
		t.printf("\n")
	}
}

// printf keeps the first error for event to return.
func (t *talk) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(t.w, format, args...); err != nil && t.err == nil {
		t.err = err
	}
}
