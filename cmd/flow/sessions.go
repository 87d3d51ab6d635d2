package main

import (
	"cmp"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"flow/pipeline/dag"
	"flow/state"
	"flow/steps"
)

func (a *app) sessionsCommand() *cobra.Command {
	var (
		output string
		limit  int
	)
	cmd := &cobra.Command{
		Use:   "sessions [RUN]",
		Short: "List the agents' native sessions of a run, or of the latest runs",
		Args:  arguments(0, 1, "at most one run"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.sessions(args, output, limit)
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json: one object a line")
	cmd.Flags().IntVarP(&limit, "limit", "n", 20, "of how many runs, when none is named")
	return cmd
}

// session is one native session of a step.
type session struct {
	Session   string    `json:"session"`
	Agent     string    `json:"agent"`
	Model     string    `json:"model,omitempty"`
	Run       string    `json:"run"`
	Step      string    `json:"step"`
	Status    string    `json:"status"`
	Workspace string    `json:"workspace"`
	Started   time.Time `json:"started"`
	Tokens    int64     `json:"tokens,omitempty"`
	CostUSD   *float64  `json:"costUsd,omitempty"`
}

func (a *app) sessions(args []string, output string, limit int) error {
	if err := oneOf("--output", output, "text", "json"); err != nil {
		return err
	}
	views, err := a.views(args, limit)
	if err != nil {
		return err
	}
	var all []session
	for _, v := range views {
		found, err := sessionsOf(v)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	if output == "json" {
		return jsonLines(a.stdout, all)
	}
	t := tabwriter.NewWriter(a.stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "SESSION\tAGENT\tMODEL\tRUN\tSTEP\tSTATUS\tTOKENS")
	for _, s := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\n", s.Session, s.Agent, s.Model, s.Run, s.Step, s.Status, s.Tokens)
	}
	return t.Flush()
}

func (a *app) views(args []string, limit int) ([]*state.View, error) {
	if len(args) == 1 {
		v, err := a.view(args[0])
		return []*state.View{v}, err
	}
	s, err := a.store()
	if err != nil {
		return nil, err
	}
	runs, err := s.Runs(limit)
	if err != nil {
		return nil, err
	}
	var views []*state.View
	for _, r := range runs {
		v, err := s.Read(r.ID)
		if err != nil {
			fmt.Fprintf(a.stderr, "warning: left out: %v\n", err) // one bad run must not hide the others
			continue
		}
		views = append(views, v)
	}
	return views, nil
}

func sessionsOf(v *state.View) ([]session, error) {
	m, err := machine(v)
	if err != nil {
		return nil, err
	}
	plan, _, err := frozen(v)
	if err != nil {
		return nil, err
	}
	states := map[string]dag.StepState{}
	for _, st := range m.Steps() {
		states[st.Path] = st
	}
	planned := plannedSteps(plan)
	var all []session
	for _, found := range steps.Sessions(v.Records()) {
		st, known := states[found.Path] // an update may have taken the step out
		if known && st.Form != dag.Single {
			continue // its session is that of the round or candidate that it took
		}
		s, err := newSession(v, found, st)
		if err != nil {
			return nil, err
		}
		if p := planned[steps.StaticPath(found.Path)].plan; p != nil {
			s.Agent = p.Agents[s.Agent].Use
		}
		all = append(all, s)
	}
	return all, nil
}

// newSession is what is known of a session. Agent is the profile's name.
func newSession(v *state.View, found steps.NativeSession, st dag.StepState) (session, error) {
	h := v.Header()
	s := session{Session: found.Session, Run: h.ID, Step: found.Path, Workspace: h.Workspace, Started: found.Started}
	r, err := steps.DecodeResult(st.Result)
	if err != nil {
		return s, err
	}
	s.Status = standing(st.Status, v.Summary().Status)
	if st.Step != nil {
		s.Agent = st.Step.Agent
	}
	if r.Session != found.Session {
		return s, nil
	}
	s.Agent, s.Model, s.CostUSD = cmp.Or(r.Agent, s.Agent), r.Model, r.CostUSD
	if r.Usage != nil {
		s.Tokens = r.Usage.TotalTokens
	}
	return s, nil
}
