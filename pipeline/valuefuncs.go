package pipeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	sprig "github.com/go-task/slim-sprig/v3"
)

var (
	errTooMany  = fmt.Errorf("the list or dict would have more than %d elements", MaxValues)
	errOverflow = errors.New("the number is too large")
	errNUL      = errors.New("the value contains a NUL character")
)

// otherText prints what is neither text nor null.
func otherText(v any) (string, error) {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.String:
		return r.String(), nil
	case reflect.Map, reflect.Slice, reflect.Array, reflect.Struct, reflect.Pointer:
		return toJSON(v)
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(r.Float(), 'f', -1, 64), nil
	default:
		return fmt.Sprint(v), nil
	}
}

// measure refuses values that hold, lists within lists counted again and again,
// more than may be rendered. Printing them would not end.
func measure(v any) error {
	budget := measured{elements: 4 * MaxValues, bytes: 4 * MaxRenderedBytes}
	return budget.take(reflect.ValueOf(v), 0)
}

type measured struct{ elements, bytes int }

func (m *measured) take(v reflect.Value, depth int) error {
	if m.elements--; m.elements < 0 || depth > MaxDepth {
		return errTooMany
	}
	switch v.Kind() {
	case reflect.String:
		if m.bytes -= v.Len(); m.bytes < 0 {
			return errTooLong
		}
	case reflect.Interface, reflect.Pointer:
		if !v.IsNil() {
			return m.take(v.Elem(), depth+1)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if err := m.take(v.Index(i), depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := errors.Join(m.take(it.Key(), depth+1), m.take(it.Value(), depth+1)); err != nil {
				return err
			}
		}
	}
	return nil
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

func toJSON(v any) (string, error) { return encodeJSON(v, "") }

func toPrettyJSON(v any) (string, error) { return encodeJSON(v, "  ") }

func encodeJSON(v any, indent string) (string, error) {
	if err := measure(v); err != nil {
		return "", err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return "", err
	}
	return checkLen(strings.TrimSuffix(b.String(), "\n"))
}

func fromJSON(s string) (any, error) { return DecodeJSON([]byte(s)) }

// DecodeJSON reads one JSON value as templates see it: whole numbers are int64,
// other numbers float64.
func DecodeJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if d.More() {
		return nil, errors.New("not JSON: more than one value")
	}
	return numbers(v), nil
}

func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, err := x.Float64()
		if err != nil {
			return x.String() // beyond float64: kept as it was written
		}
		return f
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	}
	return v
}

func toInt(v any) (int64, error) {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return r.Int(), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if r.Uint() <= math.MaxInt64 {
			return int64(r.Uint()), nil
		}
		return 0, errOverflow
	case reflect.Float32, reflect.Float64:
		if f := r.Float(); math.Abs(f) < 1<<63 {
			return int64(f), nil
		}
		return 0, errOverflow
	case reflect.String:
		n, err := strconv.ParseInt(strings.TrimSpace(r.String()), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a whole number", shorten(r.String()))
		}
		return n, nil
	}
	return 0, fmt.Errorf("%v is not a number", kindName(v))
}

func toFloat(v any) (float64, error) {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Float32, reflect.Float64:
		return r.Float(), nil
	case reflect.String:
		f, err := strconv.ParseFloat(strings.TrimSpace(r.String()), 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number", shorten(r.String()))
		}
		return f, nil
	}
	n, err := toInt(v)
	return float64(n), err
}

func kindName(v any) string {
	if v == nil {
		return "null"
	}
	return "a value of type " + reflect.TypeOf(v).Kind().String()
}

// fold computes over whole numbers from the first.
func fold(f func(a, b int64) (int64, error), first any, others []any) (int64, error) {
	sum, err := toInt(first)
	for _, v := range others {
		if err != nil {
			return 0, err
		}
		var n int64
		if n, err = toInt(v); err == nil {
			sum, err = f(sum, n)
		}
	}
	return sum, err
}

func plus(a, b int64) (int64, error) {
	if sum := a + b; (sum > a) == (b > 0) {
		return sum, nil
	}
	return 0, errOverflow
}

func times(a, b int64) (int64, error) {
	p := a * b
	if a != 0 && (p/a != b || a == -1 && b == math.MinInt64) {
		return 0, errOverflow
	}
	return p, nil
}

var errZero = errors.New("division by zero")

func add(v ...any) (int64, error) { return fold(plus, 0, v) }

func add1(v any) (int64, error) { return fold(plus, 1, []any{v}) }

func mul(a any, v ...any) (int64, error) { return fold(times, a, v) }

func sub(a, b any) (int64, error) {
	return fold(func(a, b int64) (int64, error) {
		if d := a - b; (d < a) == (b > 0) {
			return d, nil
		}
		return 0, errOverflow
	}, a, []any{b})
}

func div(a, b any) (int64, error) {
	return fold(func(a, b int64) (int64, error) {
		if b == 0 {
			return 0, errZero
		}
		return a / b, nil
	}, a, []any{b})
}

func mod(a, b any) (int64, error) {
	return fold(func(a, b int64) (int64, error) {
		if b == 0 {
			return 0, errZero
		}
		return a % b, nil
	}, a, []any{b})
}

func largest(a any, v ...any) (int64, error) {
	return fold(func(a, b int64) (int64, error) { return max(a, b), nil }, a, v)
}

func smallest(a any, v ...any) (int64, error) {
	return fold(func(a, b int64) (int64, error) { return min(a, b), nil }, a, v)
}

func ceil(v any) (float64, error) {
	f, err := toFloat(v)
	return math.Ceil(f), err
}

func floor(v any) (float64, error) {
	f, err := toFloat(v)
	return math.Floor(f), err
}

func round(v, digits any) (float64, error) {
	f, err := toFloat(v)
	if err != nil {
		return 0, err
	}
	n, err := toInt(digits)
	if err != nil || n < 0 || n > 15 {
		return 0, errors.Join(err, errors.New("round: digits are 0 to 15"))
	}
	scale := math.Pow10(int(n))
	return math.Round(f*scale) / scale, nil
}

func until(n any) ([]int64, error) { return untilStep(0, n, 1) }

func seq(first, last any) ([]int64, error) {
	to, err := toInt(last)
	if err != nil || to == math.MaxInt64 {
		return nil, errors.Join(err, errTooMany)
	}
	return untilStep(first, to+1, 1)
}

func untilStep(start, stop, step any) ([]int64, error) {
	from, err1 := toInt(start)
	to, err2 := toInt(stop)
	by, err3 := toInt(step)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	if by == 0 {
		return nil, errors.New("the step of a list is 0")
	}
	var out []int64
	for n := from; by > 0 && n < to || by < 0 && n > to; n += by {
		if len(out) == MaxValues {
			return nil, errTooMany
		}
		out = append(out, n)
	}
	return out, nil
}

// elements returns a list as []any.
func elements(v any) ([]any, error) {
	if list, ok := v.([]any); ok {
		return list, nil
	}
	r := reflect.ValueOf(v)
	if r.Kind() != reflect.Slice && r.Kind() != reflect.Array {
		return nil, fmt.Errorf("want a list, got %s", kindName(v))
	}
	out := make([]any, r.Len())
	for i := range out {
		out[i] = r.Index(i).Interface()
	}
	return out, nil
}

func texts(v any) ([]string, error) {
	items, err := elements(v)
	out := make([]string, len(items))
	for i, item := range items {
		var failed error
		if out[i], failed = asText(item); failed != nil {
			return nil, failed
		}
	}
	return out, err
}

// built checks a list or dict that a template made.
func built[T any](v T) (T, error) { return v, measure(v) }

func list(v ...any) ([]any, error) { return built(v) }

func concat(lists ...any) ([]any, error) {
	var out []any
	for _, v := range lists {
		items, err := elements(v)
		if err != nil {
			return nil, err
		}
		if len(out)+len(items) > MaxValues {
			return nil, errTooMany
		}
		out = append(out, items...)
	}
	return built(out)
}

func appendTo(v, item any) ([]any, error) { return concat(v, []any{item}) }

func prependTo(v, item any) ([]any, error) { return concat([]any{item}, v) }

const maxUniq = 2000 // every element is compared with every other

func uniq(v any) ([]any, error) {
	items, err := elements(v)
	if err == nil && len(items) > maxUniq {
		err = fmt.Errorf("uniq: more than %d elements", maxUniq)
	}
	if err != nil {
		return nil, err
	}
	var out []any
	for _, item := range items {
		if !slices.ContainsFunc(out, func(o any) bool { return reflect.DeepEqual(o, item) }) {
			out = append(out, item)
		}
	}
	return out, nil
}

func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict: the last key has no value")
	}
	out := make(map[string]any, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		key, err := asText(pairs[i])
		if err != nil {
			return nil, err
		}
		out[key] = pairs[i+1]
	}
	return built(out)
}

func get(d map[string]any, key string) any {
	if v, ok := d[key]; ok {
		return v
	}
	return ""
}

func hasKey(d map[string]any, key string) bool {
	_, ok := d[key]
	return ok
}

func keys(d map[string]any) []string { return slices.Sorted(maps.Keys(d)) }

func values(d map[string]any) []any {
	out := make([]any, 0, len(d))
	for _, k := range keys(d) {
		out = append(out, d[k])
	}
	return out
}

func pick(d map[string]any, names ...string) map[string]any {
	out := map[string]any{}
	for _, k := range names {
		if v, ok := d[k]; ok {
			out[k] = v
		}
	}
	return out
}

func omit(d map[string]any, names ...string) map[string]any {
	out := maps.Clone(d)
	for _, k := range names {
		delete(out, k)
	}
	return out
}

func dig(args ...any) (any, error) {
	if len(args) < 3 {
		return nil, errors.New("dig: want KEY… DEFAULT DICT")
	}
	n := len(args) - 2
	v := args[n+1]
	for _, k := range args[:n] {
		d, ok := v.(map[string]any)
		name, text := k.(string)
		if !text {
			return nil, errors.New("dig: the keys are texts")
		}
		if v = d[name]; !ok || v == nil {
			return args[n], nil
		}
	}
	return v, nil
}

// index is text/template's, except that a missing key is an error.
func index(v any, keys ...any) (any, error) {
	for _, k := range keys {
		r := reflect.ValueOf(v)
		switch r.Kind() {
		case reflect.Map:
			name, ok := k.(string)
			if !ok {
				return nil, fmt.Errorf("index: a dict has texts as keys, got %s", kindName(k))
			}
			item := r.MapIndex(reflect.ValueOf(name))
			if !item.IsValid() {
				return nil, fmt.Errorf("index: there is no key %q", shorten(name))
			}
			v = item.Interface()
		case reflect.Slice, reflect.Array, reflect.String:
			n, err := toInt(k)
			if err != nil {
				return nil, err
			}
			if n < 0 || n >= int64(r.Len()) {
				return nil, fmt.Errorf("index: %d is not from 0 to %d", n, r.Len()-1)
			}
			v = r.Index(int(n)).Interface()
		default:
			return nil, fmt.Errorf("index: want a list or a dict, got %s", kindName(v))
		}
	}
	return v, nil
}

// sprigNames are the functions that slim-sprig has and this language leaves out.
func leftOut(name string) bool {
	_, ok := sprig.GenericFuncMap()[name]
	return ok
}
