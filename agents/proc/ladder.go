package proc

import (
	"context"
	"time"
)

// climb waits for the end of a process. Once ctx is done it goes up the ladder,
// signal by signal, and at its top kills.
func climb(ctx context.Context, ended <-chan exit, ladder []Rung, signal func(Rung), kill func()) exit {
	select {
	case e := <-ended:
		return e
	case <-ctx.Done():
	}
	for _, rung := range ladder {
		signal(rung)
		if e, ok := within(rung.Wait, ended); ok {
			return e
		}
	}
	kill()
	return <-ended
}

// within waits for the end, but no longer than d.
func within(d time.Duration, ended <-chan exit) (exit, bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case e := <-ended:
		return e, true
	case <-timer.C:
		return exit{}, false
	}
}
