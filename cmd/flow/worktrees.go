package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"flow/agents/proc"
	"flow/pipeline/dag"
	"flow/state"
	"flow/state/disk"
	"flow/steps"
	"flow/steps/workspace"
)

func (a *app) worktreesCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "worktrees [RUN]",
		Short: "List the workspaces that isolated steps left",
		Long: "worktrees lists the worktrees and copies that steps with `isolation` work in, of one run or of all.\n" +
			"A workspace is clean (nothing in it differs from what it began at), merged (all its work is in another\n" +
			"branch or tag), changed (it has work that is nowhere else) or gone (its directory is not there).",
		Args: arguments(0, 1, "at most one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withWorktrees(output, args, func(t *worktrees) error { return t.list(cmd.Context()) })
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json: one object a line")
	cmd.AddCommand(a.pruneCommand())
	return cmd
}

func (a *app) pruneCommand() *cobra.Command {
	var (
		output string
		dry    bool
	)
	cmd := &cobra.Command{
		Use:   "prune [RUN]",
		Short: "Remove workspaces and branches in which nothing would be lost",
		Long: "prune removes workspaces with their branches, unless they have work that is nowhere else: changes that\n" +
			"are not committed, commits that no other branch or tag has. It says what it keeps and why. Files that\n" +
			"git ignores do not count as work. A run that another process works on is left alone, and so is one that\n" +
			"did not succeed, for `flow resume` may need its workspaces, unless RUN names it.",
		Args: arguments(0, 1, "at most one run"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withWorktrees(output, args, func(t *worktrees) error { return t.prune(cmd.Context(), dry) })
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json: one object a line")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only say what would be removed")
	return cmd
}

// A worktree is a line of the list.
type worktree struct {
	Run    string         `json:"run"`
	Step   string         `json:"step"`
	Mode   workspace.Mode `json:"mode"`
	State  string         `json:"state"`
	Branch string         `json:"branch,omitempty"`
	Dir    string         `json:"dir"`
	Lost   string         `json:"lost,omitempty"`   // by removing it
	Action string         `json:"action,omitempty"` // of prune: removed, kept or would remove
	Why    string         `json:"why,omitempty"`    // it is kept
}

// worktrees are the workspaces of some runs.
type worktrees struct {
	*app
	store  *state.Store
	runs   []state.Summary
	named  bool // the run was named on the command line
	output string
	git    *workspace.Git
}

// withWorktrees calls fn with the workspaces of the run named, or of all runs.
func (a *app) withWorktrees(output string, args []string, fn func(*worktrees) error) (err error) {
	if err := oneOf("--output", output, "text", "json"); err != nil {
		return err
	}
	s, err := a.store()
	if err != nil {
		return err
	}
	t := &worktrees{app: a, store: s, output: output, named: len(args) == 1}
	if t.runs, err = s.Runs(0); err != nil {
		return err
	}
	if t.named {
		id, err := s.Resolve(args[0])
		if err != nil {
			return err
		}
		t.only(id)
	}
	scratch, err := temporary("flow-worktrees-")
	if err != nil {
		return err
	}
	supervisor := proc.New(proc.Options{})
	defer func() { err = errors.Join(err, supervisor.Close(), disk.RemoveAll(scratch)) }()
	t.git = workspace.New(workspace.Options{
		Runner:  &workspace.Processes{Launcher: supervisor, Label: "worktrees", Scratch: scratch},
		Environ: steps.GitEnvironment(a.environ()), Scratch: scratch, Exclude: []string{s.Dir()},
	})
	return fn(t)
}

// only leaves one run.
func (t *worktrees) only(id string) {
	for _, r := range t.runs {
		if r.ID == id {
			t.runs = []state.Summary{r}
			return
		}
	}
	t.runs = []state.Summary{{ID: id}} // the index does not know it yet
}

func (t *worktrees) list(ctx context.Context) error {
	var all []worktree
	for _, r := range t.runs {
		for _, w := range t.of(r) {
			all = append(all, t.look(ctx, w))
		}
	}
	if t.output == "json" {
		return jsonLines(t.out("json"), all)
	}
	return worktreeTable(t.stdout, all)
}

// of returns the workspaces of a run. One bad run does not hide the others.
func (t *worktrees) of(r state.Summary) []*workspace.Workspace {
	all, err := workspace.List(t.store.RunDir(r.ID))
	if err != nil {
		fmt.Fprintf(t.stderr, "warning: left out: run %s: %v\n", r.ID, err)
	}
	return all
}

// look says how a workspace stands.
func (t *worktrees) look(ctx context.Context, w *workspace.Workspace) worktree {
	line := worktree{Run: w.Run, Step: w.Path, Mode: w.Mode, Branch: w.Branch, Dir: w.Dir}
	if w.Mode == workspace.Copy {
		line.Branch = "" // it is in the copy's own repository, where nobody finds it
	}
	s, err := t.git.Status(ctx, w)
	if err != nil {
		line.State, line.Lost = "unknown", err.Error()
		return line
	}
	line.State, line.Lost = string(s.State), s.Lost
	return line
}

func worktreeTable(w io.Writer, all []worktree) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tSTEP\tMODE\tSTATE\tBRANCH\tDIRECTORY\tNOTE")
	for _, l := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Run, l.Step, l.Mode, l.State, l.Branch, l.Dir, oneLine(l.Lost, 80))
	}
	return t.Flush()
}

// prune removes what may be removed of each run.
func (t *worktrees) prune(ctx context.Context, dry bool) error {
	for _, r := range t.runs {
		found := t.of(r)
		if len(found) == 0 {
			continue
		}
		lines, err := t.pruneRun(ctx, r, found, dry)
		if err != nil {
			return err
		}
		if err := t.report(lines); err != nil {
			return err
		}
	}
	return nil
}

func (t *worktrees) pruneRun(ctx context.Context, r state.Summary, found []*workspace.Workspace, dry bool) ([]worktree, error) {
	keep := ""
	if !t.named && r.Status != string(dag.OK) {
		keep = "the run can be resumed (it is " + r.Status + "); to remove it all the same: flow worktrees prune " + r.ID
	}
	if keep == "" && !dry {
		run, err := t.store.OpenRun(ctx, r.ID)
		if err != nil {
			keep = err.Error() // somebody works on it, or it cannot be trusted
		} else {
			defer run.Close()
		}
	}
	var lines []worktree
	for _, w := range found {
		line, err := t.pruneOne(ctx, w, keep, dry)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// pruneOne removes a workspace, unless keep says why not, or something would be lost.
func (t *worktrees) pruneOne(ctx context.Context, w *workspace.Workspace, keep string, dry bool) (worktree, error) {
	line := t.look(ctx, w)
	line.Action, line.Why = "kept", keep
	switch {
	case keep != "":
	case line.Lost != "":
		line.Why = line.Lost
	case dry:
		line.Action = "would remove"
	default:
		s, err := t.git.Remove(ctx, w)
		if err != nil {
			return line, err
		}
		if line.Lost, line.Why = s.Lost, s.Lost; s.Lost == "" {
			line.Action = "removed"
		}
	}
	return line, nil
}

func (t *worktrees) report(lines []worktree) error {
	if t.output == "json" {
		return jsonLines(t.out("json"), lines)
	}
	for _, l := range lines {
		text := fmt.Sprintf("%s %s %s (%s): %s", l.Action, l.Run, l.Step, l.State, l.Dir)
		if l.Why != "" {
			text += "\n  " + oneLine(l.Why, 300)
		}
		if _, err := fmt.Fprintln(t.stdout, text); err != nil {
			return err
		}
	}
	return nil
}
