package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"flow/cmd/flow/internal/console"
	"flow/pipeline/local"
	"flow/steps"
)

// A prompter puts questions to the person at the terminal, one after the other. It is
// a steps.Asker.
type prompter struct {
	in       io.Reader
	progress *progress
	by       string
	now      func() time.Time

	turn  chan struct{} // holds a value while a question stands
	lines chan string   // what was typed; closed at the end of it. nil before the first question
}

func (a *app) newPrompter(p *progress) *prompter {
	return &prompter{in: a.stdin, progress: p, by: a.user(), now: a.now, turn: make(chan struct{}, 1)}
}

// user is who answers, as far as the environment says.
func (a *app) user() string { return cmp.Or(a.getenv("USER"), a.getenv("LOGNAME")) }

// interactive reports whether questions can be put to a person: input and standard error
// are a terminal that is ours to read from.
func (a *app) interactive(f driveFlags) bool {
	return !f.noInput && (f.output != "json" || isTerminal(a.stdout)) && isTerminal(a.stderr) && foreground(a.stdin)
}

func isTerminal(f any) bool {
	file := console.File(f)
	if file == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// columns is the width of a terminal, 0 where it is not known.
func columns(f any) int {
	file := console.File(f)
	if file == nil {
		return 0
	}
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

// foreground reports whether f is a terminal that this process may read from. One in the
// background would be stopped when it tries.
func foreground(f any) bool {
	file := console.File(f)
	if file == nil {
		return false
	}
	group, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// Answer asks until it is answered or ctx ends.
func (p *prompter) Answer(ctx context.Context, q steps.Question) (steps.Answer, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return steps.Answer{}, context.Cause(ctx)
	}
	p.listen()
	p.show(q)
	defer p.progress.prompt("")
	for {
		select {
		case <-ctx.Done():
			return steps.Answer{}, context.Cause(ctx)
		case line, ok := <-p.lines:
			if !ok {
				return steps.Answer{}, local.ErrNobody
			}
			p.progress.entered()
			if answer, ok := p.understand(q, strings.TrimSpace(line)); ok {
				return answer, nil
			}
		}
		p.progress.prompt(wanted(q))
	}
}

// read reads the terminal for as long as the process lives: a read cannot be taken back.
func (p *prompter) read(lines chan<- string) {
	defer close(lines)
	in := bufio.NewScanner(p.in)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		lines <- in.Text()
	}
}

// listen begins to read, and later drops the line that was typed after the question
// before was answered: it was not meant for this one.
func (p *prompter) listen() {
	if p.lines == nil {
		p.lines = make(chan string)
		go p.read(p.lines)
		return
	}
	select {
	case <-p.lines:
	default:
	}
}

func (p *prompter) show(q steps.Question) {
	text := fmt.Sprintf("? %s  %s", q.Path, q.Text)
	if !q.Deadline.IsZero() {
		text += fmt.Sprintf("\n  (until %s)", q.Deadline.Local().Format(time.DateTime))
	}
	if q.Problem != "" {
		text += "\n  " + q.Problem
	}
	if len(q.Form) > 0 {
		text += "\n  the answer is JSON that matches: " + string(q.Form)
	}
	p.progress.print(text)
	p.progress.prompt(wanted(q))
}

// wanted is what stands before the cursor.
func wanted(q steps.Question) string {
	if len(q.Form) > 0 {
		return "  answer, or n to deny: "
	}
	if q.Permission != nil {
		return "  permit? [y/N] "
	}
	return "  approve? [y/N] "
}

// filledIn is what a person wrote into a form: JSON, or where the form takes text, that
// text without the quotes.
func filledIn(q steps.Question, text string) json.RawMessage {
	raw := json.RawMessage(text)
	quoted, err := json.Marshal(text)
	if err != nil || q.Check(steps.Answer{Approved: true, Answer: raw}) == nil {
		return raw
	}
	if q.Check(steps.Answer{Approved: true, Answer: quoted}) == nil {
		return quoted
	}
	return raw
}

// understand reads a line. It is false for one that is no answer.
func (p *prompter) understand(q steps.Question, line string) (steps.Answer, bool) {
	a := steps.Answer{By: p.by, At: p.now().UTC()}
	switch word := strings.ToLower(line); {
	case word == "n" || word == "no" || word == "" && len(q.Form) == 0:
		return a, true
	case len(q.Form) > 0 && word != "":
		a.Approved, a.Answer = true, filledIn(q, line)
		if err := q.Check(a); err != nil {
			p.progress.print("  " + err.Error())
			return a, false
		}
		return a, true
	case len(q.Form) == 0 && (word == "y" || word == "yes"):
		a.Approved = true
		return a, true
	}
	return a, false
}
