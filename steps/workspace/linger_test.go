package workspace

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestLinger(t *testing.T) {
	stop := errors.New("stop")
	t.Run("ends later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			late, done := Linger(ctx)
			defer done()
			cancel(stop)
			began := time.Now()
			<-late.Done()
			if after := time.Since(began); after != Grace || !errors.Is(context.Cause(late), stop) {
				t.Errorf("it ended after %v: %v", after, context.Cause(late))
			}
		})
	})
	t.Run("is released", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			late, done := Linger(ctx)
			cancel(stop)
			synctest.Wait()
			if late.Err() != nil {
				t.Error("it ended at once")
			}
			done() // leaves no goroutine, or the bubble would say so
			if cause := context.Cause(late); !errors.Is(cause, context.Canceled) {
				t.Error(cause)
			}
		})
	})
}
