package simulate

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ratOf is a JSON number, exactly, or nil when v is none.
func ratOf(v any) *big.Rat {
	n, ok := v.(json.Number)
	if !ok {
		return nil
	}
	// An exponent without bound would ask for as much memory.
	if i := strings.IndexAny(n.String(), "eE"); i >= 0 {
		if e, err := strconv.Atoi(n.String()[i+1:]); err != nil || e > 400 || e < -400 {
			return nil
		}
	}
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return nil
	}
	return r
}

// number makes the smallest number that the schema allows, or 0.
func number(s map[string]any, whole bool, p place) json.Number {
	least, most := bounds(s)
	grain := ratOf(s["multipleOf"])
	if grain == nil || grain.Sign() <= 0 {
		grain = big.NewRat(1, 1)
	}
	grid := whole || s["multipleOf"] != nil // values are multiples of grain
	if whole && !grain.IsInt() {
		grain = new(big.Rat).SetInt(grain.Num()) // the least whole multiple of n/d
	}
	v := new(big.Rat)
	switch {
	case least.at != nil:
		v = least.above(grain, grid, most)
	case most.at != nil && most.at.Sign() <= 0:
		v = most.below(grain, grid)
	}
	if p.distinct {
		v.Add(v, new(big.Rat).Mul(grain, big.NewRat(int64(p.index), 1)))
	}
	return decimal(v)
}

// A bound is one end of a range.
type bound struct {
	at   *big.Rat
	open bool // the end itself is outside
}

// bounds reads both spellings of exclusive bounds: numbers, and the booleans of
// draft 4.
func bounds(s map[string]any) (least, most bound) {
	least = bound{at: ratOf(s["minimum"]), open: s["exclusiveMinimum"] == true}
	if x := ratOf(s["exclusiveMinimum"]); x != nil && (least.at == nil || x.Cmp(least.at) >= 0) {
		least = bound{x, true}
	}
	most = bound{at: ratOf(s["maximum"]), open: s["exclusiveMaximum"] == true}
	if x := ratOf(s["exclusiveMaximum"]); x != nil && (most.at == nil || x.Cmp(most.at) <= 0) {
		most = bound{x, true}
	}
	return least, most
}

// above is the first number above the bound: the next multiple of grain on a grid,
// else the bound itself or, past an open one, a step that stays below most.
func (b bound) above(grain *big.Rat, grid bool, most bound) *big.Rat {
	if !grid {
		if !b.open {
			return new(big.Rat).Set(b.at)
		}
		v := new(big.Rat).Add(b.at, grain)
		if most.at != nil && v.Cmp(most.at) >= 0 {
			v.Add(b.at, most.at)
			v.Quo(v, big.NewRat(2, 1))
		}
		return v
	}
	v := new(big.Rat).Mul(grain, floor(new(big.Rat).Quo(b.at, grain)))
	for v.Cmp(b.at) < 0 || (b.open && v.Cmp(b.at) == 0) {
		v.Add(v, grain)
	}
	return v
}

// below is the last number below the bound.
func (b bound) below(grain *big.Rat, grid bool) *big.Rat {
	v := new(big.Rat).Set(b.at)
	if grid {
		v.Mul(grain, floor(new(big.Rat).Quo(b.at, grain)))
	}
	if b.open && v.Cmp(b.at) == 0 {
		v.Sub(v, grain)
	}
	return v
}

func floor(r *big.Rat) *big.Rat {
	q := new(big.Int).Div(r.Num(), r.Denom()) // Euclidean, and Denom is positive
	return new(big.Rat).SetInt(q)
}

func decimal(r *big.Rat) json.Number {
	if r.IsInt() {
		return json.Number(r.Num().String())
	}
	return json.Number(strings.TrimRight(r.FloatString(20), "0"))
}

// text makes a string.
func text(s map[string]any, p place) string {
	least, _ := intOf(s["minLength"])
	most, bounded := intOf(s["maxLength"])
	if v, ok := s["default"].(string); ok && !p.distinct && matches(s, v) && fits(v, least, most, bounded) {
		return v
	}
	if format, ok := s["format"].(string); ok {
		if v := formatted(format, p); v != "" {
			return v
		}
	}
	if pattern, ok := s["pattern"].(string); ok {
		if v, ok := matching(pattern, least); ok && fits(v, least, most, bounded) {
			return v
		}
	}
	return sized(p.name+" "+strconv.Itoa(p.index+1), least, most, bounded)
}

// sized cuts or pads v; what is cut is the name, so that the number stays.
func sized(v string, least, most int, bounded bool) string {
	if n := utf8.RuneCountInString(v); bounded && n > most {
		v = string([]rune(v)[n-max(0, most):])
	}
	if n := utf8.RuneCountInString(v); n < least {
		v += strings.Repeat(".", min(least-n, 1<<20))
	}
	return v
}

func fits(v string, least, most int, bounded bool) bool {
	n := utf8.RuneCountInString(v)
	return n >= least && (!bounded || n <= most)
}

func matches(s map[string]any, v string) bool {
	pattern, ok := s["pattern"].(string)
	if !ok {
		return true
	}
	re, err := regexp.Compile(pattern)
	return err == nil && re.MatchString(v)
}

// formatted is a value of a format of JSON Schema, or "" for one that is not known.
func formatted(format string, p place) string {
	n := strconv.Itoa(p.index + 1)
	switch format {
	case "date":
		return "2026-01-0" + n[len(n)-1:]
	case "date-time":
		return "2026-01-02T03:04:0" + n[len(n)-1:] + "Z"
	case "time":
		return "03:04:0" + n[len(n)-1:] + "Z"
	case "duration":
		return "PT" + n + "H"
	case "email", "idn-email":
		return "user" + n + "@example.com"
	case "hostname", "idn-hostname":
		return "host" + n + ".example.com"
	case "ipv4":
		return "192.0.2." + n
	case "ipv6":
		return "2001:db8::" + n
	case "uri", "iri", "uri-reference", "iri-reference", "uri-template":
		return "https://example.com/" + n
	case "uuid":
		return "00000000-0000-4000-8000-" + strings.Repeat("0", 12-min(12, len(n))) + n
	case "json-pointer":
		return "/" + n
	case "relative-json-pointer":
		return n
	case "regex":
		return "^" + n + "$"
	default:
		return ""
	}
}
