package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flow/pipeline/dag"
	"flow/state"
	"flow/steps/workspace"
)

func (a *app) stateGCCommand() *cobra.Command {
	g := gc{app: a}
	var older string
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Remove old runs",
		Long: "gc removes the runs that ended, or were left, longer ago than --older-than and that are not among the newest,\n" +
			"as many as --keep says; one of the two is enough. It never removes the newest run, one that is under way or\n" +
			"waits for a person, one that cannot be read, one whose workspaces have work that is nowhere else, nor one that\n" +
			"another run still needs. It says what it keeps of those that were due, and why.",
		Example: "  flow state gc --older-than 30d --dry-run\n  flow state gc --keep 100",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.start(cmd.Context(), older, cmd.Flags().Changed("keep"))
		},
	}
	cmd.Flags().StringVar(&older, "older-than", "", "remove what is older: `30d`, 12h …")
	cmd.Flags().IntVar(&g.keep, "keep", 1, "keep that many of the newest runs")
	cmd.Flags().BoolVar(&g.dry, "dry-run", false, "only say what would be removed")
	cmd.Flags().StringVarP(&g.output, "output", "o", "text", "text, or json: one object a line")
	return cmd
}

// A gc removes runs that are due.
type gc struct {
	*app
	older  time.Duration // 0: whatever their age
	keep   int
	dry    bool
	output string
}

// A gcLine is what became of a run that was due.
type gcLine struct {
	Run    string `json:"run"`
	Status string `json:"status"`
	Action string `json:"action"`        // removed, kept or would remove
	Why    string `json:"why,omitempty"` // it is kept
}

func (g *gc) start(ctx context.Context, older string, keepGiven bool) (err error) {
	if err := oneOf("--output", g.output, "text", "json"); err != nil {
		return err
	}
	if older == "" && !keepGiven {
		return usageError{errors.New("which runs are to go?\nhint: --older-than 30d, --keep 100, or both; with --dry-run first")}
	}
	if g.keep < 0 {
		return usageError{fmt.Errorf("--keep %d is negative\nhint: the newest run is kept in any case", g.keep)}
	}
	if older != "" {
		if g.older, err = age(older); err != nil {
			return err
		}
	}
	return g.withWorktrees(g.output, nil, func(t *worktrees) error { return g.collect(ctx, t) })
}

// age reads a duration, in days too.
func age(text string) (time.Duration, error) {
	var d time.Duration
	number, days := strings.CutSuffix(text, "d")
	n, err := strconv.Atoi(number)
	if d = time.Duration(n) * 24 * time.Hour; !days {
		d, err = time.ParseDuration(text)
	}
	if err != nil || d <= 0 || days && n > 36500 {
		return 0, usageError{fmt.Errorf("--older-than %q is no age\nhint: such as 30d or 12h", text)}
	}
	return d, nil
}

// collect removes the runs that are due, oldest first: the newer ones may need them.
func (g *gc) collect(ctx context.Context, t *worktrees) error {
	runs := slices.Clone(t.runs)
	slices.SortStableFunc(runs, func(a, b state.Summary) int { return cmp.Or(b.Created.Compare(a.Created), strings.Compare(b.ID, a.ID)) })
	needed, err := g.needed(t.store, runs)
	if err != nil {
		return err
	}
	for _, r := range slices.Backward(runs[min(max(g.keep, 1), len(runs)):]) {
		if g.young(r) {
			continue
		}
		line, err := g.one(ctx, t, r, needed[r.ID])
		if err != nil {
			return err
		}
		if err := g.report(line); err != nil {
			return err
		}
	}
	return nil
}

// young reports whether a run is not old enough.
func (g *gc) young(r state.Summary) bool {
	return g.older > 0 && g.now().Sub(lastSeen(r)) <= g.older
}

// lastSeen is when a run ended, or began if it has not.
func lastSeen(r state.Summary) time.Time {
	if r.Ended.IsZero() {
		return r.Created
	}
	return r.Ended
}

// needed are the runs of which another one needs the workspaces, or that it has yet to take
// over, with the id of that other one.
func (g *gc) needed(s *state.Store, runs []state.Summary) (map[string]string, error) {
	needed := map[string]string{}
	for _, r := range runs {
		lenders, err := workspace.Lenders(s.RunDir(r.ID))
		if err != nil {
			return nil, fmt.Errorf("run %s: %w\nhint: flow state check %s", r.ID, err, r.ID)
		}
		for _, id := range lenders {
			needed[id] = r.ID
		}
		if v, err := s.Read(r.ID); err == nil && r.Ended.IsZero() {
			if from, _, _ := carrying(v.Records()); from != nil {
				needed[from.Run] = r.ID
			}
		}
	}
	return needed, nil
}

// one removes a run, or says why not.
func (g *gc) one(ctx context.Context, t *worktrees, r state.Summary, neededBy string) (gcLine, error) {
	line := gcLine{Run: r.ID, Status: r.Status, Action: "kept"}
	switch {
	case r.Status == state.StatusRunning:
		line.Why = "it is under way"
	case r.Status == string(dag.RunWaiting):
		line.Why = "it waits for a person"
	case r.Status == state.StatusDamaged, r.Status == state.StatusNewer:
		line.Why = "it cannot be read; flow state check " + r.ID + " says why"
	case neededBy != "":
		line.Why = "run " + neededBy + " needs it"
	}
	if line.Why != "" {
		return line, nil
	}
	return g.remove(ctx, t, r, line)
}

// remove takes a run away with its workspaces, unless these have work that is nowhere else.
func (g *gc) remove(ctx context.Context, t *worktrees, r state.Summary, line gcLine) (gcLine, error) {
	run, err := t.store.OpenRun(ctx, r.ID)
	if err != nil {
		line.Why = err.Error()
		return line, nil
	}
	defer run.Close()
	if now := run.Summary(); now.Status == string(dag.RunWaiting) || g.young(now) {
		line.Why = "it has just gone on"
		return line, nil
	}
	all, err := workspace.List(run.Dir())
	if err != nil {
		line.Why = err.Error()
		return line, nil
	}
	for _, w := range all {
		if l := t.look(ctx, w); l.Lost != "" {
			line.Why = fmt.Sprintf("the workspace of step %s has work that is nowhere else (%s); flow worktrees %s", w.Path, l.Lost, r.ID)
			return line, nil
		}
	}
	if line.Action = "would remove"; g.dry {
		return line, nil
	}
	for _, w := range all {
		if s, err := t.git.Remove(ctx, w); err != nil || s.Lost != "" {
			return line, errors.Join(err, errors.New("the workspace of step "+w.Path+" of run "+r.ID+" cannot be removed: "+s.Lost))
		}
	}
	line.Action = "removed"
	return line, t.store.Remove(run)
}

func (g *gc) report(l gcLine) error {
	if g.output == "json" {
		return jsonLines(g.out("json"), []gcLine{l})
	}
	text := fmt.Sprintf("%s %s (%s)", l.Action, l.Run, l.Status)
	if l.Why != "" {
		text += ": " + oneLine(l.Why, 300)
	}
	_, err := fmt.Fprintln(g.stdout, text)
	return err
}
