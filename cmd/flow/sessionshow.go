package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
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
	out := bufio.NewWriter(a.out(output))
	if output == "json" {
		err = a.sessionEvents(found, func(line []byte) error {
			_, err := out.Write(append(slices.Clip(line), '\n'))
			return err
		})
		return errors.Join(err, out.Flush())
	}
	writeSessionHead(out, *found)
	t := talk{w: out}
	err = a.sessionEvents(found, t.event)
	t.endLine()
	return errors.Join(err, out.Flush())
}

// findSession finds the session whose id begins with id.
func (a *app) findSession(id, agent string) (*session, error) {
	if id == "" {
		return nil, usageError{errors.New("the id is empty\nhint: flow sessions --native lists the sessions")}
	}
	wanted := func(s session) bool { return strings.HasPrefix(s.ID, id) && (agent == "" || s.Agent == agent) }
	own, err := a.latestSessions(wanted, math.MaxInt)
	if err != nil {
		return nil, err
	}
	found := a.filedSessions(id, &own, agent, wanted)
	for _, s := range own.all {
		if found.find(s.Agent, s.ID) == nil {
			found.add(s)
		}
	}
	switch len(found.all) {
	case 0:
		return nil, usageError{fmt.Errorf("there is no session %q\nhint: flow sessions --native -n 0 lists all that there are", id)}
	case 1:
		return &found.all[0], nil
	default:
		return nil, ambiguous(id, found.all)
	}
}

func ambiguous(id string, found []session) error {
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "\n  %s  %s  %s", f.ID, f.Agent, oneLine(f.Title, 80))
	}
	return usageError{fmt.Errorf("session %q may be any of these:%s\nhint: give more of the id, or --agent", id, b.String())}
}

// filedSessions are the sessions with the id that stand in a file: in the user's stores, or
// in those of runs, which Gemini CLI has. Of copies of one session, which a run makes that
// takes over another's work, the one last written counts.
func (a *app) filedSessions(id string, own *sessionList, agent string, wanted func(session) bool) *sessionList {
	var found sessionList
	files := a.sessionFiles(append(a.stores(agent), a.runStores(own.all)...))
	for _, f := range sessions.Named(files, id) {
		s, ok := a.summarise(f)
		if known := own.find(s.Agent, s.ID); known != nil {
			s.Steps, ok = known.Steps, ok && !known.Simulated // the file of a simulated one only stands for it
		}
		if ok && wanted(s) && found.find(s.Agent, s.ID) == nil {
			s.file = &f
			found.add(s)
		}
	}
	return &found
}

// runStores are where the agents of runs keep sessions apart from the user's: those that
// let flow choose their home.
func (a *app) runStores(own []session) []sessions.Store {
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
func (a *app) sessionEvents(s *session, line func([]byte) error) error {
	if s.file == nil {
		return a.recordedEvents(s, line)
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
