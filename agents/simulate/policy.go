package simulate

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// parsePolicy reads the part of TOML that policy files need: [[rule]] tables whose
// values are strings, numbers, booleans, or lists of strings on one line.
func parsePolicy(text string) ([]geminiRule, error) {
	var out []geminiRule
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
			continue
		case line == "[[rule]]":
			out = append(out, geminiRule{})
			continue
		case len(out) == 0:
			return nil, fmt.Errorf("line %d: no [[rule]] begins before it", n)
		}
		if err := out[len(out)-1].set(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return out, nil
}

// set reads one `key = value` of a rule.
func (r *geminiRule) set(line string) error {
	key, value, ok := strings.Cut(line, "=")
	if !ok {
		return fmt.Errorf("%q is no key = value", line)
	}
	values, err := policyValues(strings.TrimSpace(value))
	if err != nil {
		return err
	}
	switch strings.TrimSpace(key) {
	case "toolName":
		r.tools = values
	case "commandPrefix":
		r.prefixes = values
	case "decision":
		r.decision = values[0]
	case "denyMessage":
		r.message = values[0]
	case "priority":
		r.priority, err = strconv.Atoi(values[0])
	}
	return err
}

// policyValues reads a value; it is JSON but for strings in single quotes.
func policyValues(s string) ([]string, error) {
	if strings.HasPrefix(s, "'") && strings.HasSuffix(s, "'") && len(s) > 1 {
		return []string{s[1 : len(s)-1]}, nil
	}
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		return nil, fmt.Errorf("the value %s cannot be read: %w", s, err)
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("an empty list")
	}
	out := make([]string, len(list))
	for i, x := range list {
		out[i] = fmt.Sprint(x)
	}
	return out, nil
}
