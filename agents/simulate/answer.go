package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// An answer is what the model ends its turn with.
type answer struct {
	text string          // JSON text when there is a schema
	json json.RawMessage // the same as a value, when the model answered by the schema
	// wrong says that the value is against the schema, on purpose.
	wrong bool
}

// compose makes the answer of this turn.
func (t *turn) compose() (answer, error) {
	wrong, err := t.holds(t.script.wrong)
	if err != nil {
		return answer{}, err
	}
	switch {
	case t.script.big > 0:
		return answer{text: filler(t.script.big)}, nil
	case t.script.json != nil:
		return structured(t.script.json, false), nil
	case t.script.text != "":
		return answer{text: t.withIDs(t.script.text)}, nil
	case t.schema == nil:
		return answer{text: t.withIDs(t.reply())}, nil
	case wrong:
		return structured(mismatch(t.schema), true), nil
	}
	value, err := t.byMachine()
	return structured(value, false), err
}

// byMachine is the answer that the schema gives, with booleans that are false if the
// script wants that.
func (t *turn) byMachine() (json.RawMessage, error) {
	no, err := refusal(t.schema)
	if err != nil {
		return nil, err
	}
	if no != nil {
		if refuses, err := t.refuses(); refuses || err != nil {
			return no, err
		}
	}
	return Instance(t.schema)
}

func structured(value json.RawMessage, wrong bool) answer {
	var b bytes.Buffer
	if err := json.Compact(&b, value); err != nil {
		b.Reset()
		b.Write(value)
	}
	return answer{text: b.String(), json: b.Bytes(), wrong: wrong}
}

// reply is the answer to a prompt that asks for nothing in particular.
func (t *turn) reply() string {
	line, _, _ := strings.Cut(strings.TrimSpace(t.prompt), "\n")
	if utf8.RuneCountInString(line) > 60 {
		line = string([]rune(line)[:60]) + "…"
	}
	text := fmt.Sprintf("Simulated %s answer to: %s", t.name, line)
	if n := t.session.turn(); n > 1 {
		text += fmt.Sprintf(" (turn %d)", n)
	}
	return text
}

func (t *turn) withIDs(text string) string {
	if !t.script.ids {
		return text
	}
	return fmt.Sprintf("%s [session %s, turn %d]", text, t.session.ID, t.session.turn())
}

// filler is one line of n bytes.
func filler(n int64) string { return strings.Repeat("0123456789", int(n)/10+1)[:n] }

// chunks cuts a text in a few pieces, as a model streams it.
func chunks(text string) []string {
	size := max(24, len(text)/4)
	var out []string
	for len(text) > size {
		n := size
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		out = append(out, text[:n])
		text = text[n:]
	}
	if text != "" {
		out = append(out, text)
	}
	return out
}
