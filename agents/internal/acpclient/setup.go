package acpclient

import (
	"fmt"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// version is the version of the protocol that the client speaks.
const version = 1

// agentInfo is what an agent says of itself.
type agentInfo struct {
	name, version                      string
	load, resume, fork, addDirs, close bool
	commandsEndReplay, toolInIDs       bool // see quirks
	earlyProgress, asksWhenRuled       bool
	saysInvalid                        bool
}

// sessionState is the conversation that the agent keeps.
type sessionState struct {
	id        string
	replaying bool     // the agent repeats what was said before
	answered  bool     // … and has said that the session is there
	listed    bool     // its commands have been told
	modes     selector // of session/set_mode
	models    selector // of session/set_model
	options   []selector
	tried     []string // the settings that have been asked for
}

// onInitialized begins the session as far as the agent can.
func (c *Client) onInitialized(v *fastjson.Value) []agents.Event {
	if got := native.Int(v, "protocolVersion"); got != version && v.Exists("protocolVersion") {
		return c.fail(agents.CauseConfig, fmt.Sprintf("it speaks version %d of ACP; flow speaks %d", got, version), "install another version of the agent")
	}
	c.info = readInfo(v)
	params := object{"cwd": c.dir, "mcpServers": []any{}}
	if dirs := c.o.Request.AddDirs; len(dirs) > 0 {
		if !c.info.addDirs {
			return c.fail(agents.CauseConfig, c.o.Title+" cannot be given further directories over ACP", "leave `add-dirs` out, or use claude, codex or gemini")
		}
		params["additionalDirectories"] = dirs
	}
	method, id := c.opening()
	if method == "" {
		return c.fail(agents.CauseConfig, fmt.Sprintf("this version of %s cannot %s a session over ACP", c.o.Title, c.o.Request.Session.Mode),
			"give the step a session of its own, or use claude, codex or gemini")
	}
	if id != "" {
		params["sessionId"] = id
	}
	c.ask(method, params)
	if c.recorded {
		return nil
	}
	return c.begun(method, id)
}

// opening is the method that begins the session, and the id of an older one that it takes.
// Resuming is better than loading, which repeats all that was said.
func (c *Client) opening() (method, id string) {
	s := c.o.Request.Session
	switch {
	case s.Mode == agents.SessionNew:
		return "session/new", ""
	case s.Mode == agents.SessionFork && c.info.fork:
		return "session/fork", s.Parent
	case s.Mode == agents.SessionResume && c.info.resume:
		return "session/resume", s.ID
	case s.Mode == agents.SessionResume && c.info.load:
		return "session/load", s.ID
	}
	return "", ""
}

// begun takes in that a request is on its way.
func (c *Client) begun(method, session string) []agents.Event {
	if begins(method) {
		c.problem = nil // what failed before is tried again
	}
	switch method {
	case "session/load", "session/resume":
		c.session = sessionState{id: session, replaying: true}
	case "session/fork": // the agent names it
		c.session = sessionState{replaying: true}
	case "session/new":
		c.session = sessionState{}
	case "session/prompt":
		c.turn = turn{sent: true}
		return one(agents.TurnStarted{})
	}
	return nil
}

func readInfo(v *fastjson.Value) agentInfo {
	can := func(name string) bool {
		x := v.Get("agentCapabilities", "sessionCapabilities", name)
		return x != nil && x.Type() != fastjson.TypeNull && x.Type() != fastjson.TypeFalse
	}
	info := agentInfo{
		name: native.String(v, "agentInfo", "name"), version: native.String(v, "agentInfo", "version"),
		load:   v.GetBool("agentCapabilities", "loadSession"),
		resume: can("resume"), fork: can("fork"), addDirs: can("additionalDirectories"), close: can("close"),
	}
	info.quirks()
	return info
}

// onSession takes in that the session is there.
func (c *Client) onSession(v *fastjson.Value) []agents.Event {
	if id := native.String(v, "sessionId"); id != "" {
		c.session.id = id
	}
	if c.session.id == "" {
		return c.fail(agents.CauseProtocol, "it began a session without an id", "install another version of the agent")
	}
	c.session.answered = true
	c.session.readOptions(v)
	if c.model == "" {
		c.model = c.session.currentModel()
	}
	events := one(agents.SessionStarted{Model: c.model, Version: c.info.version, Cwd: c.dir})
	return append(events, c.proceed()...)
}

// complete reports whether all that the agent repeats of a session has come.
func (s sessionState) complete(info agentInfo) bool {
	return s.answered && (s.listed || !info.commandsEndReplay)
}

// proceed asks for the next thing that the session lacks, and at last for the turn.
func (c *Client) proceed() []agents.Event {
	if c.session.replaying && !c.session.complete(c.info) {
		return nil
	}
	c.session.replaying = false
	if c.turn.sent || c.problem != nil || !c.session.answered || len(c.asked) > 0 {
		return nil
	}
	asked, problem := c.configure()
	switch {
	case problem != nil:
		return c.failed(problem)
	case asked || c.recorded:
		return nil
	}
	return c.prompt(c.o.Prompt)
}

func (c *Client) prompt(text string) []agents.Event {
	c.ask("session/prompt", object{"sessionId": c.session.id, "prompt": []any{object{"type": "text", "text": text}}})
	return c.begun("session/prompt", c.session.id)
}
