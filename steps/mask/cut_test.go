package mask

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRarerForms: what dumps, PowerShell, colours and JSON that was encoded make of a secret.
func TestRarerForms(t *testing.T) {
	m := masker(t, secretText)
	hexed := hex.EncodeToString([]byte(secretText))
	document, _ := json.Marshal(map[string]string{"key": secretText})
	wide := strings.Join(strings.Split(secretText, ""), "\x00")
	for name, text := range map[string]string{
		"hex with spaces":          separated(hexed, " "),
		"HEX with colons":          strings.ToUpper(separated(hexed, ":")),
		"od":                       " " + strings.ReplaceAll(separated(hexed, " "), "2d ", "2d\n "),
		"UTF-16, little end first": wide + "\x00",
		"UTF-16, big end first":    "\x00" + wide,
		"colour":                   secretText[:5] + "\x1b[01;31m\x1b[K" + secretText[5:9] + "\x1b[m\x1b[K" + secretText[9:],
		"percents here and there":  strings.NewReplacer("s", "%73", "/", "%2F").Replace(secretText),
		"JSON in base64":           base64.StdEncoding.EncodeToString(document),
	} {
		masked := m.Text("a " + text + " b")
		if !strings.Contains(masked, Mask) || len(masked) > 40 {
			t.Errorf("%s: %q", name, masked)
		}
		if got := blotted(t, m, text); !strings.Contains(got, strings.Repeat("*", 20)) {
			t.Errorf("%s: in a file it is %q", name, got)
		}
	}
}

// TestCut: of a secret that was cut off nothing is left that tells of it.
func TestCut(t *testing.T) {
	m := masker(t, "hunter2secret")
	for in, want := range map[string]string{
		"cut: hunter2se… and on": "cut: ***… and on",
		"hunter2se":              "hunter2se",
		"hunt… [cut: 9 bytes]":   "hunt… [cut: 9 bytes]", // too little to tell
		"…er2secret, then":       "…***, then",
		"a …er2secret":           "a …er2secret", // no cut is in the middle of a text
		"aHVudGVyMnNl…":          "***…",
	} {
		if d := cmp.Diff(want, m.Text(in)); d != "" {
			t.Errorf("%q: %s", in, d)
		}
	}
	if got := m.Part("secret and hunter2 and hunter2secret or hunter2"); got != "*** and hunter2 and *** or ***" {
		t.Error(got)
	}
	if got := string(m.JSON(json.RawMessage(`{"a":"hunter2se…"}`))); got != `{"a":"***…"}` {
		t.Error(got)
	}
}

// TestLinesOneAtATime: a secret that goes over lines is masked in each, but for its first few bytes.
func TestLinesOneAtATime(t *testing.T) {
	m := masker(t, "hunter2secret", pem)
	for _, c := range []struct{ in, want []string }{
		{[]string{"a hunter2secret b", "c"}, []string{"a *** b", "c"}},
		{[]string{"aHVudGVyMnNl", "Y3JldA=="}, []string{Mask, Mask + "A=="}},
		{[]string{"aHVu", "dGVyMnNlY3JldA==", "x"}, []string{"aHVu", Mask + "A==", "x"}},
		{[]string{"hunter", "gathers"}, []string{Mask, "gathers"}},
		{[]string{"hunt", "ed"}, []string{"hunt", "ed"}},
	} {
		l := m.Lines()
		var got []string
		for _, line := range c.in {
			got = append(got, l.Next(line))
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%q: %s", c.in, d)
		}
	}
	if (*Masker)(nil).Lines() != nil || (*Masker)(nil).Part("x") != "x" {
		t.Error("a nil masker changes something")
	}
}

// TestRecord: what a record is found by stays, whatever value a secret has.
func TestRecord(t *testing.T) {
	m := masker(t, "deploy", "result")
	own := func(keys []string, key bool) bool {
		return (key || keys[len(keys)-1] == "path") && !slices.Contains(keys[:len(keys)-1], "data")
	}
	in := `{"path":"deploy","result":{"text":"deploy it","list":["result"],"data":{"path":"deploy","result":1}}}`
	want := `{"path":"deploy","result":{"text":"*** it","list":["***"],"data":{"path":"***","***":1}}}`
	if d := cmp.Diff(want, string(m.Record(json.RawMessage(in), own))); d != "" {
		t.Error(d)
	}
}
