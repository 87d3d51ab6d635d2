package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"flow/agents"
	"flow/agents/sessions"
)

func (a *app) sessionsShowCommand() *cobra.Command {
	var output, agent string
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show what was said and done in a session",
		Long: "show reads a native session from its agent's own store, or from the runs that had part in it where the\n" +
			"store no longer has it. ID is the session's id, or the beginning of one that no other session shares.",
		Example: "  flow sessions show 01a1ff8c -o json",
		Args:    arguments(1, 1, "the id of a session"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.showSession(args[0], agent, output) },
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, or json: one event a line")
	cmd.Flags().StringVar(&agent, "agent", "", "the agent whose session it is")
	return cmd
}

func (a *app) showSession(id, agent, output string) error {
	if err := oneOf("--output", output, "text", "json"); err != nil {
		return err
	}
	if agent != "" {
		if err := oneOf("--agent", agent, adapterNames()...); err != nil {
			return err
		}
	}
	found, err := a.findSession(id, agent)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(a.stdout)
	if output == "json" {
		err = a.sessionEvents(found, func(line []byte) error {
			_, err := out.Write(append(slices.Clip(line), '\n'))
			return err
		})
		return errors.Join(err, out.Flush())
	}
	writeSessionHead(out, found.session)
	t := talk{w: out}
	err = a.sessionEvents(found, t.event)
	t.endLine()
	return errors.Join(err, out.Flush())
}

// foundSession is a session and where its events are.
type foundSession struct {
	session
	file *sessions.File // nil: in the runs
}

// findSession finds the session whose id begins with id.
func (a *app) findSession(id, agent string) (*foundSession, error) {
	if id == "" {
		return nil, usageError{errors.New("the id is empty\nhint: flow sessions --native lists the sessions")}
	}
	of := func(s session) bool { return strings.HasPrefix(s.ID, id) && (agent == "" || s.Agent == agent) }
	own, err := a.ownSessions(of)
	if err != nil {
		return nil, err
	}
	found := a.filedSessions(id, own, agent, of)
	for _, s := range own {
		if !slices.ContainsFunc(found, func(f foundSession) bool { return f.Agent == s.Agent && f.ID == s.ID }) {
			found = append(found, foundSession{session: s})
		}
	}
	if len(found) > 1 {
		return nil, ambiguous(id, found)
	}
	if len(found) == 0 {
		return nil, usageError{fmt.Errorf("there is no session %q\nhint: flow sessions --native -n 0 lists all that there are", id)}
	}
	return &found[0], nil
}

func ambiguous(id string, found []foundSession) error {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "\n  %s  %s  %s", f.ID, f.Agent, oneLine(f.Title, 80))
	}
	return usageError{fmt.Errorf("session %q may be any of these:%s\nhint: give more of the id, or --agent", id, b.String())}
}

// ownSessions are the sessions of all runs that are wanted.
func (a *app) ownSessions(wanted func(session) bool) (sessionList, error) {
	s, err := a.store()
	if err != nil {
		return nil, err
	}
	runs, err := s.Runs(0)
	if err != nil {
		return nil, err
	}
	var all sessionList
	for _, r := range runs {
		a.addSessions(&all, s, r.ID, wanted)
	}
	return all, nil
}

// filedSessions are the sessions with the id that stand in a file: in the user's stores, or
// in those of runs, which Gemini CLI has. Of copies of one session, which a run makes that
// takes over another's work, the one last written counts.
func (a *app) filedSessions(id string, own sessionList, agent string, wanted func(session) bool) []foundSession {
	files, err := sessions.List(append(a.stores(agent), a.runStores(own)...))
	if err != nil {
		fmt.Fprintf(a.stderr, "warning: left out: %v\n", err)
	}
	var found []foundSession
	for _, f := range sessions.Named(files, id) {
		summary, err := f.Summary()
		if err != nil {
			fmt.Fprintf(a.stderr, "warning: left out: %v\n", err)
			continue
		}
		s := newStored(f, summary)
		if known := own.find(s.Agent, s.ID); known != nil {
			if known.Simulated {
				continue // its file only stands for one
			}
			s.Steps = known.Steps
		}
		if wanted(s) && !slices.ContainsFunc(found, func(x foundSession) bool { return x.Agent == s.Agent && x.ID == s.ID }) {
			found = append(found, foundSession{session: s, file: &f})
		}
	}
	return found
}

// runStores are where the agents of runs keep sessions apart from the user's: those that
// let flow choose their home.
func (a *app) runStores(own sessionList) []sessions.Store {
	var all []sessions.Store
	for _, s := range own {
		keeper, ok := adapters()[s.Agent].(agents.SessionKeeper)
		if !ok {
			continue
		}
		for _, step := range s.Steps {
			v, err := a.view(step.Run)
			if err != nil {
				continue // it was read a moment ago; then it is gone
			}
			home := filepath.Join(v.Dir(), "agents", s.Agent)
			dir := keeper.Sessions().Dir(func(name string) string { return map[string]string{"HOME": home}[name] })
			if !slices.ContainsFunc(all, func(s sessions.Store) bool { return s.Dir == dir }) {
				all = append(all, sessions.Store{Agent: s.Agent, Dir: dir, Keeper: keeper})
			}
		}
	}
	return all
}

// sessionEvents calls line for every event of the session.
func (a *app) sessionEvents(s *foundSession, line func([]byte) error) error {
	if s.file == nil {
		return a.recordedEvents(s.session, line)
	}
	var failed error
	_, err := s.file.Read(func(e agents.Event) {
		if failed == nil {
			failed = line(e.AppendJSON(nil))
		}
	})
	return errors.Join(err, failed)
}

// writeSessionHead says which session it is.
func writeSessionHead(w io.Writer, s session) {
	agent := s.Agent
	if model := oneLine(s.Model, 80); model != "" {
		agent += ", " + model
	}
	fmt.Fprintf(w, "session   %s\nagent     %s\nstatus    %s\nmessages  %s\ntokens    %s\ncost      %s\ndirectory %s\ncreated   %s\nupdated   %s\n",
		oneLine(s.ID, 80), agent, s.standing(), count(int64(s.Messages)), count(s.TokensUsed), s.cost(), oneLine(s.Dir, 200),
		day(s.Created), day(s.Updated))
	if s.Parent != "" {
		fmt.Fprintf(w, "fork of   %s\n", oneLine(s.Parent, 80))
	}
	for _, step := range s.Steps {
		fmt.Fprintf(w, "step      %s of run %s\n", step.Step, step.Run)
	}
	if s.File != "" {
		fmt.Fprintf(w, "file      %s\n", oneLine(s.File, 300))
	}
}

// day is a time for people, "-" where it is not known.
func day(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}
