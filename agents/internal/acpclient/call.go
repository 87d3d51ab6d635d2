package acpclient

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/valyala/fastjson"

	"flow/agents"
	"flow/agents/internal/native"
)

// A call is what is known of a tool call. Agents tell it in pieces, in updates and in
// permission requests; a later piece takes the place of an earlier one.
type call struct {
	id, name, kind, title string
	dir                   string // in which the session works
	input                 *input
	locations             []string // files that it is said to touch
	diffs                 []diff
	output                json.RawMessage // as the agent gave it, or its content
	text                  string          // its content, as text
	exit                  *int
	status                string

	told, ended bool // ToolStarted, ToolCompleted have been told
	asked       bool // a permission was asked for
	ran         bool // it was seen to run after that
	verdict     string
}

// input is a call's arguments.
type input struct {
	raw    json.RawMessage // a JSON object
	fields map[string]json.RawMessage
}

// A diff is a change of a file.
type diff struct {
	path   string
	change agents.ChangeType
}

// callOf returns the call that an update, or the toolCall of a permission request, is
// about, with what it says of it. It is nil when it says no id.
func (c *Client) callOf(u *fastjson.Value) *call {
	id := native.String(u, "toolCallId")
	if id == "" {
		return nil
	}
	known := c.calls[id]
	if known == nil {
		known = &call{id: id}
		c.calls[id] = known
	}
	if known.ended {
		return known
	}
	known.dir = c.dir
	known.read(u)
	if known.name == "" && c.info.toolInIDs {
		known.name = toolOfID(id)
	}
	return known
}

func (k *call) read(u *fastjson.Value) {
	if name := native.String(u, "name"); name != "" {
		k.name = name
	} else if title := native.String(u, "title"); k.name == "" && k.title == "" && isName(title) {
		k.name = title // OpenCode's first title of a call is its tool
	}
	k.title = cmp.Or(native.String(u, "title"), k.title)
	k.kind = cmp.Or(native.String(u, "kind"), k.kind)
	k.status = cmp.Or(native.String(u, "status"), k.status)
	if in := readInput(u.Get("rawInput")); in != nil {
		k.input = in
	}
	for _, at := range u.GetArray("locations") {
		if path := native.String(at, "path"); path != "" && !slices.Contains(k.locations, path) {
			k.locations = append(k.locations, path)
		}
	}
	k.readContent(u.GetArray("content"))
	k.readOutput(u.Get("rawOutput"))
}

// readContent reads what a call shows: texts, and changes of files.
func (k *call) readContent(content []*fastjson.Value) {
	var text strings.Builder
	for _, part := range content {
		switch native.String(part, "type") {
		case "content":
			text.WriteString(native.String(part, "content", "text"))
		case "diff":
			d := diff{path: native.String(part, "path"), change: changeOf(part)}
			if i := slices.IndexFunc(k.diffs, func(other diff) bool { return other.path == d.path }); i >= 0 {
				k.diffs[i] = d
			} else if d.path != "" {
				k.diffs = append(k.diffs, d)
			}
		}
	}
	if text.Len() > 0 {
		k.text = text.String()
	}
}

func changeOf(diff *fastjson.Value) agents.ChangeType {
	switch native.String(diff, "_meta", "kind") {
	case "add":
		return agents.Created
	case "delete":
		return agents.Deleted
	case "modify":
		return agents.Modified
	}
	if native.String(diff, "oldText") == "" {
		return agents.Created
	}
	return agents.Modified
}

// readOutput reads a result. No field for an exit status is agreed upon: these are the
// ones that agents use.
func (k *call) readOutput(v *fastjson.Value) {
	if out := native.Raw(v); out != nil {
		k.output = out
	}
	for _, path := range [][]string{{"metadata", "exit"}, {"exit_code"}, {"exitCode"}} {
		if n := v.Get(path...); n != nil && n.Type() == fastjson.TypeNumber {
			code := int(native.Int(n))
			k.exit = &code
			return
		}
	}
}

func readInput(v *fastjson.Value) *input {
	raw := native.Raw(v)
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || len(fields) == 0 {
		return nil
	}
	return &input{raw: raw, fields: fields}
}

// text is the first of the fields keys that is a text or a list of texts.
func (in *input) text(keys ...string) string {
	if in == nil {
		return ""
	}
	for _, key := range keys {
		var text string
		if json.Unmarshal(in.fields[key], &text) == nil && text != "" {
			return text
		}
		var words []string
		if json.Unmarshal(in.fields[key], &words) == nil && len(words) > 0 {
			return script(words)
		}
	}
	return ""
}

// script is a command that is given word by word, as a shell would read it. What a shell
// of the system is given with -c is the command.
func script(words []string) string {
	if len(words) == 3 && native.SystemShell(words[0]) && (words[1] == "-c" || words[1] == "-lc") {
		return words[2]
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = w
		if w == "" || strings.ContainsAny(w, " \t\r\n'\"`$&|;<>()*?[]{}~#!\\") {
			quoted[i] = native.Quote(w)
		}
	}
	return strings.Join(quoted, " ")
}

// isName reports whether a title is the name of a tool and no more.
func isName(title string) bool {
	return title != "" && strings.Trim(title, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}
