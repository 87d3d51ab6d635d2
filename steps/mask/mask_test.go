package mask

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
)

const secretText = `s3cr3t-T0ken/with+all:"it's" <&>`

// spellings are what programs make of a text, by what they are called.
func spellings(s string) map[string]string {
	jsonGo, _ := json.Marshal(s)
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s)
	inner := func(b []byte) string { b = bytes.TrimSpace(b); return string(b[1 : len(b)-1]) }
	twice, _ := json.Marshal(inner(jsonGo))
	thrice, _ := json.Marshal(inner(twice))
	all := map[string]string{
		"raw": s, "JSON of Go": inner(jsonGo), "JSON of JavaScript": strings.ReplaceAll(inner(plain.Bytes()), "/", `\/`),
		"JSON twice": inner(twice), "JSON three times": inner(thrice), "URL query": url.QueryEscape(s), "URL path": url.PathEscape(s),
		"URL lower case": lowerPercent(url.PathEscape(s)), "URL twice": url.PathEscape(url.PathEscape(s)),
		"hex": hex.EncodeToString([]byte(s)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(s))),
		"shell quotes": strings.ReplaceAll(s, `'`, `'"'"'`), "shell backslash": strings.ReplaceAll(s, `'`, `'\''`),
		"HTML": html.EscapeString(s), "HTML twice": html.EscapeString(html.EscapeString(s)),
		"Go": inner([]byte(strconv.QuoteToASCII(s))),
	}
	var units, percents, octal, numeric, hexes strings.Builder
	for _, b := range []byte(s) {
		fmt.Fprintf(&percents, "%%%02x", b)
		fmt.Fprintf(&octal, `\%03o`, b)
		fmt.Fprintf(&hexes, `\x%02x`, b)
	}
	for _, r := range s {
		fmt.Fprintf(&numeric, "&#%d;", r)
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&units, `\u%04x`, unit)
		}
	}
	all["percent all"], all["JSON units"], all["HTML numeric"], all["$'x'"] = percents.String(), units.String(), numeric.String(), hexes.String()
	if !strings.ContainsFunc(s, func(r rune) bool { return r > 127 }) {
		all["$'octal'"] = octal.String()
	}
	for shift := range 3 {
		for name, e := range map[string]*base64.Encoding{"std": base64.StdEncoding, "url": base64.RawURLEncoding} {
			text := e.EncodeToString([]byte(strings.Repeat("x", shift) + s + "yy"))
			all[fmt.Sprintf("base64 %s %d", name, shift)] = text
			all[fmt.Sprintf("base64 %s %d in lines", name, shift)] = wrapped(text, 11)
		}
	}
	return all
}

func lowerPercent(s string) string {
	out := []byte(s)
	for i := range out {
		if i > 1 && (out[i-1] == '%' || out[i-2] == '%') {
			out[i] = bytes.ToLower(out[i : i+1])[0]
		}
	}
	return string(out)
}

func wrapped(s string, width int) string {
	var b strings.Builder
	for i := 0; i < len(s); i += width {
		b.WriteString(s[i:min(len(s), i+width)] + "\n")
	}
	return b.String()
}

func masker(t testing.TB, values ...string) *Masker {
	t.Helper()
	secrets := map[string]string{}
	for i, v := range values {
		secrets[fmt.Sprintf("S%d", i)] = v
	}
	m, _ := New(secrets)
	return m
}

func TestText(t *testing.T) {
	m := masker(t, secretText)
	for name, text := range spellings(secretText) {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "base64") { // its ends depend on the neighbours
				if out := m.Text(text); len(out) > 14 || !strings.Contains(out, Mask) {
					t.Errorf("%q is %q", text, out)
				}
				return
			}
			if d := cmp.Diff("before *** after", m.Text("before "+text+" after")); d != "" {
				t.Errorf("%q: %s", text, d)
			}
		})
	}
}

func TestTextLeavesTheRest(t *testing.T) {
	m := masker(t, secretText, "hunter2", "nabcdefg")
	for in, want := range map[string]string{
		"":                    "",
		"nothing here":        "nothing here",
		`C:\new\table 100% &`: `C:\new\table 100% &`,
		"hunter2hunter2":      "******",
		"hunter":              "hunter",
		`\nabcdefg`:           `\***`, // a backslash before it is not part of it
		`\\nabcdefg.`:         `\\***.`,
		"%&\\":                "%&\\",
		"hunter\\u0032":       "***",
		"hunter\\u003":        "hunter\\u003",
	} {
		if d := cmp.Diff(want, m.Text(in)); d != "" {
			t.Errorf("%q: %s", in, d)
		}
	}
}

func TestOverlaps(t *testing.T) {
	m := masker(t, "abcdefgh", "efghijkl", "abcdef")
	for in, want := range map[string]string{"abcdefghijkl": Mask, "xabcdefx": "x***x", "abcdefabcdefgh": Mask + Mask, "cdefghij": "cdefghij"} {
		if got := m.Text(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

const pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nc2Vjb25kbGluZW9mdGhla2V5bWF0ZXJp\n==\n-----END PRIVATE KEY-----\n"

func TestLines(t *testing.T) {
	m := masker(t, pem, `{"type": "service", "private_key": "-----BEGIN X-----\nlineOneOfTheKeyOfTheService\n-----END X-----\n"}`)
	for in, want := range map[string]string{
		"a c2Vjb25kbGluZW9mdGhla2V5bWF0ZXJp b": "a *** b",
		"-----BEGIN PRIVATE KEY-----":          "-----BEGIN PRIVATE KEY-----",
		"==":                                   "==",
		"lineOneOfTheKeyOfTheService":          Mask,
		strings.TrimSpace(pem):                 Mask,
		strings.ReplaceAll(pem, "\n", `\n`):    Mask + `\n`,
	} {
		if d := cmp.Diff(want, m.Text(in)); d != "" {
			t.Errorf("%q: %s", in, d)
		}
	}
}

func TestWarnings(t *testing.T) {
	m, warnings := New(map[string]string{
		"PIN": "1234", "LONG": strings.Repeat("0123456789abcdef", 1000), "OK": "123456a", "NUMBER": "123456",
		"WORD": "Production", "TOKEN": "tOkenOfLetters", "PHRASE": "correct horse", "LETTERS": "abcdefghijklmnop",
	})
	want := map[string]string{
		"LONG": "is longer than 8 KiB: its beginning and its lines are masked", "PIN": "has 4 characters: values under 6 are not masked",
		"NUMBER": "is a word or a number that texts may have for other reasons: *** stands in place of those too",
		"WORD":   "is a word or a number that texts may have for other reasons: *** stands in place of those too",
	}
	got := map[string]string{}
	for _, w := range warnings {
		if got[w.Name] = w.Msg; w.Hint == "" {
			t.Errorf("%s has no hint", w)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := m.Text("1234 123456"); got != "1234 ***" {
		t.Error(got)
	}
	if m, _ := New(map[string]string{"PIN": "1234"}); !m.Empty() {
		t.Error("there is nothing to mask")
	}
}

func TestAdd(t *testing.T) {
	m, _ := New(nil)
	if got := m.Text("derived-1 derived-2"); got != "derived-1 derived-2" {
		t.Error(got)
	}
	m.Add("D", "derived-1")
	m.Add("D", "derived-2")
	m.Add("D", "short")
	if got := m.Text("derived-1 derived-2 short"); got != "*** *** short" {
		t.Error(got)
	}
	if d := cmp.Diff([]string{"D"}, m.Names([]byte("derived-1 derived-2"))); d != "" {
		t.Error(d)
	}
}

func TestNilMasksNothing(t *testing.T) {
	var m *Masker
	if m.Text("x") != "x" || string(m.JSON([]byte(`"x"`))) != `"x"` || !m.Empty() || m.Stream() != nil || m.Names(nil) != nil {
		t.Error("a nil masker changes something")
	}
}

func TestJSON(t *testing.T) {
	m := masker(t, secretText, "12345678", `x","y":"z`)
	q := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	for in, want := range map[string]string{
		`{"a":` + q(secretText) + `}`:                               `{"a":"***"}`,
		`{` + q("k"+secretText) + `:[1,` + q(secretText+"!") + `]}`: `{"k***":[1,"***!"]}`,
		`{"a":` + q(`{"b":`+q(secretText)+`}`) + `}`:                `{"a":"{\"b\":\"***\"}"}`,
		`{"n":12345678,"s":"12345678"}`:                             `{"n":12345678,"s":"***"}`,
		`{"a":"x","y":"z"}`:                                         `{"a":"x","y":"z"}`, // structure is no secret
		`{"a":"` + `\u0073` + q(secretText)[2:] + `}`:               `{"a":"***"}`,
		"no JSON " + secretText:                                     "no JSON ***",
	} {
		if d := cmp.Diff(want, string(m.JSON(json.RawMessage(in)))); d != "" {
			t.Errorf("%s: %s", in, d)
		}
	}
	if got := m.Content("{ " + secretText + " }"); got != "{ *** }" {
		t.Errorf("a text with braces is %s", got)
	}
}

// TestStream cuts a text at every place, and in single bytes.
func TestStream(t *testing.T) {
	m := masker(t, secretText, "hunter2")
	for name, secret := range spellings(secretText) {
		text := "a hunter" + secret + "é hunter2 %"
		want := m.Text(text)
		for cut := range len(text) + 1 {
			s := m.Stream()
			if got := s.Feed(text[:cut]) + s.Feed(text[cut:]) + s.Flush(); got != want {
				t.Fatalf("%s, cut at %d: %q, want %q", name, cut, got, want)
			}
		}
		s, got := m.Stream(), ""
		for i := range len(text) {
			got += s.Feed(text[i : i+1])
		}
		if got += s.Flush(); got != want {
			t.Fatalf("%s, byte by byte: %q, want %q", name, got, want)
		}
	}
}

func TestStreamHoldsBackWhatMayBegin(t *testing.T) {
	s := masker(t, "hunter2").Stream()
	for _, step := range []struct{ in, out string }{{"see hun", "see "}, {"gry hunt", "hungry "}, {"er2", ""}, {" and on", "*** and on"}} {
		if out := s.Feed(step.in); out != step.out {
			t.Errorf("%q gives %q, want %q", step.in, out, step.out)
		}
	}
}

func TestWriter(t *testing.T) {
	var b bytes.Buffer
	m := masker(t, "hunter2")
	w := m.Writer(&b)
	for _, part := range []string{"a hun", "ter2 b hunt\n", "hunter", "2"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	m.Add("later", "correct horse")
	for _, part := range []string{"correct", " horse\n"} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff("a *** b hunt\n******\n", b.String()); d != "" {
		t.Error(d)
	}
}

// blotted is the text of a file as it is once it was masked.
func blotted(t testing.TB, m *Masker, text string) string {
	t.Helper()
	spans, err := m.Find(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	out := []byte(text)
	Blot(out, 0, spans)
	return string(out)
}

func TestFind(t *testing.T) {
	m := masker(t, "hunter2secret")
	for name, c := range map[string]struct{ in, want string }{
		"text":              {"a hunter2secret b\n", "a ************* b\n"},
		"over lines":        {"aHVudGVyMnNl\nY3JldA==\n", "************\n*****A==\n"},
		"an escape":         {`{"a":"hunter\u0032secret"}` + "\n", `{"a":"******************"}` + "\n"},
		"deltas":            {"{\"type\":\"d\",\"text\":\"a hun\"}\n{\"type\":\"d\",\"text\":\"ter2secret b\"}\n", "{\"type\":\"d\",\"text\":\"a ***\"}\n{\"type\":\"d\",\"text\":\"********** b\"}\n"},
		"another between":   {"{\"d\":\"hunter2\"}\n{\"e\":\"x\"}\nlog\n{\"d\":\"secret\"}\n", "{\"d\":\"*******\"}\n{\"e\":\"x\"}\nlog\n{\"d\":\"******\"}\n"},
		"other kinds":       {"{\"type\":\"a\",\"d\":\"hunter2\"}\n{\"type\":\"b\",\"d\":\"secret\"}\n", "{\"type\":\"a\",\"d\":\"hunter2\"}\n{\"type\":\"b\",\"d\":\"secret\"}\n"},
		"a key":             {`{"hunter2secret":1}`, `{"*************":1}`},
		"no JSON after all": {`{ hunter2secret`, `{ *************`},
	} {
		t.Run(name, func(t *testing.T) {
			got := blotted(t, m, c.in)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if again := blotted(t, m, got); again != got {
				t.Errorf("a second time it is %q", again)
			}
		})
	}
}

func TestFindInLongLines(t *testing.T) {
	m := masker(t, "hunter2secret")
	long := strings.Repeat("x", 200<<10)
	for _, line := range []string{`{"a":"` + long + `hunter2secret"}`, long + "hunter2secret"} {
		if got := blotted(t, m, line+"\n"); strings.Contains(got, "hunter2") || len(got) != len(line)+1 {
			t.Error("the secret behind a long text is there")
		}
	}
}

func TestBlotInPieces(t *testing.T) {
	text := []byte("0123456789")
	spans := []Span{{Start: 1, End: 3}, {Start: 4, End: 8}}
	for at := range text {
		Blot(text[at:at+1], int64(at), spans)
	}
	if string(text) != "0**3****89" {
		t.Error(string(text))
	}
}

// FuzzMask: of a secret nothing is left, however it was spelt and wherever it was cut, and a
// text without it stays as it is.
func FuzzMask(f *testing.F) {
	f.Add(secretText, "before", "after", uint64(1))
	f.Add("päßwörd-ünd", `{"a":"`, `"}`, uint64(2))
	f.Add(pem, "%", "\\", uint64(3))
	for _, secret := range []string{ // found by fuzzing
		`it's "quoted"`, `pässwörd-\`, "00\b듰x", "ßö7%Bx", "00\U000679e7", strings.Repeat(`\`, 70) + "000000", `Te\&&&&`,
		strings.Repeat(`\`, 6) + "\t\t" + strings.Repeat(`\`, 50) + "000000",
	} {
		f.Add(secret, "a", "b", uint64(4))
	}
	f.Fuzz(func(t *testing.T, secret, before, after string, seed uint64) {
		if len(secret) < MinLength || len(secret) > 200 || len(before)+len(after) > 1000 || strings.ToValidUTF8(secret, "") != secret {
			t.Skip()
		}
		m := masker(t, secret)
		random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test
		for name, spelt := range spellings(secret) {
			if len(shown(spelt)) < MinLength || len(shown(secret)) < MinLength {
				continue
			}
			text := before + " " + spelt + " " + after
			want := m.Text(text)
			if strings.Contains(want, secret) || m.Text(spelt) == spelt {
				t.Fatalf("%s: %q is %q", name, text, want)
			}
			if got := inPieces(m, text, random); got != want {
				t.Fatalf("%s, in pieces: %q is %q, want %q", name, text, got, want)
			}
			line, err := json.Marshal(map[string]string{"text": text})
			if err != nil {
				t.Fatal(err)
			}
			if masked := m.JSON(line); !json.Valid(masked) || bytes.Equal(masked, line) {
				t.Fatalf("%s: %s is %s", name, line, masked)
			}
			if got := blotted(t, m, string(line)); len(got) != len(line) || !json.Valid([]byte(got)) || got == string(line) {
				t.Fatalf("%s: %s is %s", name, line, got)
			}
		}
		if text := before + after; !slices.ContainsFunc(forms(secret), func(p string) bool {
			return strings.Contains(text, p) || strings.Contains(plain(text), p)
		}) && m.Text(text) != text {
			t.Fatalf("%q is %q without %q in it", text, m.Text(text), secret)
		}
	})
}

func inPieces(m *Masker, text string, random *rand.Rand) (out string) {
	s := m.Stream()
	for text != "" {
		n := 1 + random.IntN(len(text))
		out += s.Feed(text[:n])
		text = text[n:]
	}
	return out + s.Flush()
}

func BenchmarkText(b *testing.B) {
	line := strings.Repeat("The quick brown fox jumps over the lazy dog, and ", 20) + "that was\nall.\n"
	for _, n := range []int{0, 1, 20} {
		secrets := map[string]string{}
		for i := range n {
			secrets[strconv.Itoa(i)] = fmt.Sprintf("sk-ant-api03-%032x", i*7919)
		}
		m, _ := New(secrets)
		b.Run(fmt.Sprintf("secrets=%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				m.Text(line)
			}
		})
	}
}
