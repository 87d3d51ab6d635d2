package simulate

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// matching makes a string that matches pattern and has at least that many
// characters, if it can; ok is false for a pattern that Go cannot read or meet.
func matching(pattern string, least int) (v string, ok bool) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return "", false
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	least = min(least, 1<<12)
	for _, spare := range []int{0, 1, least} {
		v := expand(tree, spare)
		if re.MatchString(v) && utf8.RuneCountInString(v) >= least {
			return v, true
		}
	}
	return "", false
}

// expand makes a string for a part of a pattern, with spare repetitions beyond the
// least where the pattern leaves the number open.
func expand(re *syntax.Regexp, spare int) string {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		return string(member(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "a"
	case syntax.OpCapture:
		return expand(re.Sub[0], spare)
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		return strings.Repeat(expand(re.Sub[0], 0), repetitions(re, spare))
	case syntax.OpConcat:
		var b strings.Builder
		for _, sub := range re.Sub {
			b.WriteString(expand(sub, spare))
		}
		return b.String()
	case syntax.OpAlternate:
		return expand(re.Sub[0], spare)
	default: // anchors and the like take no room
		return ""
	}
}

// repetitions is how often a repeated part is written.
func repetitions(re *syntax.Regexp, spare int) int {
	switch re.Op {
	case syntax.OpStar:
		return spare
	case syntax.OpPlus:
		return max(1, spare)
	case syntax.OpQuest:
		return min(1, spare)
	default: // OpRepeat; Max is -1 where there is none
		if re.Max < 0 {
			return max(re.Min, spare)
		}
		return min(max(re.Min, spare), re.Max)
	}
}

// member is a readable character of a class, given as pairs of a range's ends.
func member(class []rune) rune {
	for pair := range slices.Chunk(class, 2) {
		for _, r := range "a0A_- " {
			if pair[0] <= r && r <= pair[1] {
				return r
			}
		}
	}
	if len(class) == 0 {
		return 'a'
	}
	return class[0]
}
