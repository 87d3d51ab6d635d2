package acpclient

import (
	"fmt"
	"slices"
	"strings"

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
	earlyProgress                      bool
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

// A selector is a setting of a session: one of several values.
type selector struct {
	id, category string
	current      string
	values       []string
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

// configure asks for the first setting that is not as the request wants it, and reports
// whether there was one. Each is asked for once: what an agent says of its settings
// afterwards is its own affair.
func (c *Client) configure() (asked bool, p *agents.Problem) {
	for _, want := range []struct{ category, value string }{
		{"mode", c.o.Mode}, {"model", c.o.Request.Model}, {"thought_level", c.o.Request.Effort},
	} {
		if want.value == "" || slices.Contains(c.session.tried, want.category) {
			continue
		}
		c.session.tried = append(c.session.tried, want.category)
		if asked, p = c.set(want.category, want.value); asked || p != nil {
			return asked, p
		}
	}
	return false, nil
}

// set asks for one setting unless it is as wanted.
func (c *Client) set(category, value string) (asked bool, p *agents.Problem) {
	s, method, key := c.session.find(category)
	if method == "" {
		return false, c.cannot(category, value, nil)
	}
	i := slices.IndexFunc(s.values, func(v string) bool {
		return v == value || category == "mode" && strings.HasSuffix(v, "#"+value) // ids may be addresses
	})
	switch {
	case i < 0:
		return false, c.cannot(category, value, s.values)
	case s.values[i] == s.current:
		return false, nil
	}
	params := object{"sessionId": c.session.id, key: s.values[i]}
	if method == "session/set_config_option" {
		params["configId"] = s.id
	}
	c.ask(method, params)
	return true, nil
}

// cannot is the problem of a setting that the agent does not have.
func (c *Client) cannot(category, value string, values []string) *agents.Problem {
	cause, what, key := agents.CauseConfig, "", "approval"
	switch category {
	case "model":
		cause, what, key = agents.CauseModelNotFound, fmt.Sprintf("has no model %q", value), "model"
	case "thought_level":
		what, key = fmt.Sprintf("has no effort %q", value), "effort"
	default:
		what = fmt.Sprintf("has no mode %q", value)
	}
	hint := "leave `" + key + "` out"
	if len(values) > 0 {
		hint += ", or take one of " + strings.Join(values[:min(len(values), 12)], ", ")
	}
	return c.newProblem(cause, c.o.Title+" "+what, hint)
}

// find returns the selector of a category, the method that sets it and the name of the
// parameter that its value goes into. The method is "" if there is no such selector.
func (s sessionState) find(category string) (found selector, method, key string) {
	for _, o := range s.options {
		if o.category == category || o.category == "" && o.id == category {
			return o, "session/set_config_option", "value"
		}
	}
	switch {
	case category == "mode" && len(s.modes.values) > 0:
		return s.modes, "session/set_mode", "modeId"
	case category == "model" && len(s.models.values) > 0:
		return s.models, "session/set_model", "modelId"
	}
	return selector{}, "", ""
}

// currentModel is the model that the agent would use, "" if it does not say.
func (s sessionState) currentModel() string {
	found, _, _ := s.find("model")
	return found.current
}

// readOptions reads the settings that an answer, or an update, tells.
func (s *sessionState) readOptions(v *fastjson.Value) {
	if v.Exists("modes") {
		s.modes = selector{current: native.String(v, "modes", "currentModeId"), values: ids(v.GetArray("modes", "availableModes"), "id")}
	}
	if v.Exists("models") {
		s.models = selector{current: native.String(v, "models", "currentModelId"), values: ids(v.GetArray("models", "availableModels"), "modelId")}
	}
	if !v.Exists("configOptions") {
		return
	}
	s.options = nil
	for _, o := range v.GetArray("configOptions") {
		s.options = append(s.options, selector{
			id: native.String(o, "id"), category: native.String(o, "category"),
			current: native.String(o, "currentValue"), values: choices(o),
		})
	}
}

// choices are the values of an option, which may stand in groups.
func choices(option *fastjson.Value) []string {
	var all []string
	for _, o := range option.GetArray("options") {
		if o.Exists("options") {
			all = append(all, choices(o)...)
			continue
		}
		all = append(all, native.String(o, "value"))
	}
	return all
}

func ids(values []*fastjson.Value, key string) []string {
	var all []string
	for _, v := range values {
		all = append(all, native.String(v, key))
	}
	return all
}
