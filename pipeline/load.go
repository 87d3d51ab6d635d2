package pipeline

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// AgentInfo is what the language knows of a built-in agent.
type AgentInfo struct {
	Resume       bool // it can go on in a session
	Fork         bool // it can branch a session
	NeedsCommand bool // its profile must name the command
	Describes    bool // its profile describes the command by `exec`
	// Transports are the protocols that `transport` chooses from; one or none: there is
	// nothing to choose.
	Transports []string
}

// Options say in what surroundings a pipeline is read.
type Options struct {
	// Agents are the built-in agents by the name that `use` gives them. nil: none.
	Agents map[string]AgentInfo
	// ReadFile reads a file that the pipeline names (`prompt-file`, `file`, `pipeline`). The path
	// is relative to the pipeline's directory and does not leave it by its text. nil:
	// the directory of the file given to Load, which links cannot leave either; for
	// Parse, no files.
	ReadFile func(path string) ([]byte, error)
	// MaxSteps is the number of steps allowed; 0 is MaxSteps. A larger one raises
	// MaxFileBytes and MaxNodes in proportion.
	MaxSteps int
	// Configs are the configurations that hold beneath the pipeline, the nearest first.
	Configs []*Config
}

func (o Options) maxSteps() int {
	if o.MaxSteps > 0 {
		return o.MaxSteps
	}
	return MaxSteps
}

// scale is how many times the usual limits of a file apply.
func (o Options) scale() int { return max(1, (o.maxSteps()+MaxSteps-1)/MaxSteps) }

// Load reads the pipeline in the file at path and checks it. The error is an
// Errors with all mistakes, or says why the file could not be read. Anything but a
// regular file is refused, so that a pipe cannot make it wait.
func Load(path string, o Options) (*Plan, []Warning, error) {
	src, size, err := readRegular(path, o.scale()*MaxFileBytes)
	if err != nil {
		return nil, nil, err
	}
	if size > len(src) {
		return nil, nil, Errors{tooLarge("pipeline", path, size, o.scale()*MaxFileBytes)}
	}
	return LoadText(path, src, o)
}

// LoadText is Load with the text of the file given, as an editor holds it before it is
// saved.
func LoadText(path string, src []byte, o Options) (*Plan, []Warning, error) {
	if o.ReadFile == nil {
		o.ReadFile = insideDirectory(filepath.Dir(path))
	}
	return Parse(path, src, o)
}

// readRegular returns the content of a file, one byte more than limit at most, and
// its size.
func readRegular(path string, limit int) ([]byte, int, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return nil, 0, notRegular(path)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read pipeline: %w", err)
	}
	defer f.Close()
	return readAll(f, path, limit)
}

func readAll(f *os.File, path string, limit int) ([]byte, int, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("read pipeline: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, notRegular(path)
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err != nil {
		return nil, 0, fmt.Errorf("read pipeline: %w", err)
	}
	return data, int(info.Size()), nil
}

// notRegular is the mistake to name something else than a file. A socket cannot even be
// opened: that is ENXIO.
func notRegular(path string) error {
	return Error{File: path, Msg: "is not a regular file", Hint: "give the path of a YAML file"}
}

// insideDirectory reads files below dir, and no others whatever links there are.
func insideDirectory(dir string) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if errors.Is(err, syscall.ENXIO) {
			return nil, notRegular(path)
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		data, _, err := readAll(f, path, MaxFrozenBytes)
		return data, err
	}
}

// Parse checks the pipeline in src. name is the file's name in messages. The error
// is an Errors with all mistakes.
func Parse(name string, src []byte, o Options) (*Plan, []Warning, error) {
	l := newLoader(name, src, o)
	l.chain, l.files = []string{filepath.Base(name)}, &filesRead{callees: map[string]*callee{}}
	if errs := l.read(); len(errs) > 0 {
		return nil, nil, errs
	}
	l.lint()
	l.layRest()
	return l.plan, l.sortedWarnings(), nil
}

// read makes the plan, or says what is wrong.
func (l *loader) read() Errors {
	if root := l.document(); root != nil {
		l.pipeline(root)
		l.resolve()
	}
	return l.mistakes()
}

// mistakes are all that were found, in the order of their places.
func (l *loader) mistakes() Errors {
	for i := range l.errs {
		l.errs[i].Pos = l.inFile(l.errs[i])
	}
	return sorted(l.errs)
}

// A loader turns one file into a plan. It collects mistakes and goes on.
type loader struct {
	o     Options
	file  string
	src   []byte
	lines []int // where each line of src begins
	plan  *Plan
	errs  Errors
	warns []Warning

	tmpl    *checker
	root    *scope
	steps   int                        // counted so far, in groups too
	schemas map[string]error           // compiled, by their text
	used    map[string]map[string]bool // "inputs" → names that something uses
	places  map[string]map[string]Pos  // "inputs" → names with where they are declared

	fallbacks []fallbackTo // of all profiles
	onLimitAt Pos

	conditions *Renderer // for lint, made when it is needed

	config *Config                    // what is read, if it is no pipeline
	alone  bool                       // what is read is `permissions` alone
	says   map[string]map[string]bool // the keys of each profile that the file declares
	// Of pipelines that call others. Paths are relative to the directory of the first.
	dir    string
	chain  []string   // the files that led here, this one last
	files  *filesRead // shared by all loaders
	height int        // how deep calls go from here
	size   int        // bytes of what is called
	pairs  int        // of writers, warned of
}

func newLoader(name string, src []byte, o Options) *loader {
	return &loader{
		o: o, file: name, src: src, lines: lineStarts(src), plan: &Plan{File: name},
		schemas: map[string]error{}, used: map[string]map[string]bool{}, places: map[string]map[string]Pos{},
		says: map[string]map[string]bool{},
	}
}

func lineStarts(src []byte) []int {
	starts := []int{0}
	for i, c := range src {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// line returns the line of the file, counted from 1, without its end.
func (l *loader) line(n int) string {
	if n < 1 || n > len(l.lines) {
		return ""
	}
	end := len(l.src)
	if n < len(l.lines) {
		end = l.lines[n] - 1
	}
	return strings.TrimSuffix(string(l.src[l.lines[n-1]:end]), "\r")
}

func (l *loader) fail(pos Pos, hint, format string, args ...any) {
	if len(l.errs) >= maxErrors {
		return
	}
	l.errs = append(l.errs, Error{File: l.file, Pos: pos, Hint: hint, Msg: fmt.Sprintf(format, args...)})
}

func (l *loader) failNode(n *yaml.Node, hint, format string, args ...any) {
	l.fail(place(n), hint, format, args...)
}

// failText reports a mistake at a byte of a template.
func (l *loader) failText(t Text, offset int, hint, format string, args ...any) {
	if len(l.errs) >= maxErrors {
		return
	}
	l.errs = append(l.errs, textError(l.file, t, offset, hint, fmt.Sprintf(format, args...)))
}

func (l *loader) warn(pos Pos, hint, format string, args ...any) {
	l.warns = append(l.warns, Warning{File: l.file, Pos: pos, Hint: hint, Msg: fmt.Sprintf(format, args...)})
}

func (l *loader) sortedWarnings() []Warning {
	es := make(Errors, len(l.warns))
	for i, w := range l.warns {
		es[i] = Error(w)
	}
	var out []Warning
	for _, e := range sorted(es) {
		out = append(out, Warning(e))
	}
	return out
}

// inFile returns the place of an error, at the end of the file where it would be
// behind: what is missing at the end has such a place in yaml.v3.
func (l *loader) inFile(e Error) Pos {
	if e.File != l.file || e.Pos.Line < 1 {
		return e.Pos
	}
	p := Pos{min(e.Pos.Line, len(l.lines)), max(1, e.Pos.Col)}
	if p.Line < e.Pos.Line {
		p.Col = math.MaxInt
	}
	return Pos{p.Line, min(p.Col, utf8.RuneCountInString(l.line(p.Line))+1)}
}

func place(n *yaml.Node) Pos { return Pos{Line: n.Line, Col: n.Column} }

// reason shortens an I/O error to what a reader of the pipeline needs.
func reason(err error) string {
	var e Error
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "does not exist"
	case errors.As(err, &e):
		return e.Msg
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}
