package steps

import (
	"context"
	"time"

	"flow/agents"
	"flow/agents/proc"
)

// parting is a sink that ends a process which goes on for partingWait although its turn is
// over. It is for agents that are not talked to; a talk parts by itself.
func parting(d agents.Dialog, sink proc.Sink, end context.CancelCauseFunc) (_ proc.Sink, stop func()) {
	turn, ok := d.(agents.Ender)
	if !ok {
		return sink, func() {}
	}
	timer := time.AfterFunc(partingWait, func() { end(errParted) })
	timer.Stop()
	over, hear := false, sink.Stdout
	sink.Stdout = func(l proc.Line) {
		hear(l)
		switch ended := turn.Ended(); {
		case ended && !over:
			timer.Reset(partingWait)
		case over && !ended: // a further turn has begun
			timer.Stop()
		}
		over = turn.Ended()
	}
	return sink, func() { timer.Stop() }
}
