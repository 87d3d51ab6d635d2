package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"flow/pipeline"
)

// assignments writes values as name=JSON, in the order of names.
func assignments(values map[string]any) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, err := json.Marshal(values[name])
		if err != nil {
			value = []byte(err.Error())
		}
		parts = append(parts, name+"="+oneLine(string(value), 80))
	}
	return strings.Join(parts, " ")
}

func budgetText(b *pipeline.Budget) string {
	if b == nil {
		return ""
	}
	var bounds []string
	if b.USD > 0 {
		bounds = append(bounds, dollars(b.USD))
	}
	if b.Tokens > 0 {
		bounds = append(bounds, fmt.Sprintf("%d tokens", b.Tokens))
	}
	return strings.Join(bounds, ", ") + ", then " + b.OnExceed
}

// commandLine writes an argument vector as a shell would read it, long arguments cut.
func commandLine(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = quoteArg(oneLine(arg, 120))
	}
	return strings.Join(words, " ")
}

// plainWord holds what no shell gives a meaning.
const plainWord = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./,:@%‹›"

func quoteArg(arg string) string {
	if arg != "" && strings.Trim(arg, plainWord) == "" {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// dollars is an amount with all of its decimals, and at least two.
func dollars(usd float64) string {
	text := strconv.FormatFloat(usd, 'f', -1, 64)
	if _, decimals, _ := strings.Cut(text, "."); len(decimals) < 2 {
		text = strconv.FormatFloat(usd, 'f', 2, 64)
	}
	return "$" + text
}
