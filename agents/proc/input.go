package proc

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// An Input is what a process is told while it runs, line by line: its standard input is a
// pipe, which ends when the Input is closed, and when flow dies. Its methods never block
// and may be called concurrently, also before the process starts and after it has ended.
// An Input is for one Run.
type Input struct {
	mu     sync.Mutex
	queue  [][]byte
	closed bool
	news   chan struct{} // holds a value when there is something to do
}

// NewInput returns an input that nothing has been written to.
func NewInput() *Input { return &Input{news: make(chan struct{}, 1)} }

// Line writes one line; the newline is added. What comes after Close is dropped.
func (in *Input) Line(line []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return
	}
	whole := make([]byte, 0, len(line)+1)
	in.queue = append(in.queue, append(append(whole, line...), '\n'))
	in.wake()
}

// Close ends the standard input of the process once it has got all lines.
func (in *Input) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.wake()
}

func (in *Input) wake() {
	select {
	case in.news <- struct{}{}:
	default:
	}
}

// next returns the lines that are to be written, and whether these were the last.
func (in *Input) next() (lines [][]byte, last bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	lines, in.queue = in.queue, nil
	return lines, in.closed
}

// Feed writes what the process is told to w, line by line, and closes w after the last. It
// returns early when w fails or stop is closed. It is for whoever runs the process.
func (in *Input) Feed(w io.WriteCloser, stop <-chan struct{}) {
	for {
		lines, last := in.next()
		for _, line := range lines {
			if _, err := w.Write(line); err != nil {
				return
			}
		}
		if last {
			w.Close()
			return
		}
		select {
		case <-in.news:
		case <-stop:
			return
		}
	}
}

// A pipe carries an Input to a process.
type pipe struct {
	read, write *os.File
	stop        chan struct{}
	feeding     sync.WaitGroup
}

// open begins to carry what is written to in.
func (in *Input) open() (*pipe, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make the standard input of a process: %w", err)
	}
	p := &pipe{read: r, write: w, stop: make(chan struct{})}
	p.feeding.Go(func() { in.Feed(w, p.stop) })
	return p, nil
}

// path is where the guardian finds the end to read from. Opened there it is a file of its
// own: the process does not share flow's non-blocking mode.
func (p *pipe) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), p.read.Fd()) }

// close ends the feeding, also of a process that reads no more.
func (p *pipe) close() {
	close(p.stop)
	p.write.Close()
	p.feeding.Wait()
	p.read.Close()
}
