package gemini

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// tools are the calls of one message, told with their results or without.
func (h *history) tools(told, parts []*fastjson.Value) []agents.Event {
	var events []agents.Event
	for _, t := range told {
		events = append(events, h.begin(native.String(t, "id"), native.String(t, "name"), t.Get("args"))...)
		events = append(events, h.result(t)...)
	}
	for _, p := range parts {
		if f := p.Get("functionCall"); f != nil {
			events = append(events, h.begin(native.String(f, "id"), native.String(f, "name"), f.Get("args"))...)
		}
	}
	return events
}

// begin begins a call, unless it was told before.
func (h *history) begin(id, name string, parameters *fastjson.Value) []agents.Event {
	if _, told := h.calls[id]; told || id == "" {
		return nil
	}
	h.about.Status = agents.SessionUnfinished
	c := newCall(name, parameters, h.about.Dir)
	h.calls[id] = c
	return one(agents.ToolStarted{
		ToolID: id, ToolName: c.tool, NativeName: name, Target: c.target,
		Risk: agents.RiskOf(c.tool, c.target, h.about.Dir), Arguments: native.Raw(parameters),
	})
}

// result ends a call that stands with its result.
func (h *history) result(t *fastjson.Value) []agents.Event {
	answer := t.Get("result", "0", "functionResponse")
	status := native.String(t, "status")
	if answer == nil && status != "error" && status != "cancelled" {
		return nil // it was under way
	}
	events := h.end(native.String(t, "id"), status, answer)
	for i, e := range events {
		if change, ok := e.Body.(agents.FileChanged); ok {
			events[i].Body = withDiff(change, t.Get("resultDisplay"))
		}
	}
	return events
}

// answered ends a call whose result stands in a message of its own. Whether it succeeded is
// seen from whether it names an error.
func (h *history) answered(answer *fastjson.Value) []agents.Event {
	status := "success"
	if answer.Get("response", "error") != nil {
		status = "error"
	}
	return h.end(native.String(answer, "id"), status, answer)
}

// end ends a call with what the model was told: unlike the stream, that has the exit status
// of a command.
func (h *history) end(id, status string, answer *fastjson.Value) []agents.Event {
	c, told := h.calls[id]
	if !told || c.ended {
		return nil
	}
	c.ended = true
	h.calls[id] = c
	response := answer.Get("response")
	output := native.String(response, "output")
	done := agents.ToolCompleted{ToolID: id, Success: status == "success", Result: native.Raw(response, "output")}
	if code, ok := exitStatus(output); ok && c.tool == agents.ToolShell {
		done.ExitCode = &code
		if code != 0 {
			done.Success, done.Error = false, "exit status "+strconv.Itoa(code)
		}
	}
	if done.Success {
		return append(one(done), c.effects(id)...)
	}
	done.Error = cmp.Or(native.String(response, "error"), done.Error, output, status)
	done.Declined = c.declined("invalid_tool_params", done.Error) || strings.HasPrefix(done.Error, "Tool execution denied by policy")
	return one(done)
}

var exitLine = regexp.MustCompile(`(?m)^Exit Code: (\d+)$`)

// exitStatus reads what the model is told of a command that failed.
func exitStatus(output string) (code int, ok bool) {
	found := exitLine.FindAllStringSubmatch(output, -1) // the command's own output stands before
	if len(found) == 0 {
		return 0, false
	}
	code, err := strconv.Atoi(found[len(found)-1][1])
	return code, err == nil
}

// withDiff adds what the CLI shows a person of a change.
func withDiff(change agents.FileChanged, display *fastjson.Value) agents.FileChanged {
	change.Diff = native.String(display, "fileDiff")
	if display.GetBool("isNewFile") {
		change.ChangeType = agents.Created
	}
	return change
}
