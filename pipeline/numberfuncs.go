package pipeline

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

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
