package policy

import (
	"bytes"
	"path"
	"slices"
	"strings"
	"unicode"

	"mvdan.cc/sh/v3/syntax"

	"flow/agents"
)

// What goes beyond these is not looked into, and counts as what cannot be told.
const (
	maxNesting = 8        // scripts and commands within others (sh -c, eval, nohup)
	maxScript  = 64 << 10 // bytes
)

// script judges a shell script: every simple command in it, wherever it stands, and
// every file that a redirection opens.
func (p *Policy) script(src string) Decision { return p.nested(src, 0) }

func (p *Policy) nested(src string, depth int) Decision {
	unconditional := p.anyCommand()
	switch {
	case unconditional == nil:
		return p.scan(src, depth)
	case unconditional.Effect != Allow:
		return *unconditional
	}
	if d := p.open().scan(src, depth); d.Effect != Allow {
		return d
	}
	return *unconditional
}

// open is p where it allows every command: only what is protected is still asked about.
func (p *Policy) open() *Policy {
	open := *p
	open.fallback = Allow
	open.rules = slices.DeleteFunc(slices.Clone(p.rules), func(r rule) bool { return r.effect != Allow })
	return &open
}

// scan judges the parts of a script, each by itself.
func (p *Policy) scan(src string, depth int) Decision {
	if depth > maxNesting || len(src) > maxScript {
		return p.opaque(src[:min(len(src), 200)], "which is too long or too deep to be followed")
	}
	if src == "" && depth == 0 {
		return p.opaque("a command", "which the agent does not tell")
	}
	if !legible(src) {
		return p.opaque(src, "which has characters that shells do not agree on")
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(src), "")
	if err != nil {
		return p.opaque(src, "which cannot be read as a script")
	}
	s := scan{p: p, depth: depth, moved: movesAway(file, p), set: assigned(file)}
	syntax.Walk(file, s.node)
	if !s.judged { // nothing in it does anything
		return Decision{Effect: Allow, Why: "an empty script"}
	}
	return s.d
}

// anyCommand is the decision on all scripts alike, where there is one: every rule about
// the shell is about any command, and there are no rules for redirections either.
func (p *Policy) anyCommand() *Decision {
	var all *Decision
	for i, r := range p.rules {
		switch {
		case r.match != nil && about(r, "shell"), r.effect != Allow && (writes(r.Tool) || r.Tool == "read_file"):
			return nil
		case about(r, "shell") && (all == nil || r.effect.weight() > all.Effect.weight()):
			all = &Decision{Effect: r.effect, Rule: &p.rules[i].Rule, Why: "any command"}
		}
	}
	return all
}

// opaque is the decision on what cannot be told from the text. It is asked wherever a
// rule forbids something that it might do.
func (p *Policy) opaque(what, why string) Decision {
	d := p.decide("shell", what, func(r rule) bool { return r.match == nil })
	d.Why = "shell " + what + ", " + why
	if d.Effect.weight() < Ask.weight() && p.restricts("shell") {
		d.Effect, d.Rule = Ask, nil
	}
	return d
}

// runs is the decision on what c runs, when that cannot be told: what a rule allows by
// its name is still asked wherever another rule forbids something.
func (p *Policy) runs(c command, whole Decision) Decision {
	if whole.Effect == Allow && whole.Rule != nil && !p.restricts("shell") {
		return whole
	}
	return p.opaque(c.text(), "which runs what cannot be told")
}

// A scan walks through one script.
type scan struct {
	p      *Policy
	depth  int
	moved  bool     // it changes its directory: relative paths are not known
	set    []string // the variables that it sets
	judged bool
	d      Decision
}

func (s *scan) add(d Decision) {
	if !s.judged || d.Effect.weight() > s.d.Effect.weight() {
		s.d = d
	}
	s.judged = true
}

func (s *scan) node(n syntax.Node) bool {
	if evaluates(n) {
		s.add(s.p.opaque(source(n), "which may run a text that is quoted in it"))
	}
	switch n := n.(type) {
	case *syntax.CallExpr:
		s.call(n)
	case *syntax.DeclClause: // export PATH=…, declare …
		s.add(s.p.simple(command{words: []word{{text: source(n), static: true}}}))
	case *syntax.Redirect:
		s.redirect(n)
	}
	return true
}

// call judges a simple command, and what it runs if it is there to run another.
func (s *scan) call(n *syntax.CallExpr) {
	c := command{words: wordsOf(n.Args, s.set)}
	for _, a := range n.Assigns { // PATH=… before a command changes what it is
		c.assigns = append(c.assigns, source(a))
	}
	s.command(c)
}

func (s *scan) command(c command) {
	if s.p.neutral(c) {
		s.add(Decision{Effect: Allow, Why: "shell " + c.text()})
		return
	}
	w := unwrap(c)
	whole := s.p.simple(c)
	if w.kind == plain || w.kind == hidden || w.kind == unclear || c.name() == "find" {
		whole = s.p.shielded(whole, c)
	}
	if w.kind == plain || whole.Effect == Deny && whole.Rule != nil {
		s.add(whole)
		return
	}
	inner := scan{p: s.p, depth: s.depth + 1, moved: s.moved, set: s.set}
	switch {
	case w.kind == hidden:
		inner.add(s.p.runs(c, whole))
	case w.kind == unclear, inner.depth > maxNesting:
		inner.add(s.p.opaque(c.text(), "which runs what cannot be told"))
	case w.script != nil:
		inner.add(s.p.nested(*w.script, inner.depth))
	default:
		for _, one := range w.inner {
			inner.command(one)
		}
	}
	switch {
	case w.kind == transparent && whole.Effect.weight() < Ask.weight(), w.kind == transparent && whole.Rule == nil:
		s.add(inner.d) // it adds nothing of its own
	default:
		s.add(heavier(whole, inner.d))
	}
}

// redirect judges the file that a redirection opens.
func (s *scan) redirect(n *syntax.Redirect) {
	tool := string(agents.ToolWriteFile)
	switch n.Op {
	case syntax.RdrIn:
		tool = string(agents.ToolReadFile)
	case syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc, syntax.DplIn:
		return
	case syntax.DplOut: // 2>&1, but >&FILE as well
		if w := wordOf(n.Word); w.static && strings.Trim(w.text, "0123456789-") == "" {
			return
		}
	}
	w := wordOf(n.Word)
	switch {
	case w.static && slices.Contains([]string{"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin"}, w.text):
	case !w.static, s.moved && !path.IsAbs(w.text):
		s.add(s.p.unknown(tool, w.text, "a redirection to a name that cannot be told"))
	default:
		d := s.p.path(tool, w.text)
		d.Why = "shell redirects to " + d.Why
		s.add(d)
	}
}

// simple judges one simple command by its text.
func (p *Policy) simple(c command) Decision {
	text := c.text()
	disguises := c.disguises()
	d := p.decide("shell", text, func(r rule) bool {
		switch {
		case r.match == nil:
			return true
		case r.effect == Allow:
			return r.match(text) && !c.escapes(r.Pattern)
		}
		return slices.ContainsFunc(disguises, r.match)
	})
	d.Why = "shell " + text
	if d.Effect.weight() < Ask.weight() && (p.mayBeForbidden(c) || p.mentions(c)) {
		return Decision{Effect: Ask, Why: "shell " + text + ", which may come to something that a rule forbids"}
	}
	return d
}

// mentions reports whether the words of a command that a rule forbids stand among the
// arguments of c, in their order: many programs run what they are given. To those that
// read, and to subcommands of the same name, they are words as others.
func (p *Policy) mentions(c command) bool {
	rest := c.assigns
	if !onlyReads(c) {
		rest = append(slices.Clone(rest), texts(c.arguments())...)
		if len(rest) > len(c.assigns) && slices.Contains(manifold(), c.name()) {
			rest = slices.Delete(rest, len(c.assigns), len(c.assigns)+1)
		}
	}
	if len(rest) == 0 {
		return false
	}
	tokens := strings.FieldsFunc(strings.Join(rest, " "), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./", r)
	})
	return slices.ContainsFunc(p.rules, func(r rule) bool {
		return about(r, "shell") && r.effect != Allow && r.match != nil && spoken(strings.Fields(r.Pattern), tokens)
	})
}

// manifold are programs with subcommands, which may be called as other programs are.
func manifold() []string {
	return []string{"git", "docker", "podman", "kubectl", "npm", "pnpm", "yarn", "gh", "glab", "go", "cargo", "conda", "hg", "svn", "rclone", "apt", "apt-get", "brew", "pip", "make"}
}

// spoken reports whether the words of a pattern that are no wildcards stand among tokens
// in their order, the first one as the name of a program.
func spoken(pattern, tokens []string) bool {
	wanted := slices.DeleteFunc(slices.Clone(pattern), func(s string) bool { return strings.Contains(s, "*") })
	if len(wanted) == 0 || len(pattern) == 0 || pattern[0] != wanted[0] {
		return false
	}
	for _, token := range tokens {
		if len(wanted) > 0 && (token == wanted[0] || path.Base(token) == wanted[0] && len(wanted[0]) < len(token) && !strings.HasPrefix(token, "-")) {
			wanted = wanted[1:]
		}
	}
	return len(wanted) == 0
}

// shielded turns a decision that lets a command write what is protected into one that
// asks, unless a rule that allows the command names it.
func (p *Policy) shielded(d Decision, c command) Decision {
	if d.Effect.weight() >= Ask.weight() {
		return d
	}
	named := func(found *protection) bool {
		return slices.ContainsFunc(p.rules, func(r rule) bool {
			return r.effect == Allow && r.match != nil && about(r, "shell") && r.match(c.text()) && strings.Contains(fold(r.Pattern), found.text)
		})
	}
	if file := p.touches(c, named); file != "" {
		return Decision{Effect: Ask, Why: "shell " + c.text() + ", which may write " + file + ": it is protected"}
	}
	return d
}

// mayBeForbidden reports whether words that are not known before the script runs could
// make of c what a rule about the shell forbids.
func (p *Policy) mayBeForbidden(c command) bool {
	if c.known() {
		return false
	}
	return slices.ContainsFunc(p.rules, func(r rule) bool {
		if !about(r, "shell") || r.effect == Allow || r.match == nil {
			return false
		}
		first, _, _ := strings.Cut(r.Pattern, " ")
		name := c.words[0]
		return !name.static || strings.Contains(first, "*") || first == name.text || first == path.Base(name.text)
	})
}

// neutral reports whether c does nothing that a rule could be about.
func (p *Policy) neutral(c command) bool {
	if len(c.assigns) > 0 || len(c.words) == 0 || !c.known() {
		return false
	}
	switch c.words[0].text {
	case ":", "true", "false":
		return true
	case "cd":
		_, inside := p.resolve(c.argument(1))
		return len(c.words) == 2 && inside && p.protected(c.argument(1)) == nil
	}
	return false
}

// movesAway reports whether a script changes its directory: what it then says of files
// is not relative to the agent's.
func movesAway(f *syntax.File, p *Policy) (moved bool) {
	syntax.Walk(f, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			w := wordsOf(c.Args, nil)
			stays := len(w) == 2 && w[1].static && (w[1].text == "." || w[1].text == p.dir)
			moved = moved || slices.Contains([]string{"cd", "pushd", "popd"}, w[0].text) && !stays
		}
		return true
	})
	return moved
}

// source is a part of a script as it stands there.
func source(n syntax.Node) string {
	var b bytes.Buffer
	if syntax.NewPrinter(syntax.SingleLine(true)).Print(&b, n) != nil {
		return "?"
	}
	return strings.TrimSpace(b.String())
}
