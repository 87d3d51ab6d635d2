package proc

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"
)

// Messages between flow and guardian are frames: the length of what follows as
// four bytes, little endian, one byte for the kind, the fields. A field is a
// varint, or a string with its length as a varint before it. JSON would double
// the cost of a short step: an environment is some kilobytes.
const (
	kindStart   = 's' // flow asks for a process
	kindSignal  = 'g' // flow signals one
	kindKill    = 'k' // flow kills one and all its descendants
	kindKillAll = 'a' // flow kills all of them
	kindEnd     = 'e' // flow is done: kill what is left and exit
	kindHello   = 'h' // the guardian is ready, or says why not
	kindExit    = 'x' // a process ended, or could not be started

	headerSize = 5
	maxFrame   = 64 << 20 // far above ARG_MAX
)

var errFrame = errors.New("malformed message")

// A start asks for a process. All paths are absolute.
type start struct {
	Label, Program        string
	Argv, Env             []string
	Dir                   string
	Settled               bool // Dir must have no symbolic link in it
	Stdin, Stdout, Stderr string
	// Shim are the arguments of the shim that executes Program; nil for none.
	Shim      []string
	Namespace Namespace
	Limits    limits
}

func (m *start) fields(c *codec) {
	c.texts(&m.Label, &m.Program, &m.Dir, &m.Stdin, &m.Stdout, &m.Stderr)
	c.list(&m.Argv)
	c.list(&m.Env)
	c.list(&m.Shim)
	number(c, &m.Namespace)
	truth(c, &m.Settled)
	m.Limits.fields(c)
}

// An order is about one running process: signal it, or kill its whole tree.
type order struct {
	Label  string
	Signal syscall.Signal
	Group  bool
}

func (m *order) fields(c *codec) {
	c.texts(&m.Label)
	number(c, &m.Signal)
	truth(c, &m.Group)
}

// A hello is the guardian's first word; Trouble is "" if it is ready.
type hello struct{ Trouble string }

func (m *hello) fields(c *codec) { c.texts(&m.Trouble) }

// A failure is why a process could not be started: File could not be opened, it could
// not be put into its sandbox, or with both "" the program could not be executed.
type failure struct {
	File    string
	Sandbox string
	Errno   syscall.Errno // 0: the process was started
}

func (f *failure) fields(c *codec) {
	c.texts(&f.File, &f.Sandbox)
	number(c, &f.Errno)
}

// encode writes the fields alone.
func (f *failure) encode() []byte {
	var c codec
	f.fields(&c)
	return c.buf
}

// An exit is the end of one process, with its leftovers killed.
type exit struct {
	Label        string
	Failed       failure
	Code         int
	Signal       syscall.Signal
	Started      int64 // Unix time, in nanoseconds
	Elapsed      time.Duration
	User, System time.Duration
	MaxRSS       int64 // bytes
	Leftovers    []string
	Overflow     bool

	broken error // set by flow's side: there is no guardian to tell
}

func (m *exit) fields(c *codec) {
	c.texts(&m.Label)
	m.Failed.fields(c)
	number(c, &m.Code)
	number(c, &m.Signal)
	number(c, &m.Started)
	number(c, &m.Elapsed)
	number(c, &m.User)
	number(c, &m.System)
	number(c, &m.MaxRSS)
	c.list(&m.Leftovers)
	truth(c, &m.Overflow)
}

// A message lists its fields once, for writing and for reading.
type message interface{ fields(*codec) }

// A codec appends fields to buf, or takes them from rest.
type codec struct {
	reading bool
	buf     []byte
	rest    string // one string: what is cut from it is not copied again
	bad     bool
}

// appendFrame appends a message to b; m is nil for a kind without fields.
func appendFrame(b []byte, kind byte, m message) []byte {
	at := len(b)
	c := codec{buf: append(b, 0, 0, 0, 0, kind)}
	if m != nil {
		m.fields(&c)
	}
	binary.LittleEndian.PutUint32(c.buf[at:], uint32(len(c.buf)-at-headerSize+1))
	return c.buf
}

// readFrame reads one message. io.EOF is a clean end between two messages.
func readFrame(r *bufio.Reader) (kind byte, body string, err error) {
	head, err := r.Peek(headerSize)
	if err != nil {
		if len(head) > 0 && errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, "", err
	}
	size := binary.LittleEndian.Uint32(head)
	kind = head[4]
	if size == 0 || size > maxFrame {
		return 0, "", fmt.Errorf("%w: %d bytes", errFrame, size)
	}
	_, _ = r.Discard(headerSize) // it was peeked at
	b := make([]byte, size-1)
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, "", fmt.Errorf("%w: %w", io.ErrUnexpectedEOF, err)
	}
	return kind, string(b), nil
}

// parse reads the fields of m from a body, all of it.
func parse(body string, m message) error {
	c := codec{reading: true, rest: body}
	m.fields(&c)
	if c.bad || c.rest != "" {
		return errFrame
	}
	return nil
}

func (c *codec) texts(fields ...*string) {
	for _, s := range fields {
		size := len(*s)
		number(c, &size)
		switch {
		case !c.reading:
			c.buf = append(c.buf, *s...)
		case c.bad || size < 0 || size > len(c.rest):
			c.bad = true
		default:
			*s, c.rest = c.rest[:size], c.rest[size:]
		}
	}
}

func (c *codec) list(l *[]string) {
	size := len(*l)
	number(c, &size)
	if c.reading {
		if c.bad || size < 0 || size > len(c.rest) { // an entry has a byte at least
			c.bad = true
			return
		}
		*l = make([]string, size)
	}
	for i := range *l {
		c.texts(&(*l)[i])
	}
}

func number[T ~int | ~int64 | ~uintptr](c *codec, n *T) {
	if !c.reading {
		c.buf = binary.AppendVarint(c.buf, int64(*n))
		return
	}
	v, size := varint(c.rest)
	if size <= 0 {
		c.bad = true
		return
	}
	*n, c.rest = T(v), c.rest[size:]
}

func truth(c *codec, b *bool) {
	n := 0
	if *b {
		n = 1
	}
	number(c, &n)
	*b = n != 0
}

// varint is [binary.Varint] for a string.
func varint(s string) (int64, int) {
	return binary.Varint([]byte(s[:min(len(s), binary.MaxVarintLen64)]))
}
