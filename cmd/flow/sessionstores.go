package main

import (
	"fmt"
	"math"
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
// which of the former belong to runs is known when all runs have been read.
func (a *app) storedSessions(q sessionQuery) ([]session, error) {
	own, err := a.latestSessions(func(session) bool { return true }, math.MaxInt)
	if err != nil {
		return nil, err
	}
	var others sessionList
	for _, f := range a.sessionFiles(a.stores(q.agent)) {
		if len(others.all) >= q.most() { // the files that follow are older
			break
		}
		s, ok := a.summarise(f)
		if known := own.find(s.Agent, s.ID); known != nil {
			known.File, known.Title, known.Version, known.Parent = s.File, s.Title, s.Version, s.Parent
		} else if ok && q.wants(s) && others.find(s.Agent, s.ID) == nil {
			others.add(s)
		}
	}
	own.all = slices.DeleteFunc(own.all, func(s session) bool { return !q.wants(s) })
	return slices.Concat(own.all, others.all), nil
}

// sessionFiles are the files in the stores, those last written first. A store that cannot be
// read is left out, with a warning.
func (a *app) sessionFiles(stores []sessions.Store) []sessions.File {
	files, err := sessions.List(stores)
	if err != nil {
		fmt.Fprintf(a.stderr, "warning: left out: %v\n", err)
	}
	return files
}

// summarise is false for a file that cannot be read: it is left out, with a warning.
func (a *app) summarise(f sessions.File) (s session, ok bool) {
	summary, err := f.Summary()
	if err != nil {
		fmt.Fprintf(a.stderr, "warning: left out: %v\n", err)
		return s, false
	}
	return newStored(f, summary), true
}

// newStored is a session that a store holds.
func newStored(f sessions.File, summary agents.SessionSummary) session {
	s := session{SessionSummary: summary, Agent: f.Agent, File: filepath.FromSlash(f.Path())}
	if summary.Usage != nil {
		s.TokensUsed = summary.Usage.TotalTokens
	}
	return s
}
