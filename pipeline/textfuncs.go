package pipeline

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/template"
	"time"
	"unicode/utf8"
)

var errTooLong = fmt.Errorf("the text would be longer than %d MiB", MaxRenderedBytes>>20)

func checkLen(s string) (string, error) {
	if len(s) > MaxRenderedBytes {
		return "", errTooLong
	}
	return s, nil
}

// bounded limits what a function of any values returns. The values are measured
// first: text may stand many times in one list.
func bounded(f func(...any) string) func(...any) (string, error) {
	return func(args ...any) (string, error) {
		if err := measure(args); err != nil {
			return "", err
		}
		return checkLen(f(args...))
	}
}

func bounded1(f func(string) string) func(string) (string, error) {
	return func(s string) (string, error) { return checkLen(f(s)) }
}

// unavailable stands for a function that only a run can provide.
func unavailable(name string) func(...any) (string, error) {
	return func(...any) (string, error) { return "", fmt.Errorf("`%s` is not available here", name) }
}

func upper(s string) string { return strings.ToUpper(s) }

func lower(s string) string { return strings.ToLower(s) }

func quoteMeta(s string) string { return regexp.QuoteMeta(s) }

func base64Encode(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func base64Decode(s string) (string, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return "", fmt.Errorf("b64dec: %w", err)
	}
	return string(b), nil
}

func fail(message string) (string, error) { return "", errors.New(message) }

// fence puts text between two lines that differ from every line in it. The mark
// depends on the text alone, so that a prompt is the same when it is rendered again.
func fence(v any) (string, error) {
	s, err := asText(v)
	if err != nil {
		return "", err
	}
	mark := "-----DATA"
	for strings.Contains(s, mark) {
		mark += "-" + shortHash(s+mark)
	}
	if !strings.HasSuffix(s, "\n") {
		s += "\n"
	}
	return checkLen(mark + "-----\n" + s + mark + "-----")
}

func lines(s string) ([]string, error) {
	if strings.Count(s, "\n") > MaxValues {
		return nil, errTooMany
	}
	s = strings.TrimSuffix(s, "\n")
	if s == "" {
		return nil, nil
	}
	out := strings.Split(s, "\n")
	for i, line := range out {
		out[i] = strings.TrimSuffix(line, "\r")
	}
	return out, nil
}

func truncate(n, v any) (string, error) {
	limit, err := toInt(n)
	if err != nil {
		return "", err
	}
	s, err := asText(v)
	if err != nil {
		return "", err
	}
	total := utf8.RuneCountInString(s)
	if int64(total) <= limit {
		return s, nil
	}
	for i := range s {
		if limit--; limit < 0 {
			return fmt.Sprintf("%s… [%d more characters]", s[:i], utf8.RuneCountInString(s[i:])), nil
		}
	}
	return s, nil
}

// shquote quotes for POSIX shells: within single quotes nothing has a meaning but
// the single quote.
func shquote(v any) (string, error) {
	s, err := asText(v)
	if err != nil {
		return "", err
	}
	if strings.ContainsRune(s, 0) {
		return "", errNUL
	}
	return checkLen("'" + strings.ReplaceAll(s, "'", `'\''`) + "'")
}

func replace(old, with, s string) (string, error) {
	if grown := strings.Count(s, old) * (len(with) - len(old)); grown > MaxRenderedBytes {
		return "", errTooLong
	}
	return checkLen(strings.ReplaceAll(s, old, with))
}

func repeat(n any, s string) (string, error) {
	count, err := toInt(n)
	switch {
	case err != nil:
		return "", err
	case count < 0:
		return "", errors.New("repeat: the number is negative")
	case count > 0 && len(s) > MaxRenderedBytes/int(min(count, MaxRenderedBytes+1)):
		return "", errTooLong
	}
	if s == "" {
		return "", nil
	}
	return strings.Repeat(s, int(count)), nil
}

func substr(start, end any, s string) (string, error) {
	from, err := toInt(start)
	if err != nil {
		return "", err
	}
	to, err := toInt(end)
	if err != nil {
		return "", err
	}
	r := []rune(s)
	if to < 0 || to > int64(len(r)) {
		to = int64(len(r))
	}
	if from = max(0, from); from >= to {
		return "", nil
	}
	return string(r[from:to]), nil
}

const maxIndent = 1000

func indent(n any, s string) (string, error) {
	width, err := toInt(n)
	if err != nil {
		return "", err
	}
	if width < 0 || width > maxIndent {
		return "", fmt.Errorf("indent: %d is not from 0 to %d", width, maxIndent)
	}
	pad := strings.Repeat(" ", int(width))
	s, err = replace("\n", "\n"+pad, s)
	return pad + s, err
}

func nindent(n any, s string) (string, error) {
	s, err := indent(n, s)
	return "\n" + s, err
}

func join(sep string, v any) (string, error) {
	items, err := texts(v)
	if err != nil {
		return "", err
	}
	total := len(sep) * len(items)
	for _, s := range items {
		total += len(s)
	}
	if total > MaxRenderedBytes {
		return "", errTooLong
	}
	return strings.Join(items, sep), nil
}

func splitList(sep, s string) ([]string, error) {
	if sep == "" && len(s) > MaxValues || sep != "" && strings.Count(s, sep) >= MaxValues {
		return nil, errTooMany
	}
	return strings.Split(s, sep), nil
}

func regexReplaceAll(re, s, with string) (string, error) {
	return regexReplace(re, s, with, strings.Count(with, "$")*len(s), (*regexp.Regexp).ReplaceAllString)
}

func regexReplaceAllLiteral(re, s, with string) (string, error) {
	return regexReplace(re, s, with, 0, (*regexp.Regexp).ReplaceAllLiteralString)
}

// regexReplace computes the largest possible result before it makes one: groups
// add at most the whole text for each of their names.
func regexReplace(re, s, with string, groups int, do func(*regexp.Regexp, string, string) string) (string, error) {
	r, err := regexp.Compile(re)
	if err != nil {
		return "", err
	}
	if matches := len(r.FindAllStringIndex(s, -1)); len(s)+matches*len(with)+groups > 4*MaxRenderedBytes {
		return "", errTooLong
	}
	return checkLen(do(r, s, with))
}

var errFormat = errors.New("printf: a width or precision is given by at most three digits")

func printf(format string, args ...any) (string, error) {
	if strings.Contains(format, "*") || regexp.MustCompile(`%[^a-zA-Z%]*\d{4}`).MatchString(format) {
		return "", errFormat
	}
	if err := measure(args); err != nil {
		return "", err
	}
	size := len(format)
	verbs := strings.Count(format, "%")
	for _, a := range args {
		if s, ok := a.(string); ok {
			size += len(s) * (1 + verbs) // an argument can be named again: %[1]s
		}
	}
	if size > 4*MaxRenderedBytes {
		return "", errTooLong
	}
	return checkLen(fmt.Sprintf(format, args...))
}

func printAll(args ...any) string { return fmt.Sprint(args...) }

func printLine(args ...any) string { return fmt.Sprintln(args...) }

func htmlEscape(args ...any) string { return template.HTMLEscaper(args...) }

func jsEscape(args ...any) string { return template.JSEscaper(args...) }

func urlEscape(args ...any) string { return template.URLQueryEscaper(args...) }

func quoteAll(args ...any) string {
	return eachText(args, func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) })
}

func squoteAll(args ...any) string {
	return eachText(args, func(v any) string { return "'" + fmt.Sprint(v) + "'" })
}

func cat(args ...any) string {
	return eachText(args, func(v any) string { return fmt.Sprint(v) })
}

// eachText puts the values that are not null behind one another.
func eachText(args []any, f func(any) string) string {
	var out []string
	for _, v := range args {
		if v != nil {
			out = append(out, f(v))
		}
	}
	return strings.Join(out, " ")
}

var errNull = errors.New("the value is null; give another: {{ … | default \"\" }}")

// asText is how a value is printed: texts as they are, numbers in decimal, lists
// and dicts as JSON. Null is an error: it would silently be nothing.
func asText(v any) (string, error) {
	switch x := v.(type) {
	case string:
		return x, nil
	case nil:
		return "", errNull
	case json.RawMessage:
		return string(x), nil
	case time.Time:
		return x.Format(time.RFC3339), nil
	case fmt.Stringer:
		return x.String(), nil
	case error:
		return x.Error(), nil
	}
	return otherText(v)
}
