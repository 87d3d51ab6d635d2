package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"flow/agents"
	"flow/cmd/flow/internal/console"
	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/state"
	"flow/steps"
)

// progress tells a person on standard error what a run is doing, a line for each
// thing worth knowing. It may be used concurrently.
type progress struct {
	mu    sync.Mutex
	w     io.Writer
	quiet bool
	now   func() time.Time
	began time.Time
	steps map[string]planned // by path without the numbers of items, rounds and candidates
	width int                // of the longest step path
	plays bool               // the run is a replay
	crowd map[string]*crowd  // by path of a `foreach` with many items

	asking string // what stands before the cursor while a person is asked
	erases bool   // the terminal knows control sequences, and is to have them
}

func (a *app) newProgress(quiet bool) *progress {
	erases := a.getenv("NO_COLOR") == "" && a.getenv("TERM") != "dumb"
	return &progress{w: a.stderr, quiet: quiet, now: a.now, began: a.now(), erases: erases}
}

func (p *progress) begin(h state.Header, plan *pipeline.Plan) {
	p.steps, p.crowd = plannedSteps(plan), map[string]*crowd{}
	for path := range p.steps {
		p.width = min(max(p.width, len(path)), 32)
	}
	p.plays = h.Replays != ""
	what := plan.Name
	if h.Simulated {
		what += " (simulated agents)"
	}
	if p.plays {
		what += " (a replay of run " + h.Replays + ")"
	}
	p.printf("run %s  %s", h.ID, what)
}

// A planned step is one of the pipeline or of one that it calls.
type planned struct {
	*pipeline.Step
	plan *pipeline.Plan
}

// plannedSteps are the steps of a pipeline, of those that it calls, and its judges, by the
// path that the plan has for them.
func plannedSteps(plan *pipeline.Plan) map[string]planned {
	all := map[string]planned{}
	plan.Each(func(prefix string, q *pipeline.Plan) {
		q.Walk(func(path string, s *pipeline.Step) {
			all[prefix+path] = planned{s, q}
			if s.Contest != nil && s.Contest.Judge != nil {
				all[prefix+path+".judge"] = planned{s.Contest.Judge, q}
			}
		})
	})
	return all
}

// note prints a line about the run as a whole.
func (p *progress) note(text string) { p.printf("%s", text) }

// fact is called with every fact about the run, in order.
func (p *progress) fact(f dag.Fact) {
	if f.Path == "" {
		return // about the run as a whole: the end says it
	}
	if f.Kind == dag.Opened && f.Count > crowded {
		p.crowd[f.Path] = &crowd{items: f.Count}
		p.step("▶", f.Path, plural(f.Count, "item"))
		return
	}
	if c, path := p.among(f.Path); c != nil && (f.Kind == dag.Started || f.Kind == dag.Succeeded || f.Kind == dag.Skipped) {
		if f.Kind != dag.Started && c.another() {
			p.step("·", path, plural(c.ended, "step")+" done")
		}
		return
	}
	switch f.Kind {
	case dag.Started:
		p.step("▶", f.Path, p.describe(f))
	case dag.Succeeded:
		p.step("✔", f.Path, strings.Join(append([]string{"done"}, spent(f)...), "  "))
	case dag.Failed:
		text := "failed: " + f.Reason
		if wait := f.RetryAt.Sub(p.now()).Round(100 * time.Millisecond); !f.Final {
			text += fmt.Sprintf("; next attempt in %s", max(0, wait))
		}
		p.step("✘", f.Path, text)
	case dag.Skipped:
		p.step("–", f.Path, "skipped: "+f.Reason)
	case dag.Stopped:
		p.step("■", f.Path, "stopped: "+f.Reason)
	case dag.Lost:
		p.step("↻", f.Path, "was under way when flow ended")
	case dag.Suspended:
		p.step("?", f.Path, "waits for an answer")
	default:
	}
}

func (p *progress) describe(f dag.Fact) string {
	s := p.steps[steps.StaticPath(f.Path)]
	text := "started"
	switch {
	case s.Step == nil:
	case s.Kind == pipeline.KindAsk:
		text, _, _ = strings.Cut(strings.TrimSpace(s.Ask.Src), "\n")
	case s.Kind == pipeline.KindPrompt:
		text = s.Agent
		if n, err := strconv.Atoi(f.Path[strings.LastIndexByte(f.Path, '.')+1:]); err == nil && s.Contest != nil && n < len(s.Contest.Agents) {
			text = s.Contest.Agents[n]
		}
		if r, err := steps.DecodeResult(f.Result); err == nil && r.Agent != "" {
			text = r.Agent // it stands in
		}
		if use := s.plan.Agents[text].Use; use != text {
			text += " (" + use + ")"
		}
	case s.Kind == pipeline.KindRun:
		text, _, _ = strings.Cut(strings.TrimSpace(s.Run.Src), "\n")
		text = "$ " + text
	case s.Kind == pipeline.KindMerge:
		text = "merge " + strings.Join(s.Merge.From, ", ")
	}
	if f.Attempt > 1 {
		text += fmt.Sprintf("  (attempt %d)", f.Attempt)
	}
	return text
}

// crowded is how many items of a `foreach` are still told of one by one.
const crowded = 50

// A crowd is a `foreach` whose items are too many for a line each.
type crowd struct{ items, ended int }

// another counts a step that has ended, and says whether that is worth a line.
func (c *crowd) another() bool {
	c.ended++
	return c.ended%max(c.items/10, 1) == 0
}

// among returns the crowd that a path is in, with its path.
func (p *progress) among(path string) (*crowd, string) {
	if len(p.crowd) == 0 {
		return nil, ""
	}
	for i, r := range path {
		if r != '.' {
			continue
		}
		if c := p.crowd[path[:i]]; c != nil {
			return c, path[:i]
		}
	}
	return nil, ""
}

// spent is what an attempt took: time, tokens, money.
func spent(f dag.Fact) []string {
	r, err := steps.DecodeResult(f.Result)
	if err != nil {
		return nil
	}
	var parts []string
	if r.DurationMS > 0 { // what only holds other steps took no time of its own
		parts = append(parts, (time.Duration(r.DurationMS) * time.Millisecond).Round(100*time.Millisecond).String())
	}
	if r.Usage != nil {
		parts = append(parts, fmt.Sprintf("%d tokens", r.Usage.TotalTokens))
	}
	if r.CostUSD != nil {
		parts = append(parts, fmt.Sprintf("$%.4f", *r.CostUSD))
	}
	if r.Stdout.Cut {
		parts = append(parts, "output cut")
	}
	if n := len(r.Leftovers); n > 0 {
		parts = append(parts, plural(n, "leftover process")+" ended")
	}
	return parts
}

// event shows the events that tell a person something new.
func (p *progress) event(e agents.Event) {
	switch b := e.Body.(type) {
	case agents.ToolStarted:
		p.step("·", e.Step, strings.TrimSpace(b.NativeName+" "+b.Target))
	case agents.PermissionDecided:
		if b.Decision == agents.EffectDeny {
			p.step("·", e.Step, "denied "+strings.TrimPrefix(b.Message, "denied "))
		}
	case agents.FileChanged:
		p.step("·", e.Step, string(b.ChangeType)+" "+b.FilePath)
	case agents.Retry:
		p.step("·", e.Step, "the agent tries again: "+b.Message)
	case agents.System:
		if e.Native == nil { // flow's own word
			p.step("·", e.Step, b.Subtype+": "+b.Message)
		}
	case agents.RateLimit:
		if b.Status != "allowed" {
			p.step("·", e.Step, "rate limit: "+b.Status)
		}
	}
}

// end prints what became of the run, and what to do next.
func (p *progress) end(r *report) {
	var lines []string
	skipped := map[string]int{}
	for _, s := range r.Steps {
		if s.root != "" && s.Status == string(dag.SkippedStep) {
			skipped[s.root]++
		}
	}
	for _, s := range r.Steps {
		if s.failed() {
			lines = append(lines, failure(s, skipped[s.path]))
		}
	}
	if r.Error != "" {
		lines = append(lines, r.Error)
	}
	took := p.now().Sub(p.began).Round(100 * time.Millisecond)
	lines = append(lines, fmt.Sprintf("run %s %s in %s%s", r.Run, r.Status, took, total(r)))
	switch {
	case r.Status == string(dag.Waiting):
		lines = append(lines, waiting(r)...)
	case r.hint != "":
		lines = append(lines, "hint: "+r.hint)
	case r.Status != string(dag.OK) && !p.plays:
		lines = append(lines, "hint: "+r.goOn())
	case p.quiet:
		return // quiet means no progress; a failure is never without a reason
	}
	p.print(strings.Join(lines, "\n"))
}

// waiting says what the run waits for and how that is answered, a line for each step.
func waiting(r *report) []string {
	var lines []string
	for _, s := range r.Steps {
		if s.Question == nil || s.Status != string(dag.Waiting) {
			continue
		}
		say := "[--deny]"
		if len(s.Question.Form) > 0 {
			say = "--answer JSON"
		}
		lines = append(lines, fmt.Sprintf("step %s asks: %s", s.path, s.Question.Text),
			fmt.Sprintf("hint: flow approve %s %s %s", r.Run, s.path, say))
	}
	return lines
}

func failure(s stepReport, skipped int) string {
	text := "step " + s.path
	if s.Agent != nil {
		text += " (" + *s.Agent + ")"
	}
	if s.Error != nil {
		text += " failed: " + printable(*s.Error)
	}
	if s.tolerated {
		text += " (continue-on-error)"
	}
	if skipped > 0 {
		text += "; skipped for it: " + plural(skipped, "step")
	}
	if s.Stderr != nil {
		text += "\nits standard error ended with:\n  " + strings.ReplaceAll(*s.Stderr, "\n", "\n  ")
	}
	if s.Hint != nil {
		text += "\nhint: " + *s.Hint
	}
	return text
}

// plural counts things: "1 step", "2 steps", "2 processes".
func plural(n int, thing string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(thing, "s"):
		thing += "es"
	default:
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func total(r *report) string {
	var (
		tokens int64
		cost   float64
		paid   bool
	)
	for _, s := range r.Steps {
		if s.form != dag.Single {
			continue // its result is that of a step within it
		}
		if s.Usage != nil {
			tokens += s.Usage.TotalTokens
		}
		if s.CostUSD != nil {
			cost, paid = cost+*s.CostUSD, paid || *s.CostUSD > 0
		}
	}
	text := ""
	if tokens > 0 {
		text = fmt.Sprintf(", %d tokens", tokens)
	}
	if paid {
		text += fmt.Sprintf(", $%.4f", cost)
	}
	return text
}

func (p *progress) step(mark, path, text string) {
	p.printf("%s %-*s  %s", mark, p.width, path, oneLine(text, 160))
}

func (p *progress) printf(format string, args ...any) {
	if !p.quiet {
		p.print(fmt.Sprintf(format, args...))
	}
}

func (p *progress) print(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking == "" {
		fmt.Fprintln(p.w, text)
		return
	}
	// The question stays the last line of the terminal.
	p.leaveLine()
	fmt.Fprintf(p.w, "%s\n%s", text, p.asking)
}

// eraseLine empties the line of the terminal that the cursor is in. It is the only control
// sequence that flow writes.
const eraseLine = "\r\x1b[K"

// leaveLine takes the question away, or on a terminal that cannot do that or shows it in
// several lines, goes on below it.
func (p *progress) leaveLine() {
	if p.erases && utf8.RuneCountInString(p.asking) < columns(p.w) {
		console.Control(p.w, eraseLine)
		return
	}
	fmt.Fprintln(p.w)
}

// prompt shows what stands before the cursor while a person is asked; "" ends that.
func (p *progress) prompt(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking != "" {
		p.leaveLine()
	}
	p.asking = text
	fmt.Fprint(p.w, text)
}

// entered says that the person has ended the line of the question.
func (p *progress) entered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asking = ""
}

// printable is a text of others with which the line goes on: it is cleaned by itself, lest a
// control sequence that it does not end takes in what follows. The console cleans the others.
func printable(s string) string { return console.Clean(s) }

// oneLine makes text that an agent wrote fit for a line of a table: no control characters,
// one line, at most limit characters.
func oneLine(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, console.Clean(s))
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}
