package simulate

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"flow/agents"
)

func TestSplitItems(t *testing.T) {
	tests := []struct {
		in   string
		want []string
	}{
		{"", nil},
		{" ; ,", nil},
		{"crash", []string{"crash"}},
		{"ids, crash@1;exit=3", []string{"ids", " crash@1", "exit=3"}},
		{`json={"a":1,"text":2};ids`, []string{`json={"a":1,"text":2}`, "ids"}},
		{"run=echo a; echo b, c;edit=x:y, z", []string{"run=echo a; echo b, c", "edit=x:y, z"}},
		{"text=a, b; c", []string{"text=a, b; c"}},
		{"text=one,\ntwo;", []string{"text=one,\ntwo"}},
		{"text=a;edti=b", []string{"text=a", "edti=b"}},
		{"text=the crash, at last", []string{"text=the crash, at last"}},
	}
	for _, tt := range tests {
		if got := splitItems(tt.in); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestParseScript(t *testing.T) {
	s, err := parseScript("edit=a.txt:hello: you;run=ls -l;fail=server@2:k;stall=3s@1;delay=5ms;badschema=2;orphan;tokens=5:6;big=7;ids")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.calls) != 2 || s.calls[0] != (call{path: "a.txt", text: "hello: you"}) || s.calls[1].command != "ls -l" {
		t.Errorf("calls %+v", s.calls)
	}
	if s.cause != agents.CauseServer || s.failing != (when{set: true, first: 2, key: "k"}) || s.wrong != (when{set: true, first: 2}) {
		t.Errorf("failing %+v of %s, wrong %+v", s.failing, s.cause, s.wrong)
	}
	if s.stall != 3*time.Second || s.stalling.first != 1 || s.delay != 5*time.Millisecond || s.orphan != time.Minute {
		t.Errorf("durations %v %v %v", s.stall, s.delay, s.orphan)
	}
	if s.tokens.TotalTokens != 11 || s.big != 7 || !s.ids {
		t.Errorf("tokens %+v, big %d, ids %v", s.tokens, s.big, s.ids)
	}
}

func TestParseScriptMistakes(t *testing.T) {
	for in, want := range map[string]string{
		"zork":          "no such item",
		"edit=:text":    "the path is missing",
		"run= ":         "the command is missing",
		"edti=b":        "no such item",
		"exit=x":        "invalid syntax",
		"stall=soon":    "invalid duration",
		"json={":        "no JSON",
		"fail=server@0": "no number of turns",
		"fail=server@x": "no number of turns",
		"badschema=x":   "no number of turns",
		"tokens=5":      "write tokens=IN:OUT",
	} {
		if _, err := parseScript(in); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), EnvScript) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

// What Help describes is what parseScript reads.
func TestHelpNamesEveryItem(t *testing.T) {
	values := map[string]string{
		"edit": "a", "run": "a", "json": "1", "big": "1", "tokens": "1:1", "exit": "1", "stall": "1s", "delay": "1s", "fail": "auth",
		"stderr": "1K", "events": "1", "status": "1",
	}
	described := regexp.MustCompile(`(?m)^  ([a-z0-9-]+)`).FindAllStringSubmatch(Help, -1)
	if len(described) != 37 {
		t.Errorf("%d items are described", len(described))
	}
	for _, m := range described {
		if _, err := parseScript(m[1] + "=" + values[m[1]]); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
		if !strings.Contains(itemStart, m[1]) && m[1] != "text" {
			t.Errorf("%s does not begin an item", m[1])
		}
	}
}

func FuzzParseScript(f *testing.F) {
	f.Add("edit=a.txt:hello;run=ls;fail=server@2:k,crash")
	f.Add(`json={"a":1,"b":2};ids`)
	f.Fuzz(func(t *testing.T, s string) {
		items := splitItems(s)
		if n := len(strings.Join(items, "")); n > len(s) {
			t.Errorf("%d bytes of items from %d", n, len(s))
		}
		if _, err := parseScript(s); err != nil && !strings.Contains(err.Error(), EnvScript) {
			t.Errorf("an error that does not say where: %v", err)
		}
	})
}

func TestChunks(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("word ", 100), strings.Repeat("é", 99)} {
		pieces := chunks(text)
		if strings.Join(pieces, "") != text || len(pieces) > 5 {
			t.Errorf("%d pieces of %.20q", len(pieces), text)
		}
		for _, p := range pieces {
			if strings.ToValidUTF8(p, "") != p {
				t.Errorf("a character is cut: %q", p)
			}
		}
	}
}
