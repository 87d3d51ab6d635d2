package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"gopkg.in/yaml.v3"
)

// An Owner says whose a configuration is.
type Owner string

// The owners.
const (
	// UserConfig is the user's own: it may set where runs are kept, and what it forbids
	// stays forbidden.
	UserConfig Owner = "user"
	// ProjectConfig comes with a repository, and can do no more than a pipeline of it.
	ProjectConfig Owner = "project"
)

// A Config is a configuration that has been checked: what holds beneath pipelines that do
// not say otherwise. It is immutable.
type Config struct {
	file     string
	owner    Owner
	src      []byte
	lines    []int
	agents   map[string][]entry // the keys of each agent
	profiles map[string]Profile // what they come to
	fallback string             // agents.default
	shared   Plan               // what keys come to that pipelines have too
	timeout  Duration
	program  map[string]string // values of programTable, as they were written
	places   map[string]Pos    // by key, dotted
}

// LoadConfig reads the configuration in the file at path and checks it, for use before
// o.Configs, which are those that hold beneath it. The error is an Errors with all
// mistakes, or says why the file could not be read. A link is refused in a project: it
// could make messages show another file.
func LoadConfig(path string, owner Owner, o Options) (*Config, []Warning, error) {
	flags := os.O_RDONLY | syscall.O_NONBLOCK
	if owner == ProjectConfig {
		flags |= syscall.O_NOFOLLOW
	}
	f, err := os.OpenFile(path, flags, 0)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, nil, Errors{{File: path, Msg: "is a symbolic link", Hint: "the configuration of a project is a file of its own"}}
	case errors.Is(err, syscall.ENXIO): // a socket
		return nil, nil, Errors{{File: path, Msg: "is not a regular file", Hint: "the configuration is a YAML file"}}
	case err != nil:
		return nil, nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close()
	src, size, err := readAll(f, path, MaxFileBytes)
	if e, ok := errors.AsType[Error](err); ok {
		return nil, nil, Errors{e}
	}
	if err != nil {
		return nil, nil, err
	}
	if size > len(src) {
		return nil, nil, Errors{tooLarge("configuration", path, size, MaxFileBytes)}
	}
	return ParseConfig(path, src, owner, o)
}

// ParseConfig is LoadConfig with the text of the file given. name is the file's name in
// messages.
func ParseConfig(name string, src []byte, owner Owner, o Options) (*Config, []Warning, error) {
	l := newLoader(name, src, o)
	l.config = &Config{
		file: name, owner: owner, src: src, lines: l.lines, places: map[string]Pos{},
		agents: map[string][]entry{}, profiles: map[string]Profile{}, program: map[string]string{},
	}
	if root := l.document(); root != nil {
		notePlaces(root, "", l.config.places)
		l.configuration(root)
	}
	if errs := l.mistakes(); len(errs) > 0 {
		return nil, nil, errs
	}
	l.lintLiterals()
	return l.config, l.sortedWarnings(), nil
}

// notePlaces notes where each key of a mapping stands, and those of the mappings in it.
func notePlaces(n *yaml.Node, prefix string, places map[string]Pos) {
	n = deref(n)
	if n.Kind != yaml.MappingNode || strings.Count(prefix, ".") > 3 {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := prefix + deref(n.Content[i]).Value
		places[name] = place(n.Content[i])
		notePlaces(n.Content[i+1], name+".", places)
	}
}

// File is the name of the file, as messages have it.
func (c *Config) File() string { return c.file }

// Program returns the value of a key about flow itself (`state-dir`, `log-level`, `quiet`,
// `no-input`) as it is written, and its place as file:line:col; "" if it is not set.
func (c *Config) Program(key string) (value, origin string) {
	if value = c.program[key]; value != "" {
		origin = c.origin(key)
	}
	return value, origin
}

// origin is the place of a key as file:line:col, or of the nearest key around it.
func (c *Config) origin(key string) string {
	for ; ; key = key[:strings.LastIndexByte(key, '.')] {
		if pos, ok := c.places[key]; ok || !strings.Contains(key, ".") {
			return Error{File: c.file, Pos: pos}.where()
		}
	}
}

// configuration decodes the top level.
func (l *loader) configuration(root *yaml.Node) {
	for _, e := range l.entries(root, inConfig, MaxKeys) {
		switch {
		case !inTable(configTable(), e.key):
			l.unknownKey(e.at, inConfig, names(configTable()))
		case e.key == "agents":
			l.configAgents(e.val)
		case e.key == "timeout":
			l.config.timeout = l.duration(e.val, "`timeout`")
		case inTable(programTable(), e.key):
			l.programKey(e)
		default:
			l.pipelineKey(e)
		}
	}
	l.config.shared = *l.plan
	if p := l.config.shared.Permissions; p != nil {
		l.config.own(p)
	}
}

// own marks rules as those of the configuration.
func (c *Config) own(p *Permissions) {
	for i := range p.Rules {
		p.Rules[i].File = c.file
	}
	if c.owner == UserConfig {
		p.Least = p.Default
	}
}

// configAgents decodes `agents`: the default one, and settings by the name of an agent or a
// profile.
func (l *loader) configAgents(n *yaml.Node) {
	var first *yaml.Node
	for _, e := range l.entries(n, "`agents`", MaxKeys) {
		switch {
		case e.key == byDefault && e.val.Kind == yaml.MappingNode:
			l.failNode(e.val, "write agents: {default: claude, claude: {…}}", "`agents.default` names an agent, got a mapping")
		case e.key == byDefault:
			l.config.fallback, first = l.plain(e.val, "`agents.default`"), e.val
		case l.profileName(e.at):
			l.configAgent(e)
		}
	}
	if name := l.config.fallback; first != nil && name != "" {
		l.namesAgent(named{name, place(first)})
	}
	for _, f := range l.fallbacks {
		l.namesAgent(f.to)
	}
	l.plan.Agents = l.config.profiles
	l.fallbackCircles()
	l.plan.Agents = nil
}

// configAgent decodes one agent, to find its mistakes and to know what it comes to. Its
// keys are decoded again for each profile that they hold for.
func (l *loader) configAgent(e entry) {
	if l.builtin(e.key) && e.val.Kind == yaml.MappingNode && has(e.val, "use") {
		l.failNode(e.at, "remove `use`, or choose another name", "`%s` are the settings of every agent with `use: %s`", e.key, e.key)
		return
	}
	p := l.profile(e)
	for _, v := range p.Env {
		if !literal(v.Value.Src) {
			l.failText(v.Value, 0, "write the value itself; a pipeline can pass on inputs and secrets", "a configuration has no templates")
		}
	}
	if p.Permissions != nil {
		l.config.own(p.Permissions)
	}
	keys := l.entries(e.val, "agent `"+e.key+"`", MaxKeys)
	for _, k := range keys {
		if k.key == "command" && len(p.Command) > 0 && l.config.owner == UserConfig {
			l.ownCommand(k.val, p.Command[0])
		}
	}
	l.config.profiles[e.key], l.config.agents[e.key] = p, keys
}

// ownCommand refuses a command of the user's that every repository could put in place: a
// path is taken from the workspace.
func (l *loader) ownCommand(n *yaml.Node, command string) {
	if strings.Contains(command, "/") && !filepath.IsAbs(command) {
		l.failNode(n, "write a name that is found on PATH, or an absolute path", "`command` %q would be another program in every workspace", shorten(command))
	}
}

// namesAgent reports a name that is neither a built-in agent nor a profile of this
// configuration or one beneath it.
func (l *loader) namesAgent(a named) {
	choices := append(l.agentChoices(), slices.Collect(maps.Keys(l.config.agents))...)
	slices.Sort(choices)
	if choices = slices.Compact(choices); !slices.Contains(choices, a.name) {
		l.fail(a.pos, orList(suggest(a.name, choices), "the agents are ", choices), "unknown agent `%s`", a.name)
	}
}

// programKey decodes a key about flow itself.
func (l *loader) programKey(e entry) {
	what, value := "`"+e.key+"`", ""
	switch e.key {
	case "state-dir":
		if value = l.plain(e.val, what); value != "" && !filepath.IsAbs(value) {
			l.failNode(e.val, "write an absolute path", "%s is relative, got %q", what, shorten(value))
		}
	case "log-level":
		value = l.oneOf(e.val, what, LogLevels())
	default:
		value = fmt.Sprint(l.boolean(e.val, what))
	}
	if l.config.owner == ProjectConfig {
		l.failNode(e.at, "set it in your own: ~/.config/flow/config.yaml, or the file in FLOW_CONFIG", "%s is not for a project to say", what)
	}
	l.config.program[e.key] = value
}

// Configured is the plan of no steps that configurations make: every agent that they name
// is in it, with its settings.
func Configured(o Options) *Plan {
	l := newLoader("", nil, o)
	for _, c := range o.Configs {
		for _, name := range slices.Sorted(maps.Keys(c.agents)) {
			l.knownAgent(named{name: name})
		}
	}
	l.bindFallbacks()
	l.layRest()
	return l.plan
}

// DefaultAgent is the agent of steps that name none, as the configurations say, and the
// place that says so; "" if none does.
func (o Options) DefaultAgent() (name, origin string) {
	for _, c := range o.Configs {
		if c.fallback != "" {
			return c.fallback, c.origin("agents." + byDefault)
		}
	}
	return "", ""
}

// Timeout is that of agent steps which have none, as the configurations say, and the place
// that says so; 0 if none does.
func (o Options) Timeout() (d Duration, origin string) {
	for _, c := range o.Configs {
		if c.timeout > 0 {
			return c.timeout, c.origin("timeout")
		}
	}
	return 0, ""
}
