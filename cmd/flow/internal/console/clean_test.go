package console_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"flow/cmd/flow/internal/console"
)

func TestClean(t *testing.T) {
	for name, test := range map[string]struct{ in, want string }{
		"text":                      {"Grüße, 世界 \t👩‍💻\n", "Grüße, 世界 \t👩‍💻\n"},
		"colours":                   {"a \x1b[1;31mred\x1b[0m b", "a red b"},
		"colours of one character":  {"\u009b31mred\u009bm", "red"},
		"cursor and screen":         {"\x1b[2J\x1b[H\x1b[?25l\x1b[10;10Hx\x1bcy\x1b7z\x1b(B", "xyz"},
		"title, BEL":                {"\x1b]0;title\ax", "x"},
		"clipboard, ST":             {"\x1b]52;c;YQ==\x1b\\x", "x"},
		"clipboard, C1":             {"\u009d52;c;YQ==\u009cx", "x"},
		"link":                      {"\x1b]8;;https://x.invalid\x1b\\text\x1b]8;;\x1b\\", "text"},
		"device control":            {"\x1bP$q\"p\x1b\\a\x1b_app\x1b\\b\x1b^pm\x1b\\c\x1bXsos\x1b\\d", "abcd"},
		"a string that never ends":  {"\x1b]0;hidden\nshown", "]0;hidden\nshown"},
		"a string that ends later":  {"\x1b]0;hidden\nshown\ax", "]0;hidden\nshownx"},
		"a string without an end":   {"\x1b]0;" + strings.Repeat("x", 5000), "]0;" + strings.Repeat("x", 5000)},
		"a string in a string":      {"\x1b]8;;shown\x1b]0;t\ax", "]8;;shownx"},
		"numbers without an end":    {"\x1b[" + strings.Repeat("1", 100) + "m", "[" + strings.Repeat("1", 100) + "m"},
		"a sequence with a letter":  {"\x1b[31\x80mx", "[31\uFFFDmx"},
		"only the introducer":       {"x\x1b", "x"},
		"introducers":               {"\x1b\x1b\x1b[0mx", "x"},
		"control characters":        {"a\x00\a\b\v\f\r\x7f\u0085b", "ab"},
		"line ends":                 {"a\r\nb\r", "a\nb"},
		"lines of Unicode":          {"a\u2028b\u2029c", `a\u2028b\u2029c`},
		"order":                     {"a\u202eb\u2066c\u200f", `a\u202eb\u2066c\u200f`},
		"nothing to see":            {"a\u200bb\ufeffc\U000e0041d\ue000", `a\u200bb\ufeffc\U000e0041d\ue000`},
		"no UTF-8":                  {"a\x9b31mb\xff", "a\uFFFD31mb\uFFFD"},
		"command":                   {"::error::x\n  ::error::y\n\u00a0::z\na::b", ": :error::x\n  : :error::y\n\u00a0: :z\na::b"},
		"command after a colour":    {"\x1b[0m::error::x\n:\x1b[0m:error::", ": :error::x\n: :error::"},
		"command after a return":    {"a\r::error::x", "a::error::x"},
		"command in a line":         {"a ##[error]x ##vso[task]y ##teamcity[z]", "a ## [error]x ## vso[task]y ## teamcity[z]"},
		"command, capitals":         {"##VSO[x]##TeamCity[x]", "## VSO[x]## TeamCity[x]"},
		"command taken apart":       {"#\x1b[0m#\x1b[0m[error]#\u0085#\u0007[x]", "## [error]## [x]"},
		"command with more hashes":  {"###[error]", "### [error]"},
		"headings":                  {"# a\n## b\n### c\n##d\n", "# a\n## b\n### c\n##d\n"},
		"a namespace":               {"use std::io;", "use std::io;"},
		"section of a job":          {"section_start:1:a\r\x1b[0Khead", "section_start:1:ahead"},
		"what hides is a character": {"\u200b::error::", `\u200b::error::`},
	} {
		if got := console.Clean(test.in); got != test.want {
			t.Errorf("%s: %q is %q, want %q", name, test.in, got, test.want)
		}
	}
}

// TestJSON is that JSON keeps its values and has nothing that steers.
func TestJSON(t *testing.T) {
	value := "\x1b[31m\u009b31m\x7f\u202e\U000e0041\u2028 ##[error] ##vso[x] ##teamcity[x] ## a :: \n::error::\n\ufffd日本👩‍💻"
	var in bytes.Buffer
	enc := json.NewEncoder(&in)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(map[string]string{value: value}); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := console.As(&out, console.JSON).Write(in.Bytes()); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got[value] != value {
		t.Errorf("%v: %s", err, out.Bytes())
	}
	steers(t, out.String())
	if !strings.Contains(out.String(), "日本👩‍💻") || !strings.Contains(out.String(), "## a") {
		t.Errorf("more is escaped than must be: %s", &out)
	}
}

// steers fails if a text could steer a terminal, or command a build system.
func steers(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029') {
			t.Errorf("%U is left in %q", r, text)
		}
	}
	for line := range strings.Lines(text) {
		lower := strings.ToLower(line)
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") ||
			strings.Contains(lower, "##vso[") || strings.Contains(lower, "##teamcity[") {
			t.Errorf("%q is a command", line)
		}
	}
}

// FuzzClean is that however a text comes in pieces, nothing in it steers, what is left of it is
// the same, and what is clean stays as it is.
func FuzzClean(f *testing.F) {
	for _, seed := range []string{"\x1b[31mred", "\x1b]0;t\ax", "a\u009d0;\u009c", "::a\n\t::b", "##[x]", "#\x1b[m#\u202e[", "\xe2\x80", "\xc2\x9b", "\x1b\x1b]\x1b", "\x1bP\n::x"} {
		f.Add(seed, uint8(3))
	}
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		clean := console.Clean(text)
		steers(t, clean)
		if !utf8.ValidString(clean) {
			t.Errorf("%q is no UTF-8", clean)
		}
		if again := console.Clean(clean); again != clean {
			t.Errorf("%q is not clean: %q", clean, again)
		}
		var out bytes.Buffer
		w := console.As(&out, console.Text)
		for rest := []byte(text); len(rest) > 0; {
			n := min(int(size)+1, len(rest))
			if m, err := w.Write(rest[:n]); m != n || err != nil {
				t.Fatalf("wrote %d of %d bytes: %v", m, n, err)
			}
			rest = rest[n:]
		}
		if err := console.Flush(w); err != nil {
			t.Fatal(err)
		}
		if out.String() != clean {
			t.Errorf("%q in pieces of %d is %q, in one %q", text, size+1, out.String(), clean)
		}
	})
}
