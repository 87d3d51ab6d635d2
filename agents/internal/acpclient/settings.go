package acpclient

import (
	"fmt"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// A selector is a setting of a session: one of several values.
type selector struct {
	id, category string
	current      string
	values       []string
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
