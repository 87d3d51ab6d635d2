package pipeline

import (
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"
)

// Exec is how a command that speaks no protocol of agents is asked and understood.
type Exec struct {
	// Prompt says how the command gets the prompt: stdin, argument or file.
	Prompt string `json:"prompt,omitempty"`
	// Format is what it prints: text, json or jsonl.
	Format string `json:"format,omitempty"`
	// Events says where in what it prints something stands, by what that is.
	Events map[string]Pick `json:"events,omitempty"`
	// Resume are the arguments with which it goes on in a session; {session} is its id.
	Resume []string `json:"resume,omitempty"`
}

// A Pick is a place in a JSON object.
type Pick struct {
	Path string `json:"path"` // such as .message.content.0.text
	// Match are the values that an object must have, by path; none: any object will do.
	Match map[string]string `json:"match,omitempty"`
}

// Prompts are the values of `exec.prompt`.
func Prompts() []string { return []string{"stdin", "argument", "file"} }

// Formats are the values of `exec.format`.
func Formats() []string { return []string{"text", "json", "jsonl"} }

const pathPattern = `^(\.[A-Za-z0-9_-]+)+$`

func execTable() []key {
	return []key{
		{"prompt", "How the command gets the prompt; default stdin. {prompt} in `args` stands for it, or for the file.", choice(Prompts()...)},
		{"format", "What the command prints; default text, all of which is the answer.", choice(Formats()...)},
		{"events", "Where in its JSON something stands.", closed(eventTable())},
		{"resume", "Arguments with which it goes on in a session; {session} is the session's id.", oneOrMore(text())},
	}
}

func eventTable() []key {
	pick := def("pick")
	return []key{
		{"text", "A whole message of the model; the last one is the answer.", pick},
		{"delta", "A piece of a message.", pick},
		{"session", "The id of the session.", pick},
		{"model", "The model that answers.", pick},
		{"tool", "The name of a tool that is called.", pick},
		{"input-tokens", "Tokens that went in; the last count holds.", pick},
		{"output-tokens", "Tokens that came out; the last count holds.", pick},
		{"cost", "What it cost, in US dollars; the last figure holds.", pick},
		{"error", "Why the turn has failed.", pick},
		{"done", "The end of the turn, without which it counts as cut off.", pick},
	}
}

func pickTable() []key {
	return []key{
		{"path", "Where it stands, such as .message.content.0.text.", pathSchema()},
		{"match", "Values that the object must have, by path, such as {.type: assistant}.", mapOf(pathPattern, text())},
	}
}

// pickSchema is that of a place: its path, or a mapping.
func pickSchema() schema { return schema{"anyOf": []schema{pathSchema(), closed(pickTable(), "path")}} }

func pathSchema() schema { return schema{"type": "string", "pattern": pathPattern} }

// exec decodes {prompt, format, events, resume}.
func (l *loader) exec(n *yaml.Node) *Exec {
	x := &Exec{}
	found := l.fields(n, "`exec`", execTable(), func(e entry) {
		switch e.key {
		case "prompt":
			x.Prompt = l.oneOf(e.val, "`exec.prompt`", Prompts())
		case "format":
			x.Format = l.oneOf(e.val, "`exec.format`", Formats())
		case "events":
			x.Events = l.execEvents(e.val)
		case "resume":
			x.Resume = l.texts(e.val, "`exec.resume`")
		}
	})
	events, given := found["events"]
	switch {
	case given && x.Format != "json" && x.Format != "jsonl":
		l.fail(events, "add format: jsonl, or json", "`exec.events` is about JSON, but the format is text")
	case !given && found != nil && x.Format != "" && x.Format != "text":
		l.failNode(n, "add events: {text: .path.of.the.answer}", "`exec` does not say where in the JSON the answer stands")
	case given && len(x.Events) > 0 && !says(x.Events, "text", "delta"):
		l.fail(events, "add text: .path.of.the.answer, or delta", "`exec.events` does not say where the answer stands")
	}
	if resume, ok := found["resume"]; ok && !says(x.Events, "session") {
		l.fail(resume, "add events: {session: .path.of.the.id}", "`exec.resume` needs a session, and `exec.events` does not say where one stands")
	}
	return x
}

func says(events map[string]Pick, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { _, ok := events[name]; return ok })
}

func (l *loader) execEvents(n *yaml.Node) map[string]Pick {
	all := map[string]Pick{}
	l.fields(n, "`exec.events`", eventTable(), func(e entry) {
		all[e.key] = l.pick(e.val, "`exec.events."+e.key+"`")
	})
	return all
}

// pick decodes .a.path or {path, match}.
func (l *loader) pick(n *yaml.Node, what string) Pick {
	if deref(n).Kind != yaml.MappingNode {
		return Pick{Path: l.path(n, what)}
	}
	var p Pick
	found := l.fields(n, what, pickTable(), func(e entry) {
		switch e.key {
		case "path":
			p.Path = l.path(e.val, what)
		case "match":
			p.Match = map[string]string{}
			for _, m := range l.entries(e.val, what, MaxKeys) {
				p.Match[l.path(m.at, what)] = l.plain(m.val, what)
			}
		}
	})
	l.wants(n, found, what, "path", "add path: .path.of.the.value")
	return p
}

func (l *loader) path(n *yaml.Node, what string) string {
	s := l.plain(n, what)
	if s != "" && !regexp.MustCompile(pathPattern).MatchString(s) {
		l.failNode(n, "write names behind dots, such as .message.content.0.text", "%s is no path: %q", what, shorten(s))
	}
	return s
}

// checkExec refuses an agent that only its command tells and that has none, and a
// description of a command for an agent that needs none.
func (l *loader) checkExec(p Profile) {
	if p.File != "" {
		return
	}
	info := l.o.Agents[p.Use]
	switch {
	case info.NeedsCommand && len(p.Command) == 0:
		l.fail(p.Pos, "add command: [program, argument]", "agent `%s` (use: %s) has no `command`", p.Name, p.Use)
	case p.Exec != nil && !info.Describes:
		l.fail(p.Pos, "remove it, or write use: exec", "agent `%s` (use: %s) takes no `exec`", p.Name, p.Use)
	}
}
