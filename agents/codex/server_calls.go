package codex

// What app-server can do beside a turn. Each call is queued for Take and answered, some
// time later, by a Reply whose ID is the number that the call returned. They are for
// after the thread was opened, and outside the order of ids that a turn has.

// Replies returns the answers to calls that have come, and forgets them.
func (c *Conversation) Replies() []Reply {
	replies := c.replies
	c.replies = nil
	return replies
}

// A ReviewTarget is what codex is to review. Type says which of the others counts.
type ReviewTarget struct {
	Type         string `json:"type"`                   // uncommittedChanges, baseBranch, commit or custom
	Branch       string `json:"branch,omitempty"`       // of baseBranch
	SHA          string `json:"sha,omitempty"`          // of commit
	Title        string `json:"title,omitempty"`        // of commit, for people
	Instructions string `json:"instructions,omitempty"` // of custom
}

type reviewParams struct {
	ThreadID string       `json:"threadId"`
	Target   ReviewTarget `json:"target"`
}

// Review makes codex review target: instead of the request's turn, before that has
// begun, or as the next turn when one has ended. It reports whether that can be done
// now. The review is the turn's answer.
func (c *Conversation) Review(target ReviewTarget) bool {
	switch {
	case c.broken != nil:
		return false
	case c.thread == "":
		c.review = &target
		return true
	case c.end == nil:
		return false
	}
	c.review, c.end, c.turn, c.interrupt = &target, nil, "", false
	c.begin()
	return true
}

// ListThreads asks for the threads that codex has stored, the newest first, at most
// limit; those of one directory unless dir is "". The answer is a ThreadListResponse.
func (c *Conversation) ListThreads(dir string, limit int) int64 {
	params := map[string]any{"limit": limit}
	if dir != "" {
		params["cwd"] = dir
	}
	return c.rpc.request("thread/list", params)
}

// ReadThread asks for what codex has stored of a thread, its turns left out. The answer
// is a ThreadReadResponse.
func (c *Conversation) ReadThread(id string) int64 {
	return c.rpc.request("thread/read", map[string]string{"threadId": id})
}

// ArchiveThread takes a thread out of the list.
func (c *Conversation) ArchiveThread(id string) int64 {
	return c.rpc.request("thread/archive", map[string]string{"threadId": id})
}

// ListModels asks for the models that codex offers. The answer is a ModelListResponse.
func (c *Conversation) ListModels() int64 { return c.rpc.request("model/list", struct{}{}) }

// CleanTerminals ends the commands of the thread that still run: an interrupt leaves them.
func (c *Conversation) CleanTerminals() int64 {
	return c.rpc.request("thread/backgroundTerminals/clean", map[string]string{"threadId": c.thread})
}
