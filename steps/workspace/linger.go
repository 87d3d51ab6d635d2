package workspace

import (
	"context"
	"time"
)

// Grace is how long git may go on with what completes a piece of work that is done, once
// the run is to stop.
const Grace = 10 * time.Second

// Linger returns a context that ends for the same cause as ctx, but later by [Grace]. The
// function releases it.
func Linger(ctx context.Context) (context.Context, func()) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(Grace):
			cancel(context.Cause(ctx))
		case <-late.Done():
		}
	})
	return late, func() {
		stop()
		cancel(nil)
	}
}
