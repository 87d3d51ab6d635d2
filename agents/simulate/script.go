package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"flow/agents"
)

// A script is FLOW_SIMULATE, understood.
type script struct {
	text   string
	json   json.RawMessage
	ids    bool
	big    int64
	tokens *agents.Usage
	delay  time.Duration

	calls []call // edits and commands, in order

	cause                                              agents.Cause
	status                                             int
	stall, orphan                                      time.Duration
	failing, crashing, exiting, silent, rubbish, wrong when
	stalling, orphaning, refusing                      when

	signal syscall.Signal   // of the crash
	faults map[string]fault // by name

	asking, questioning, inventing, repeating, zero when // see oddities
	dying, withdrawing, belated                     when
}

// when says in which turns an item holds.
type when struct {
	set   bool
	first int    // the first turns only; 0 is all
	key   string // count processes under this name instead of turns
}

// itemStart matches the beginning of an item. Names that take a value are matched
// whether known or not, so that a misspelt one is reported and not swallowed by the
// value before it.
const itemStart = `^\s*(?:[a-z]+=|(?:text|json|badschema|ids|big|tokens|edit|run|fail|crash|exit|silent|rubbish|stall|delay|orphan|stderr|flood|events|bom|nul|invalid-utf8|no-init|late-init|repeat-result|cut|status|deaf|holder|daemon|no|asks|question|unknown-request|duplicate-id|id0|die-asking|withdraw|late-update)(?:@[0-9]|\s*(?:[;,]|$)))`

// parseScript reads the items of FLOW_SIMULATE.
func parseScript(s string) (script, error) {
	var out script
	for _, item := range splitItems(s) {
		if err := out.add(item); err != nil {
			return script{}, fmt.Errorf("flow simulate: %s: %q: %w", EnvScript, item, err)
		}
	}
	return out, nil
}

// splitItems cuts s at the separators that an item follows.
func splitItems(s string) []string {
	start := regexp.MustCompile(itemStart)
	var items []string
	from := 0
	for i := range len(s) {
		if (s[i] == ';' || s[i] == ',') && (start.MatchString(s[i+1:]) || strings.TrimSpace(s[i+1:]) == "") {
			items = append(items, s[from:i])
			from = i + 1
		}
	}
	items = append(items, s[from:])
	return slices.DeleteFunc(items, func(item string) bool { return strings.Trim(item, " \t\n;,") == "" })
}

func (s *script) add(item string) error {
	name, value, _ := strings.Cut(strings.TrimLeft(item, " \t\n"), "=")
	switch name {
	case "text":
		s.text = value
		return nil
	case "json":
		s.json = json.RawMessage(value)
		if !json.Valid(s.json) {
			return errors.New("the value is no JSON")
		}
		return nil
	case "edit":
		path, text, _ := strings.Cut(value, ":")
		if strings.TrimSpace(path) == "" {
			return errors.New("the path is missing: write edit=PATH or edit=PATH:TEXT")
		}
		s.calls = append(s.calls, call{path: path, text: text})
		return nil
	case "run":
		if strings.TrimSpace(value) == "" {
			return errors.New("the command is missing: write run=COMMAND")
		}
		s.calls = append(s.calls, call{command: value})
		return nil
	}
	return s.addLimited(strings.Trim(item, " \t\n;,"))
}

// addLimited adds an item whose value is a word, and which may hold for some
// turns only.
func (s *script) addLimited(item string) (err error) {
	head, limit, limited := strings.Cut(item, "@")
	name, value, _ := strings.Cut(head, "=")
	at := when{set: true}
	if limited {
		if at, err = parseWhen(limit); err != nil {
			return err
		}
	}
	switch name {
	case "ids":
		s.ids = true
	case "big":
		s.big, err = parseSize(value)
	case "tokens":
		s.tokens, err = parseTokens(value)
	case "delay":
		s.delay, err = time.ParseDuration(value)
	default:
		return s.addMishap(name, value, at)
	}
	return err
}

// addMishap adds an item that makes something go wrong.
func (s *script) addMishap(name, value string, at when) (err error) {
	switch name {
	case "fail":
		s.failing, s.cause = at, agents.Cause(value)
	case "crash":
		s.crashing = at
		s.signal, err = parseSignal(value)
	case "exit":
		s.exiting = at
		s.status, err = strconv.Atoi(value)
	case "silent":
		s.silent = at
	case "rubbish":
		s.rubbish = at
	case "no":
		s.refusing = at
	case "badschema":
		s.wrong = at
		if value != "" {
			s.wrong, err = parseWhen(value)
		}
	case "stall":
		s.stalling = at
		s.stall, err = time.ParseDuration(value)
	case "orphan":
		s.orphaning, s.orphan = at, time.Minute
		if value != "" {
			s.orphan, err = time.ParseDuration(value)
		}
	default:
		if known, err := s.addFault(name, value, at); known {
			return err
		}
		return s.addOddity(name, at)
	}
	return err
}

// addOddity adds an item that tries the client of a two-way agent.
func (s *script) addOddity(name string, at when) error {
	switch name {
	case "asks":
		s.asking = at
	case "question":
		s.questioning = at
	case "unknown-request":
		s.inventing = at
	case "duplicate-id":
		s.repeating = at
	case "id0":
		s.zero = at
	case "die-asking":
		s.dying = at
	case "withdraw":
		s.withdrawing = at
	case "late-update":
		s.belated = at
	default:
		return fmt.Errorf("no such item; the items are:\n%s", Help)
	}
	return nil
}

// parseWhen reads N or N:KEY.
func parseWhen(s string) (when, error) {
	number, key, _ := strings.Cut(s, ":")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		return when{}, fmt.Errorf("%q is no number of turns: write @N or @N:KEY", s)
	}
	return when{set: true, first: n, key: key}, nil
}

func parseTokens(s string) (*agents.Usage, error) {
	in, out, _ := strings.Cut(s, ":")
	input, err1 := strconv.ParseInt(in, 10, 64)
	output, err2 := strconv.ParseInt(out, 10, 64)
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("%q are no tokens: write tokens=IN:OUT", s)
	}
	return &agents.Usage{InputTokens: input, OutputTokens: output, TotalTokens: input + output}, nil
}
