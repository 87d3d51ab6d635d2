package steps

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"flow/agents"
	"flow/pipeline/dag"
)

// An agentEnd is how an event says that a process of an agent ended. Runs of versions of
// flow that kept no Exit are played by it.
type agentEnd struct {
	attempt int
	exit    Exit
}

// A rulingKey names a request for permission of a node's agents.
type rulingKey struct {
	path          string
	attempt       int
	request, tool string
}

// A recordedRuling is a decision of flow's, or of a person, on a request.
type recordedRuling struct {
	Decision string `json:"decision"`
	By       string `json:"by"`
	Person   string `json:"person"`
	Message  string `json:"message"`
}

// event takes in an event of the recorded run.
func (r *Recording) event(line []byte) error {
	var e struct {
		Type      string         `json:"type"`
		Step      string         `json:"step"`
		Attempt   int            `json:"attempt"`
		Native    *agents.Native `json:"native"`
		RequestID string         `json:"requestId"`
		ToolID    string         `json:"toolId"`
		ExitCode  *int           `json:"exitCode"`
		Signal    string         `json:"signal"`
		Reason    agents.Reason  `json:"reason"`
		Error     string         `json:"error"`
		recordedRuling
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("an event cannot be read: %w", err)
	}
	switch {
	case e.Decision != "" && e.Native == nil:
		key := rulingKey{e.Step, e.Attempt, e.RequestID, e.ToolID}
		r.rulings[key] = append(r.rulings[key], e.recordedRuling)
	case e.Type == agents.SessionEnded{}.Type():
		exit := Exit{Code: -1, Signal: e.Signal}
		if e.ExitCode != nil {
			exit.Code = *e.ExitCode
		}
		switch e.Reason {
		case agents.TimedOut:
			exit.Why = string(agents.IntentTimeout)
		case agents.Cancelled:
			exit.Why, exit.Reason = string(agents.IntentCancel), e.Error
		case agents.Completed:
			if e.Signal != "" || exit.Code != 0 { // flow had ended it
				exit.Why = string(agents.IntentCancel)
			}
		case agents.Failed:
			if exit.Code < 0 && exit.Signal == "" {
				exit.Error = e.Error
			}
		}
		r.said[e.Step] = append(r.said[e.Step], agentEnd{e.Attempt, exit})
	}
	return nil
}

// exit is how the recorded process ended that one of the playing stands for.
func (r *Recording) exit(name string) Exit {
	known, _ := r.resolve(name)
	data, err := r.run.File(r.run.AttemptPath(known, exitExt))
	var e Exit
	if err == nil && json.Unmarshal(data, &e) == nil {
		return e
	}
	path, _, _ := cutLabel(known)
	end := r.next(path)
	if end == nil {
		return Exit{Code: -1}
	}
	if _, isAgent, err := r.launch(known); isAgent && err == nil {
		return r.agentExit(path, known)
	}
	return end.scriptExit(known)
}

// agentExit is how the process of an agent ended as the events tell: each has one that ends
// its session.
func (r *Recording) agentExit(path, known string) Exit {
	attempt := attemptOf(known)
	nth := 0
	for turn := 1; label(path, attempt, turn) != known; turn++ {
		if _, isAgent, err := r.launch(label(path, attempt, turn)); isAgent && err == nil {
			nth++
		}
	}
	for _, said := range r.said[path] {
		if said.attempt != attempt {
			continue
		}
		if nth == 0 {
			return said.exit
		}
		nth--
	}
	return Exit{Code: -1, Signal: "KILL", Why: string(agents.IntentCancel), Reason: "flow ended"}
}

// attemptOf is the attempt of a label.
func attemptOf(name string) (attempt int) {
	fields := strings.Split(name, ".")
	_, _ = fmt.Sscan(fields[len(fields)-2], &attempt)
	return attempt
}

// scriptExit is how a script of an attempt ended as the attempt's result tells: the step's
// own has its exit status there, and a check passed if the attempt succeeded with it.
func (e *recorded) scriptExit(known string) Exit {
	result, err := DecodeResult(e.fact.Result)
	last := slices.Index(e.labels, known) == len(e.labels)-1
	switch {
	case err == nil && result.Exit != nil && last:
		out := Exit{Code: *result.Exit}
		if out.Code < 0 {
			_, out.Signal, _ = strings.Cut(result.Error, "killed by SIG")
			out.Signal, _, _ = strings.Cut(out.Signal, ":")
		}
		if agents.Cause(result.Cause) == agents.CauseTimeout {
			out.Why = string(agents.IntentTimeout)
		}
		return out
	case last && e.fact.Kind == dag.Succeeded:
		return Exit{}
	default:
		return Exit{Code: 1}
	}
}

// ruling is the recorded decision on a request, false if it was never decided on.
func (r *Recording) ruling(key rulingKey) (recordedRuling, bool) {
	all := r.rulings[key]
	if len(all) == 0 {
		return recordedRuling{}, false
	}
	r.rulings[key] = all[1:]
	return all[0], true
}
