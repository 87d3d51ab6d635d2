// Package local drives a dag.Machine on one machine: it runs the tasks that the
// machine hands out, stores what comes of them, and then tells the machine.
package local

import (
	"context"
	"errors"
	"time"

	"flow/pipeline/dag"
)

// An Executor runs one attempt of one step, or decides what a step grows and comes to. It
// is used by many goroutines at once.
type Executor interface {
	// Exec does t and returns how it ended: Succeeded, Failed, Skipped or Stopped for
	// dag.Execute; Opened, Skipped, Failed or Stopped for dag.Open; Succeeded, Failed,
	// Stopped or, of a loop, Continued for dag.Close. Before it launches an attempt it
	// records Started. When ctx is done it ends soon and returns Stopped; context.Cause
	// says why. An error means that flow itself is broken, and ends the run; but an
	// error that only passes on the end of ctx counts as Stopped.
	//
	// The ctx of a question may end because of ErrNobody, even before Exec is called:
	// it then returns Suspended, unless an answer is there already.
	Exec(ctx context.Context, t dag.Task, rec Recorder) (dag.Fact, error)
}

// A Recorder stores a fact about the task at hand, which must be Started, and tells the
// machine. It returns once the fact survives a crash; an error is for Exec to pass on. A
// ctx that is done does not keep the fact from being stored. It must not be used by two
// goroutines at once, or after Exec has returned.
type Recorder func(ctx context.Context, f dag.Fact) error

// A Journal stores facts. It is used by many goroutines at once, and may store what
// arrives together in one go.
type Journal interface {
	// Append returns once f survives a crash. Facts whose calls overlap may be stored
	// in any order.
	Append(ctx context.Context, f dag.Fact) error
}

// Options may be left zero.
type Options struct {
	// Interactive says that somebody may answer questions while the run waits for them.
	// Otherwise they are suspended when nothing else is left to do.
	Interactive bool
	// Stop, when it gives a reason, stops the run as the end of Run's ctx does, but what
	// runs comes to its own end. It may be nil.
	Stop <-chan error
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Observe is called with each fact after the machine has taken it in. The
	// driver waits for it, and it may read the machine.
	Observe func(dag.Fact)
	// Panic is called when Exec has panicked, on the goroutine that did, with the
	// step's path and the stack. The step fails; the run goes on.
	Panic func(path string, stack []byte)
}

// ErrFailFast is the cause of a task's cancellation when another step failed and
// fail-fast is set.
var ErrFailFast = errors.New("another step failed and fail-fast is set")

// ErrBeaten is the cause of the cancellation of a candidate when another one won the race.
var ErrBeaten = errors.New("another candidate won the race")

// ErrNobody is the cause that ends the wait for an answer when nothing but questions is
// left and Options.Interactive is not set.
var ErrNobody = errors.New("nobody is there to answer")

// Run drives m until nothing runs and nothing can start any more, and returns nil
// however the steps ended, and also if questions are left that nobody answered: m.Status
// says that. m belongs to Run until it returns.
//
// Tasks without a slot, such as to open or close a step or to ask a person, run beside those
// that have one. The slot of a step is free as soon as Exec has returned; its fact is then stored
// beside the work of others, and what depends on the step waits until it is.
//
// When ctx is done, nothing new starts, what runs is cancelled, and Run returns nil when
// all of it has ended and been stored. An error of the executor or of the journal also
// cancels everything, and is returned. No goroutine of Run's outlives it.
func Run(ctx context.Context, m *dag.Machine, x Executor, j Journal, o Options) error {
	return newDriver(ctx, m, x, j, o).run() //nolint:contextcheck // the driver keeps ctx: see its fields
}
