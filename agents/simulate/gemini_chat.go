package simulate

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Gemini CLI keeps a session in a file that others may copy or mend before it is
// resumed. The simulation writes such a file beside its own record, and takes a session
// that it does not know from one.

// chatDir is where the CLI keeps the sessions of the working directory, "" when nobody
// has said where.
func (g *gemini) chatDir() string {
	markers, err := filepath.Glob(filepath.Join(g.env("GEMINI_CLI_HOME"), ".gemini", "tmp", "*", ".project_root"))
	if err != nil {
		return ""
	}
	for _, marker := range markers {
		if dir, err := os.ReadFile(marker); err == nil && strings.TrimSpace(string(dir)) == g.dir {
			return filepath.Join(filepath.Dir(marker), "chats")
		}
	}
	return ""
}

// chatFiles are the files of the directory whose names fit a session's id.
func chatFiles(dir, id string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "session-*-"+id[:min(8, len(id))]+".jsonl"))
	if err != nil {
		return nil
	}
	return files
}

// writeChat writes the session's file.
func (g *gemini) writeChat(s *session) error {
	dir := g.chatDir()
	if dir == "" {
		return nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	lines := []any{object{"sessionId": s.ID, "kind": "main"}}
	for _, t := range s.Turns {
		lines = append(lines, object{"type": "user", "content": []any{object{"text": t.Prompt}}})
		if t.Answered {
			lines = append(lines, object{"type": "gemini", "content": t.Answer})
		}
	}
	for _, line := range lines {
		if err := e.Encode(line); err != nil {
			return err
		}
	}
	name := filepath.Join(dir, time.Now().UTC().Format("session-2006-01-02T15-04-")+s.ID[:min(8, len(s.ID))]+".jsonl")
	if files := chatFiles(dir, s.ID); len(files) > 0 {
		name = files[0]
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o600)
}

// readChat is the session of a file that someone else has put there, nil if there is none.
func (g *gemini) readChat(id string) *session {
	for _, file := range chatFiles(g.chatDir(), id) {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		s := &session{Dir: g.dir}
		for line := range bytes.Lines(data) {
			s.addLine(line)
		}
		if s.ID == id {
			s.Inherited = len(s.Turns)
			return s
		}
	}
	return nil
}

// addLine takes in one line of a session's file.
func (s *session) addLine(line []byte) {
	var l struct {
		SessionID string          `json:"sessionId"`
		Type      string          `json:"type"`
		Content   json.RawMessage `json:"content"`
	}
	if json.Unmarshal(line, &l) != nil {
		return
	}
	switch {
	case l.SessionID != "":
		s.ID = l.SessionID
	case l.Type == "user":
		var parts []struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(l.Content, &parts) == nil && len(parts) > 0 {
			s.Turns = append(s.Turns, turnRecord{Prompt: parts[0].Text})
		}
	case l.Type == "gemini" && len(s.Turns) > 0:
		last := &s.Turns[len(s.Turns)-1]
		last.Answered = json.Unmarshal(l.Content, &last.Answer) == nil
	}
}
