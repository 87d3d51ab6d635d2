package dag_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"flow/pipeline"
	"flow/pipeline/dag"
)

var update = flag.Bool("update", false, "write what the machine says into testdata/stories")

// TestStories plays each testdata/stories/*.txt: blocks of a command with lines of
// input, then "----", then what comes out.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(want) {
				t.Errorf("the machine says otherwise (-update to accept):\n%s", got)
			}
		})
	}
}

// play runs a story and returns it with what came out.
func play(t *testing.T, story string) string {
	t.Helper()
	var out strings.Builder
	teller := &teller{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	for block := range strings.SplitSeq(strings.TrimSpace(story), "\n\n") {
		if strings.HasPrefix(block, "#") {
			out.WriteString(block + "\n\n")
			continue
		}
		input, _, found := strings.Cut(block, "\n----")
		if !found {
			t.Fatalf("no ---- in block:\n%s", block)
		}
		command, lines, _ := strings.Cut(input, "\n")
		fmt.Fprintf(&out, "%s\n----\n%s\n\n", input, strings.TrimSpace(teller.do(command, lines)))
	}
	return strings.TrimSpace(out.String()) + "\n"
}

// A teller runs the commands of a story.
type teller struct {
	plan *pipeline.Plan
	m    *dag.Machine
	now  time.Time
	said []dag.Fact // applied
}

func (s *teller) do(command, input string) string {
	words := strings.Fields(command)
	switch words[0] {
	case "plan":
		s.plan = parsePlan(words[1:], input)
		s.m, s.said = dag.New(s.plan, dag.Options{}), nil
		return "ok"
	case "later":
		d, err := time.ParseDuration(words[1])
		s.now = s.now.Add(d)
		return fmt.Sprint("ok ", err == nil)
	case "take":
		return s.take()
	case "release":
		s.m.Release(words[1])
		return "ok"
	case "apply":
		return s.applyAll(input)
	case "state":
		return s.state()
	case "crash": // forget all but the facts, and say that what ran is lost
		return s.crash()
	case "resume":
		return s.give(s.m.Reopenable()...)
	}
	return "no such command"
}

func (s *teller) take() string {
	var out strings.Builder
	for _, t := range s.m.Take(s.now) {
		fmt.Fprintf(&out, "%s %s %d", t.Action, t.Path, t.Attempt)
		if t.Previous > 0 {
			fmt.Fprintf(&out, " after %d %s", t.Previous, t.PreviousKind)
		}
		if t.Needs.Failed {
			out.WriteString(" (a need failed)")
		}
		if t.Needs.Cancelled {
			out.WriteString(" (a need was cancelled)")
		}
		for _, id := range t.Step.Refs {
			fmt.Fprintf(&out, " %s", show(id, t.Inputs[id]))
		}
		out.WriteString(where(t) + "\n")
	}
	if out.Len() == 0 {
		return "nothing"
	}
	return out.String()
}

// where tells what is particular of a task of a step that grew, or grows, instances.
func where(t dag.Task) string {
	var out strings.Builder
	if t.Step.Contest != nil && t.Step.Agent != "" {
		out.WriteString(" by " + t.Step.Agent)
	}
	if t.Owns {
		out.WriteString(" owns")
	}
	for _, e := range t.Around {
		if e.Form != dag.Group || e.Result != nil {
			fmt.Fprintf(&out, " in %s %s %d%s", e.Form, e.Path, e.Index, e.Result)
		}
	}
	if t.Before != nil {
		out.WriteString(" " + show("before", *t.Before))
	}
	if t.Inner != nil {
		out.WriteString(" " + show("inner", *t.Inner))
	}
	return out.String()
}

// show tells a step and what is in it: "fix=failed[0=succeeded"a" 1=failed]".
func show(id string, in dag.Input) string {
	text := fmt.Sprintf("%s=%s%s", id, in.Status, in.Result)
	if in.Rounds > 0 {
		text += fmt.Sprintf("x%d", in.Rounds)
	}
	var inner []string
	for i, item := range in.Items {
		inner = append(inner, show(strconv.Itoa(i), item))
	}
	for _, id := range slices.Sorted(maps.Keys(in.Steps)) {
		inner = append(inner, show(id, in.Steps[id]))
	}
	if len(inner) > 0 {
		text += "[" + strings.Join(inner, " ") + "]"
	}
	return text
}

// applyAll applies lines like "failed edit 1 final why", "started edit", "failed edit 1 retry=10s" or
// "opened fix 1 count=3"; "did edit 1 why" starts a step that succeeds.
func (s *teller) applyAll(input string) string {
	var out []string
	for line := range strings.SplitSeq(input, "\n") {
		f := s.fact(strings.Fields(line))
		if f.Kind == "did" {
			out = append(out, s.give(dag.Fact{Kind: dag.Started, Path: f.Path, Attempt: f.Attempt}))
			f.Kind = dag.Succeeded
		}
		out = append(out, s.give(f))
	}
	return strings.Join(out, "\n")
}

func (s *teller) fact(words []string) dag.Fact {
	f := dag.Fact{Kind: dag.Kind(words[0])}
	for i, w := range words[1:] {
		d, isRetry := strings.CutPrefix(w, "retry=")
		count, isCount := strings.CutPrefix(w, "count=")
		n, err := strconv.Atoi(w)
		switch {
		case i == 0:
			f.Path = strings.TrimPrefix(w, "RUN")
		case err == nil:
			f.Attempt = n
		case w == "final":
			f.Final = true
		case isRetry:
			wait, _ := time.ParseDuration(d)
			f.RetryAt = s.now.Add(wait)
		case isCount:
			f.Count, _ = strconv.Atoi(count)
		default:
			f.Reason, f.Result = w, []byte(strconv.Quote(w))
		}
	}
	return f
}

func (s *teller) give(facts ...dag.Fact) string {
	var out []string
	for _, f := range facts {
		line := "ok"
		if err := s.m.Apply(f); err != nil {
			line = err.Error()
		} else {
			s.said = append(s.said, f)
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s: %s", f.Kind, f.Path, line)))
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "\n")
}

func (s *teller) crash() string {
	s.m = dag.New(s.plan, dag.Options{})
	for _, f := range s.said {
		if err := s.m.Apply(f); err != nil {
			return err.Error()
		}
	}
	var lost []dag.Fact
	for _, path := range s.m.Unfinished() {
		lost = append(lost, dag.Fact{Kind: dag.Lost, Path: path})
	}
	return s.give(lost...)
}

func (s *teller) state() string {
	var out strings.Builder
	for _, st := range s.m.Steps() {
		fmt.Fprintf(&out, "%s %s %d", st.Path, st.Status, st.Attempts)
		for _, more := range []struct{ name, value string }{
			{"reason", st.Reason}, {"root", st.Root}, {"waiting", s.m.Waiting(st.Path)},
		} {
			if more.value != "" {
				fmt.Fprintf(&out, " %s=%q", more.name, more.value)
			}
		}
		out.WriteString("\n")
	}
	fmt.Fprintf(&out, "run %s stopping=%t done=%t idle=%t", s.m.Status(), s.m.Stopping(), s.m.Done(), s.m.Idle())
	if c := s.m.Cancels(); len(c) > 0 {
		fmt.Fprintf(&out, " cancels=%v", c)
	}
	if w := s.m.Waits(); len(w) > 0 {
		fmt.Fprintf(&out, " waits=%v", w)
	}
	if w := s.m.Wake(s.now); !w.IsZero() {
		fmt.Fprintf(&out, " wake=%s", w.Sub(s.now))
	}
	return out.String()
}

// parsePlan reads a plan: options, then a step a line, those of a group indented by two more.
func parsePlan(options []string, input string) *pipeline.Plan {
	p := &pipeline.Plan{AgentLimits: map[string]int{}}
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		n, _ := strconv.Atoi(value)
		switch name {
		case "limit":
			p.Limit = n
		case "fail-fast":
			p.FailFast = true
		default:
			p.AgentLimits[name] = n
		}
	}
	lines := strings.Split(input, "\n")
	p.Steps = parseSteps(&lines, "")
	return p
}

func parseSteps(lines *[]string, indent string) []pipeline.Step {
	var steps []pipeline.Step
	for len(*lines) > 0 && strings.HasPrefix((*lines)[0], indent) {
		words := strings.Fields((*lines)[0])
		*lines = (*lines)[1:]
		s := parseStep(words)
		switch s.Kind {
		case pipeline.KindGroup:
			s.Steps = parseSteps(lines, indent+"  ")
		case pipeline.KindCall:
			agents := map[string]pipeline.Profile{"theirs": {Name: "theirs", Use: "codex"}}
			s.Call = &pipeline.Call{Plan: &pipeline.Plan{FailFast: s.FailFast, Agents: agents}}
			s.Call.Plan.Steps = parseSteps(lines, indent+"  ")
		default:
		}
		steps = append(steps, s)
	}
	return steps
}

func parseStep(words []string) pipeline.Step {
	s := pipeline.Step{ID: words[0], Kind: pipeline.KindRun}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "needs":
			s.Needs = strings.Split(value, ",")
		case "refs":
			s.Refs = strings.Split(value, ",")
		case "group":
			s.Kind = pipeline.KindGroup
		case "call":
			s.Kind = pipeline.KindCall
		case "ask":
			s.Kind = pipeline.KindAsk
		case "agent":
			s.Kind, s.Agent = pipeline.KindPrompt, value
		case "continue", "fork":
			s.Session = pipeline.Session{Mode: pipeline.SessionMode(name), Root: value}
		case "tolerated":
			s.ContinueOnError = true
		case "handles":
			s.Handles = true
		case "fail-fast":
			s.FailFast = true
		default:
			parseMany(&s, name, value)
		}
	}
	return s
}

// parseMany reads what makes many of one step: "each", "each=2" (at once), "loop",
// "race=codex,claude" or "vote=…" with "judge"; and "isolated" and "previous".
func parseMany(s *pipeline.Step, name, value string) {
	switch name {
	case "each":
		atOnce, _ := strconv.Atoi(value)
		s.Foreach = &pipeline.Foreach{MaxParallel: atOnce}
	case "loop":
		s.Repeat = &pipeline.Repeat{}
	case "race", "vote":
		s.Kind = pipeline.KindPrompt
		s.Contest = &pipeline.Contest{Agents: strings.Split(value, ","), Race: name == "race"}
	case "judge":
		s.Contest.Judge = &pipeline.Step{ID: "judge", Kind: pipeline.KindPrompt, Agent: value}
	case "isolated":
		s.Isolation = &pipeline.Isolation{Mode: "worktree"}
	case "previous":
		s.Previous = true
	}
}
