package main

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"flow/agents"
	"flow/agents/sessions"
)

// sessionQuery says which sessions are to be listed.
type sessionQuery struct {
	run    string // "": of all runs
	native bool   // also those in the agents' own stores
	agent  string
	status string
	dir    string // absolute
	limit  int    // 0: all
}

func (a *app) sessionsCommand() *cobra.Command {
	var q sessionQuery
	var output string
	cmd := &cobra.Command{
		Use:   "sessions [RUN]",
		Short: "List the agents' native sessions, of runs and of the agents' own stores",
		Long: "sessions lists the native sessions that runs began or went on in, the latest first, one a line however many\n" +
			"steps had part in it. With --native it lists those too that the agents' CLIs keep on this machine, whoever\n" +
			"began them. What a session of a run used is what flow spent on it; of any other, what its store says.",
		Example: "  flow sessions last\n  flow sessions --native --agent codex --dir .",
		Args:    arguments(0, 1, "at most one run"),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				q.run = args[0]
			}
			return a.sessions(q, output)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", "text", "text, or json: one object a line")
	f.IntVarP(&q.limit, "limit", "n", 20, "how many, when no run is named; 0 is all")
	f.BoolVar(&q.native, "native", false, "also what the agents' own stores hold")
	f.StringVar(&q.agent, "agent", "", "only those of this agent")
	f.StringVar(&q.status, "status", "", "only those that stand so: active, completed, failed, cancelled, timeout or unfinished")
	f.StringVar(&q.dir, "dir", "", "only those of this working directory")
	cmd.AddCommand(a.sessionsShowCommand())
	return cmd
}

// session is one native session, of however many steps.
type session struct {
	Agent string `json:"agentType"`
	agents.SessionSummary
	TokensUsed int64         `json:"tokensUsed,omitempty"`
	Simulated  bool          `json:"simulated,omitempty"`
	File       string        `json:"file,omitempty"` // in the agent's own store
	Steps      []sessionStep `json:"steps,omitempty"`

	file *sessions.File // where its events are; nil: in the runs
}

// sessionStep is a step that had part in a session.
type sessionStep struct {
	Run    string `json:"run"`
	Step   string `json:"step"`
	Status string `json:"status"`
}

func (a *app) sessions(q sessionQuery, output string) error {
	if err := q.check(output); err != nil {
		return err
	}
	find := a.runSessions
	if q.native {
		find = a.storedSessions
	}
	all, err := find(q)
	if err != nil {
		return err
	}
	if q.run == "" { // those of one run stand in the order in which they began
		slices.SortStableFunc(all, func(x, y session) int { return y.Updated.Compare(x.Updated) })
		all = all[:min(len(all), q.most())]
	}
	if output == "json" {
		return jsonLines(a.out("json"), all)
	}
	return sessionTable(a.stdout, all, q.native)
}

// check refuses what cannot be asked, and makes the directory absolute.
func (q *sessionQuery) check(output string) error {
	if err := oneOf("--output", output, "text", "json"); err != nil {
		return err
	}
	if q.status != "" {
		if err := oneOf("--status", q.status, sessionStatuses()...); err != nil {
			return err
		}
	}
	if q.agent != "" {
		if err := oneOf("--agent", q.agent, adapterNames()...); err != nil {
			return err
		}
	}
	if q.native && q.run != "" {
		return usageError{fmt.Errorf("--native lists the sessions of all runs and stores, not of run %s\nhint: leave out the one or the other", q.run)}
	}
	if q.dir == "" {
		return nil
	}
	dir, err := filepath.Abs(q.dir)
	if resolved, err := filepath.EvalSymlinks(dir); err == nil { // as the agents see it
		dir = resolved
	}
	q.dir = dir
	return err
}

func sessionStatuses() []string {
	var names []string
	for _, s := range []agents.SessionStatus{
		agents.SessionActive, agents.SessionCompleted, agents.SessionFailed, agents.SessionCancelled,
		agents.SessionTimedOut, agents.SessionUnfinished,
	} {
		names = append(names, string(s))
	}
	return names
}

// adapterNames are the names of the agents that flow speaks to, sorted.
func adapterNames() []string {
	var names []string
	for name := range adapters() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// most is how many sessions are wanted at most.
func (q sessionQuery) most() int {
	if q.limit <= 0 {
		return math.MaxInt
	}
	return q.limit
}

// wants reports whether s is among what is asked for.
func (q sessionQuery) wants(s session) bool {
	return (q.agent == "" || s.Agent == q.agent) && (q.status == "" || string(s.Status) == q.status) &&
		(q.dir == "" || s.Dir == q.dir)
}

// sessionTable prints one line a session. What tells those of stores apart, which no step
// does, is where they are and what they are about.
func sessionTable(w io.Writer, all []session, native bool) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	head, about := "SESSION\tAGENT\tMODEL\tRUN\tSTEP\tSTATUS\tMESSAGES\tTOKENS\tCOST\tUPDATED", ""
	if native {
		head += "\tDIRECTORY\tTITLE"
	}
	fmt.Fprintln(t, head)
	for _, s := range all {
		if native {
			about = "\t" + oneLine(s.Dir, 100) + "\t" + oneLine(s.Title, 50)
		}
		run, step := s.place()
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s%s\n", oneLine(s.ID, 40), s.Agent, oneLine(s.Model, 40), run, step, s.standing(),
			count(int64(s.Messages)), count(s.TokensUsed), s.cost(), day(s.Updated), about)
	}
	return t.Flush()
}

// place is the run and the step that were in the session last.
func (s session) place() (run, step string) {
	if len(s.Steps) == 0 {
		return "-", "-"
	}
	last := s.Steps[len(s.Steps)-1]
	if n := len(s.Steps) - 1; n > 0 {
		return last.Run, fmt.Sprintf("%s (+%d)", last.Step, n)
	}
	return last.Run, last.Step
}

func (s session) standing() string {
	if s.Simulated {
		return string(s.Status) + ", simulated"
	}
	return string(s.Status)
}

func (s session) cost() string {
	if s.CostUSD == nil {
		return "-"
	}
	return fmt.Sprintf("$%.4f", *s.CostUSD)
}

// count is a number, "-" where it is not known.
func count(n int64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}
