package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"flow/agents"
	"flow/agents/sessions"
)

// stores are where the agents' CLIs keep the user's sessions.
func (a *app) stores(agent string) []sessions.Store {
	var all []sessions.Store
	for _, name := range adapterNames() {
		keeper, ok := adapters()[name].(agents.SessionKeeper)
		if !ok || agent != "" && name != agent {
			continue
		}
		if dir := keeper.Sessions().Dir(a.getenv); dir != "" {
			all = append(all, sessions.Store{Agent: name, Dir: dir, Keeper: keeper})
		}
	}
	return all
}

// storedSessions are the sessions that the agents' own stores hold, and those of all runs:
// which of the former belong to runs is known when all have been read. What cannot be read
// is left out, with a warning.
func (a *app) storedSessions(q sessionQuery) ([]session, error) {
	own, err := a.ownSessions(func(session) bool { return true })
	if err != nil {
		return nil, err
	}
	files, err := sessions.List(a.stores(q.agent))
	if err != nil {
		fmt.Fprintf(a.stderr, "warning: left out: %v\n", err)
	}
	var others sessionList
	for _, f := range files {
		if len(others) >= q.most() { // the files that follow are older
			break
		}
		summary, err := f.Summary()
		if err != nil {
			fmt.Fprintf(a.stderr, "warning: left out: %v\n", err)
			continue
		}
		s := newStored(f, summary)
		if known := own.find(s.Agent, s.ID); known != nil {
			known.File, known.Title, known.Version, known.Parent = s.File, s.Title, s.Version, s.Parent
		} else if q.wants(s) && others.find(s.Agent, s.ID) == nil {
			others = append(others, s)
		}
	}
	own = slices.DeleteFunc(own, func(s session) bool { return !q.wants(s) })
	return slices.Concat(own, others), nil
}

// newStored is a session that a store holds.
func newStored(f sessions.File, summary agents.SessionSummary) session {
	s := session{SessionSummary: summary, Agent: f.Agent, File: filepath.FromSlash(f.Path())}
	if summary.Usage != nil {
		s.TokensUsed = summary.Usage.TotalTokens
	}
	return s
}
