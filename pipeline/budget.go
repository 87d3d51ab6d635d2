package pipeline

import (
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

const maxTokens = 1_000_000_000_000

// Exceeds are the values of `budget.on-exceed`.
func Exceeds() []string { return []string{"stop", "fail", "warn"} }

func budgetTable() []key {
	return []key{
		{"usd", "US dollars.", positive()},
		{"tokens", "Tokens, of input and output together.", schema{"type": "integer", "minimum": 1, "maximum": maxTokens}},
		{"on-exceed", "stop (the default): the run ends and can be resumed; fail: the step fails; warn: it goes on.", choice(Exceeds()...)},
	}
}

func budgetSchema() schema {
	s := closed(budgetTable())
	s["anyOf"] = []schema{{"required": []string{"usd"}}, {"required": []string{"tokens"}}}
	return s
}

// budget decodes {usd, tokens, on-exceed}.
func (l *loader) budget(n *yaml.Node) *Budget {
	b := Budget{OnExceed: "stop", Pos: place(n)}
	if isScalar(n) {
		l.failNode(n, "write budget: {usd: 5} or {tokens: 2000000}", "`budget` must be a mapping, got %s", describe(n))
		return nil
	}
	found := l.fields(n, "`budget`", budgetTable(), func(e entry) {
		switch e.key {
		case "usd":
			b.USD = l.money(e.val, "`budget.usd`")
		case "tokens":
			b.Tokens = l.tokens(e.val)
		case "on-exceed":
			b.OnExceed = l.oneOf(e.val, "`budget.on-exceed`", Exceeds())
		}
	})
	_, usd := found["usd"]
	_, tokens := found["tokens"]
	if found != nil && !usd && !tokens {
		l.failNode(n, "add usd: 5 or tokens: 2000000", "`budget` bounds nothing")
	}
	return &b
}

// tokens reads a number of tokens, written in digits only.
func (l *loader) tokens(n *yaml.Node) int64 {
	n = deref(n)
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int" && err == nil && strconv.FormatInt(v, 10) == n.Value && v >= 1 && v <= maxTokens {
		return v
	}
	l.failNode(n, inDigits(n), "`budget.tokens` must be a whole number from 1 to %d, got %s", maxTokens, describe(n))
	return 0
}

// inDigits guesses the number that was written as 2_000_000, 2,000,000, 2e6, 2M or 500k.
func inDigits(n *yaml.Node) string {
	s := strings.ToLower(strings.NewReplacer("_", "", ",", "", "k", "e3", "K", "e3", "m", "e6", "M", "e6").Replace(n.Value))
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || v < 1 || v > maxTokens || v != float64(int64(v)) || n.Kind != yaml.ScalarNode {
		return "write it in digits, such as 2000000"
	}
	return "write " + strconv.FormatInt(int64(v), 10)
}
