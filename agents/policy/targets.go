package policy

import (
	"cmp"
	"encoding/json"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"flow/agents"
)

// files judges a call on files: every one of them.
func (p *Policy) files(c Call) Decision {
	var d Decision
	for i, path := range Files(c) {
		one := p.path(string(c.Tool), path)
		if i == 0 {
			d = one
			continue
		}
		d = heavier(d, one)
	}
	return d
}

// Files are the files that a call on files is about: those that its arguments name, else
// its target. Of a search it is the directory that is looked through.
func Files(c Call) []string {
	if searches(c.Tool) {
		return []string{searched(c)}
	}
	args := object(c.Arguments)
	var all []string
	for _, key := range []string{"file_path", "notebook_path", "path"} {
		all = append(all, args.text(key))
	}
	for _, change := range args.list("changes") {
		all = append(all, object(change).text("path"))
	}
	for _, item := range args.list("include") {
		all = append(all, text(item))
	}
	all = slices.DeleteFunc(all, func(path string) bool { return path == "" })
	if len(all) == 0 {
		return []string{c.Target}
	}
	return all
}

// fields are those of a JSON object. They have exactly the names that they have for the
// agent: a struct would take PATH for path as well.
type fields map[string]json.RawMessage

// object returns the fields of a JSON object, none of other JSON.
func object(raw json.RawMessage) (f fields) {
	_ = json.Unmarshal(raw, &f)
	return f
}

func (f fields) text(key string) string { return text(f[key]) }

func (f fields) list(key string) (items []json.RawMessage) {
	_ = json.Unmarshal(f[key], &items)
	return items
}

// text is a JSON text, "" of other JSON.
func text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}

// path judges what a tool does to one file.
func (p *Policy) path(tool, path string) Decision {
	if path == "" {
		return p.unknown(tool, path, "a file that the call does not name")
	}
	d := p.decide(tool, path, func(r rule) bool { return r.match == nil || p.reaches(r, path) })
	return p.guarded(d, tool, path)
}

// reaches reports whether the pattern of a rule matches a path.
func (p *Policy) reaches(r rule, path string) bool {
	name, inside := p.resolve(path)
	anywhere := r.effect != Allow && strings.HasPrefix(r.Pattern, "**/") // what is forbidden in any directory
	switch {
	case inside && r.match(name):
		return true
	case inside:
		return r.match(p.absolute(name))
	}
	return r.match(name) || anywhere && r.match(strings.TrimLeft(name, "~/"))
}

// unknown is the decision on a file whose name is not known. It is asked wherever a rule
// forbids some file.
func (p *Policy) unknown(tool, name, why string) Decision {
	d := p.decide(tool, name, func(r rule) bool { return r.match == nil })
	d.Why = tool + " " + name + ", " + why
	if d.Effect.weight() < Ask.weight() && p.restricts(tool) {
		d.Effect, d.Rule = Ask, nil
	}
	return p.guarded(d, tool, strings.Trim(name, `"'`))
}

// search judges a call that looks through files: where it does.
func (p *Policy) search(c Call) Decision { return p.path(string(c.Tool), searched(c)) }

// searched is the directory that a call looks through.
func searched(c Call) string {
	args := object(c.Arguments)
	where := cmp.Or(args.text("path"), args.text("dir_path"), ".")
	switch {
	case c.Tool != agents.ToolFindFiles:
	case filepath.IsAbs(c.Target):
		where = c.Target
	case strings.Contains(c.Target, "..") && strings.Contains(c.Target, "{"): // perhaps {..,x}/y
		where = "/"
	case strings.Contains(c.Target, ".."):
		where = filepath.Join(where, c.Target)
	}
	return where
}

func searches(tool agents.Tool) bool {
	return tool == agents.ToolSearchContent || tool == agents.ToolFindFiles
}

// resolve makes a path relative to the agent's directory when it is inside of it, and
// absolute otherwise. It does not look at the disk.
func (p *Policy) resolve(path string) (name string, inside bool) {
	switch {
	case strings.HasPrefix(path, "~"):
		return filepath.Clean(path), false
	case !filepath.IsAbs(path):
		path = filepath.Join(p.dir, path)
	}
	rel, err := filepath.Rel(p.dir, path)
	if err != nil || !filepath.IsLocal(rel) {
		return filepath.Clean(path), false
	}
	return rel, true
}

func (p *Policy) absolute(name string) string { return filepath.Join(p.dir, name) }

// fetch judges a call that reads from the web: every address in it.
func (p *Policy) fetch(c Call) Decision {
	text := c.Target
	addresses := address.FindAllString(text, -1)
	if len(addresses) == 0 {
		addresses = []string{text}
	}
	var d Decision
	for i, a := range addresses {
		host := hostOf(a)
		one := p.decide(string(c.Tool), a, func(r rule) bool { return r.match == nil || r.match(host) })
		if i == 0 || one.Effect.weight() > d.Effect.weight() {
			d = one
		}
	}
	return d
}

// address matches what a text may hold of addresses: Gemini's tool takes a whole prompt.
var address = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s"'<>` + "`" + `]+`)

// hostOf is the host of an address as it is looked up, "" where there is none.
func hostOf(a string) string {
	u, err := url.Parse(a)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}

// mcp judges a call of an MCP server's tool. Agents name it mcp__SERVER__TOOL or
// mcp_SERVER_TOOL, the second of which does not say where the server's name ends.
func (p *Policy) mcp(c Call) Decision {
	return p.decide(string(c.Tool), c.Native, func(r rule) bool { return r.match == nil || r.match(c.Native) })
}

// matcher returns how the pattern of a rule is compared, nil when it has none. A shell's
// pattern is compared with simple commands, a file's with a path, that of the web with a
// host, that of MCP with a native name.
func matcher(r agents.Rule) func(string) bool {
	if r.Pattern == "" {
		return nil
	}
	switch agents.Tool(r.Tool) {
	case agents.ToolShell:
		return commandPattern(r.Pattern)
	case agents.ToolWebFetch:
		return hostPattern(r)
	case agents.ToolMCP:
		return serverPattern(r.Pattern)
	case agents.ToolReadFile, agents.ToolWriteFile, agents.ToolEditFile, agents.ToolSearchContent, agents.ToolFindFiles:
		return pathPattern(r.Pattern)
	default:
		return wildcards(r.Pattern, `.*`)
	}
}

// wildcards compiles a text in which * stands for what star matches.
func wildcards(pattern, star string) func(string) bool {
	parts := strings.Split(pattern, "*")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile(`(?s)\A` + strings.Join(parts, star) + `\z`).MatchString
}

// commandPattern compiles the pattern of a command. A star at the end, as a word of its
// own, also stands for no arguments at all.
func commandPattern(pattern string) func(string) bool {
	whole := wildcards(pattern, `.*`)
	bare, ok := strings.CutSuffix(pattern, " *")
	if !ok {
		return whole
	}
	alone := wildcards(bare, `.*`)
	return func(text string) bool { return whole(text) || alone(text) }
}

// pathPattern compiles a glob: * and ? stay within a directory, ** does not, and a
// slash at the end means everything inside.
func pathPattern(pattern string) func(string) bool {
	pattern = strings.TrimPrefix(pattern, "./")
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(pattern); i++ {
		switch {
		case i == 0 && strings.HasPrefix(pattern, "**/"): // inside, that is
			b.WriteString(`(?:[^/~].*/)?`)
			i += 2
		case strings.HasPrefix(pattern[i:], "**/"):
			b.WriteString(`(?:.*/)?`)
			i += 2
		case strings.HasPrefix(pattern[i:], "/**") && i+3 == len(pattern):
			b.WriteString(`(?:/.*)?`)
			i += 2
		case i == 0 && pattern == "**":
			b.WriteString(`[^/~].*`)
			i++
		case strings.HasPrefix(pattern[i:], "**"):
			b.WriteString(`.*`)
			i++
		case pattern[i] == '*':
			b.WriteString(`[^/]*`)
		case pattern[i] == '?':
			b.WriteString(`[^/]`)
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	return regexp.MustCompile(b.String() + `\z`).MatchString
}

// hostPattern compiles domain:HOST and domain:*.HOST. What forbids a host forbids those
// below it.
func hostPattern(r agents.Rule) func(string) bool {
	host := strings.ToLower(strings.TrimPrefix(r.Pattern, "domain:"))
	below, all := strings.CutPrefix(host, "*.")
	return func(name string) bool {
		if !all && name == host {
			return true
		}
		return (all || Effect(r.Effect) != Allow) && strings.HasSuffix(name, "."+below)
	}
}

// serverPattern compiles SERVER and SERVER/TOOL.
func serverPattern(pattern string) func(string) bool {
	server, tool, named := strings.Cut(pattern, "/")
	if !named {
		tool = "*"
	}
	double := wildcards("mcp__"+server+"__"+tool, `.*`)
	single := wildcards("mcp_"+server+"_"+tool, `.*`)
	return func(name string) bool {
		if strings.HasPrefix(name, "mcp__") {
			return double(name)
		}
		return single(name)
	}
}
