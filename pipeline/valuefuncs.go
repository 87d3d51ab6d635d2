package pipeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
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
