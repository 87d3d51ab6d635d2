package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"flow/state/failpoint"
)

// Children write straight into files, so nobody stands between a flood and the disk. What
// they write is bounded all the same: the guardian looks at the files several times a
// second. Of standard error the beginning and the end are kept; what lies between is given
// back to the file system while the process runs, as a hole, for which no byte need move,
// and cut out at the end. A process that prints too much on standard output, which is kept
// whole, is killed.
//
// The guardian does it and not flow, as it goes on when flow is stopped, busy or dead. Not
// taken: a pipe for standard error costs the guardian a wake-up for each line, and stops
// the process while the guardian does; RLIMIT_FSIZE would bound every file of the process.
const (
	outputTick = 250 * time.Millisecond
	// defaultMaxOutput is also what standard error may take of the disk where files cannot
	// have holes.
	defaultMaxOutput = 1 << 30
	defaultHeadSize  = 8 << 20
	// tailSize is how much of the end of standard error is kept.
	tailSize = bufferSize
)

// limits bound what a process prints. The sizes are those of its files when it began.
type limits struct {
	MaxOutput, Head          int64 // bytes of standard output, and of the beginning of standard error
	StdoutBegan, StderrBegan int64
}

func (l *limits) fields(c *codec) {
	for _, n := range []*int64{&l.MaxOutput, &l.Head, &l.StdoutBegan, &l.StderrBegan} {
		number(c, n)
	}
}

// headEnd is where in the file of standard error the part ends that is kept as it comes.
func (l *limits) headEnd() int64 { return l.StderrBegan + l.Head }

// outputs are the files of one process.
type outputs struct {
	limits
	stdout, stderr string
	holeEnd        int64 // the hole in standard error ends there, 0: there is none
}

// bound gives the middle of standard error back to the file system, and reports whether
// the process has printed more than it may.
func (o *outputs) bound() (exceeded bool) {
	if fileSize(o.stdout)-o.StdoutBegan > o.MaxOutput {
		return true
	}
	if fileSize(o.stderr) <= o.headEnd()+2*tailSize {
		return false
	}
	if err := o.punch(); err == nil {
		return false
	}
	return diskSize(o.stderr)-o.StderrBegan > o.MaxOutput // files cannot have holes here
}

// punch makes the middle of standard error a hole.
func (o *outputs) punch() error {
	f, err := os.OpenFile(o.stderr, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	from, to := max(o.headEnd(), o.holeEnd), fileSize(o.stderr)-tailSize
	if to <= from {
		return nil
	}
	if err := failpoint.Fail("stderr-hole"); err != nil {
		return err
	}
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from); err != nil {
		return err
	}
	// Only whole blocks go: the next hole begins before the one that was cut.
	o.holeEnd = to &^ (1<<20 - 1)
	return nil
}

// trim replaces the middle of standard error by a line that says how much there was. Nothing
// writes to the file any more. What is kept is written before the file is shortened, so
// that no failure loses it.
func (l *limits) trim(stderr string) (err error) {
	size := fileSize(stderr)
	if size <= l.headEnd()+2*tailSize {
		return nil
	}
	f, err := os.OpenFile(stderr, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	// One byte more, of the beginning: does it end a line?
	tail, before := make([]byte, tailSize), make([]byte, 1)
	if _, err := f.ReadAt(tail, size-tailSize); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if _, err := f.ReadAt(before, l.headEnd()-1); err != nil {
		return err
	}
	if i := bytes.IndexByte(tail[:tailSize-1], '\n'); i >= 0 {
		tail = tail[i+1:]
	}
	kept := fmt.Appendf(nil, "[flow: %d bytes of standard error were dropped here]\n", size-l.headEnd()-int64(len(tail)))
	if before[0] != '\n' {
		kept = append([]byte{'\n'}, kept...)
	}
	kept = append(kept, tail...)
	if err := failpoint.Fail("stderr-trim"); err != nil {
		return err
	}
	if _, err := f.WriteAt(kept, l.headEnd()); err != nil {
		return err
	}
	return f.Truncate(l.headEnd() + int64(len(kept)))
}

// diskSize is how much of the disk a file takes, 0 if there is none.
func diskSize(path string) int64 {
	var s unix.Stat_t
	if unix.Stat(path, &s) != nil {
		return 0
	}
	return s.Blocks * 512
}

// watchOutputs bounds the files of the processes that run, for as long as any does.
func (g *guardian) watchOutputs() {
	ticker := time.NewTicker(outputTick)
	defer ticker.Stop()
	for range ticker.C {
		if !g.boundOutputs() {
			return
		}
	}
}

// boundOutputs bounds them once, and reports whether a process runs.
func (g *guardian) boundOutputs() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.live {
		if a.doomed || !a.outputs.bound() {
			continue
		}
		a.overflow = true
		g.doom(a)
	}
	g.settle()
	g.flush()
	g.watching = len(g.live) > 0
	return g.watching
}
