// Package lsp is a language server for pipelines: it tells an editor what is wrong while
// a pipeline is written, and what could be written next. It knows the language by
// what package pipeline says of it, and reads and writes nothing but its two streams.
package lsp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"flow/pipeline"
)

// Options say what the server knows besides the language.
type Options struct {
	// Check finds what is wrong with a pipeline. path is the file's, text what the editor
	// holds, saved or not.
	Check func(path string, text []byte) (pipeline.Errors, []pipeline.Warning)
	// Agents are the names that `use` and `agent` may have without a profile.
	Agents []string
	// Config says of a path that it is a configuration's, which has keys of its own. nil: none is.
	Config func(path string) bool
	// Delay is how long the typing must have stopped before a changed document is checked.
	Delay time.Duration
}

// A server belongs to the goroutine of serve.
type server struct {
	Options
	language  *schema // of pipelines
	config    *schema // of configurations
	functions []pipeline.Function
	out       io.Writer
	docs      map[string]*doc // by URI
	changed   map[string]bool // documents that are to be checked when the typing stops
	timer     *time.Timer
	ending    bool // shutdown was asked for
}

// errExit ends the server at the editor's word.
var errExit = errors.New("exit")

// ErrNoShutdown says that the editor left without saying goodbye: by the protocol the
// process then exits with status 1.
var ErrNoShutdown = errors.New("lsp: the editor exited without `shutdown`")

// Serve speaks with one editor until it exits or closes the stream.
func Serve(in io.Reader, out io.Writer, o Options) error {
	language, err := readLanguage(pipeline.LanguageSchema())
	if err != nil {
		return err
	}
	config, err := readLanguage(pipeline.ConfigSchema())
	if err != nil {
		return err
	}
	s := &server{
		Options: o, language: language, config: config, functions: pipeline.Functions(), out: out,
		docs: map[string]*doc{}, changed: map[string]bool{}, timer: time.NewTimer(time.Hour),
	}
	defer s.timer.Stop()
	messages := make(chan message)
	done := make(chan struct{})
	var group errgroup.Group
	group.Go(func() error { return receive(in, messages, done) })
	err = s.serve(messages)
	close(done)
	if errors.Is(err, errExit) {
		if err = group.Wait(); err == nil && !s.ending {
			err = ErrNoShutdown
		}
		return err
	}
	if err != nil {
		return err // the reader may wait for an editor that says nothing
	}
	return group.Wait()
}

// languageOf is the schema of the keys of a document.
func (s *server) languageOf(d *doc) *schema {
	if s.Config != nil && s.Config(d.path) {
		return s.config
	}
	return s.language
}

// receive hands over what the editor sends, up to its exit.
func receive(in io.Reader, messages chan<- message, done <-chan struct{}) error {
	defer close(messages)
	r := bufio.NewReader(in)
	for {
		m, err := readMessage(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case messages <- m:
		case <-done:
			return nil
		}
		if m.Method == "exit" {
			return nil
		}
	}
}

// serve handles one message after the other. It returns nil when there are no more.
func (s *server) serve(messages <-chan message) error {
	for {
		select {
		case m, ok := <-messages:
			if !ok {
				return nil
			}
			if err := s.handle(m); err != nil {
				return err
			}
		case <-s.timer.C:
			if err := s.checkChanged(); err != nil {
				return err
			}
		}
	}
}

// handle answers one message. The error says that the editor is gone.
func (s *server) handle(m message) error {
	if m.Method == "exit" {
		return errExit
	}
	if m.Error != nil && m.Method == "" && len(m.ID) == 0 {
		return writeMessage(s.out, message{ID: json.RawMessage("null"), Error: m.Error})
	}
	if m.Method == "" {
		return nil // a response; nothing is asked of editors
	}
	result, problem, err := s.call(m)
	if err != nil || len(m.ID) == 0 {
		return err
	}
	reply := message{ID: m.ID, Error: problem}
	if problem == nil {
		if reply.Result, err = json.Marshal(result); err != nil {
			return err
		}
	}
	return writeMessage(s.out, reply)
}

// call runs the method of a message. A defect costs the editor one answer, and not
// its server.
func (s *server) call(m message) (result any, problem *rpcError, err error) {
	defer func() {
		if r := recover(); r != nil {
			problem = &rpcError{codeInternal, fmt.Sprintf("a defect of flow: %v", r)}
		}
	}()
	if s.ending {
		return nil, &rpcError{codeInvalidRequest, "the server is shutting down"}, nil
	}
	switch m.Method {
	case "initialize":
		return map[string]any{
			"capabilities": json.RawMessage(capabilities), "serverInfo": map[string]string{"name": "flow"},
		}, nil, nil
	case "shutdown":
		s.ending = true
		return nil, nil, nil
	case "textDocument/didOpen", "textDocument/didChange", "textDocument/didSave", "textDocument/didClose":
		return nil, nil, s.sync(m)
	}
	return s.ask(m)
}

// sync keeps the server's documents as the editor's.
func (s *server) sync(m message) error {
	var p changeParams
	if json.Unmarshal(m.Params, &p) != nil {
		return nil // a notification has no answer
	}
	uri := p.TextDocument.URI
	switch m.Method {
	case "textDocument/didOpen":
		s.docs[uri] = newDoc(uri, p.TextDocument.Text, nil)
	case "textDocument/didChange":
		if n := len(p.ContentChanges); n > 0 {
			s.docs[uri] = newDoc(uri, p.ContentChanges[n-1].Text, s.docs[uri])
			s.changed[uri] = true
			s.timer.Reset(s.Delay)
		}
		return nil
	case "textDocument/didClose":
		delete(s.docs, uri)
		delete(s.changed, uri)
		return s.notify("textDocument/publishDiagnostics", publishParams{URI: uri, Diagnostics: []diagnostic{}})
	}
	return s.check(uri)
}

// checkChanged checks what was changed before the typing stopped.
func (s *server) checkChanged() error {
	for uri := range s.changed {
		if err := s.check(uri); err != nil {
			return err
		}
	}
	return nil
}

// check tells the editor everything that is wrong with a document.
func (s *server) check(uri string) error {
	delete(s.changed, uri)
	d := s.docs[uri]
	if d == nil {
		return nil
	}
	errs, warnings := s.Check(d.path, []byte(d.text))
	out := []diagnostic{}
	for _, e := range errs {
		out = append(out, d.diagnostic(e, severityError))
	}
	for _, w := range warnings {
		out = append(out, d.diagnostic(pipeline.Error(w), severityWarning))
	}
	return s.notify("textDocument/publishDiagnostics", publishParams{URI: uri, Diagnostics: out})
}

func (s *server) notify(method string, params any) error {
	body, err := json.Marshal(params)
	if err != nil {
		return err
	}
	return writeMessage(s.out, message{Method: method, Params: body})
}

// ask answers a question about a place in a document.
func (s *server) ask(m message) (any, *rpcError, error) {
	questions := map[string]func(*doc, position) any{
		"textDocument/completion":     func(d *doc, p position) any { return s.complete(d, p) },
		"textDocument/hover":          func(d *doc, p position) any { return s.hover(d, p) },
		"textDocument/definition":     func(d *doc, p position) any { return s.define(d, p) },
		"textDocument/documentSymbol": func(d *doc, _ position) any { return d.symbols() },
	}
	question := questions[m.Method]
	if question == nil {
		return nil, &rpcError{codeNoMethod, "no method " + m.Method}, nil
	}
	var p positionParams
	if err := json.Unmarshal(m.Params, &p); err != nil {
		return nil, &rpcError{codeInvalidParams, err.Error()}, nil
	}
	d := s.docs[p.TextDocument.URI]
	if d == nil {
		return nil, &rpcError{codeInvalidParams, "the document is not open: " + p.TextDocument.URI}, nil
	}
	p.Position.Line = max(0, min(p.Position.Line, len(d.lines)-1))
	return question(d.edited(p.Position.Line), p.Position), nil, nil
}

// pathOf is the file of a URI; of one that is no file, the URI itself as a name.
func pathOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return uri
	}
	return u.Path
}

func uriOf(path string) string { return (&url.URL{Scheme: "file", Path: path}).String() }
