package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

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
