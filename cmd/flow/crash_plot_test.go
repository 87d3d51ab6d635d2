package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A plot is a pipeline that was made at random, valid by construction. All that its steps do
// outside of flow leaves a trace that can be counted: scripts append to a ledger, agents to
// files of their own, and simulated agents note their turns.
type plot struct {
	seed   uint64
	text   string // LEDGER stands for the file that scripts append to
	scenes []string
	sturdy bool // an agent that is killed changes nothing of what the run comes to
}

// A scene is a step at the top of a plot, with all that is in it. In its text ID stands for
// the step's id, AGENT for a profile, TALKER for one that is spoken to while it works, and
// FORKER for one whose sessions can be forked.
//
// Agents answer what they are told to and nothing that depends on how often they were
// interrupted; a script prints what it wrote into the ledger.
type scene struct {
	name     string
	text     string
	delicate bool // what it comes to depends on agents and scripts being left alone
}

const brisk = `delay=1ms;text=said`

// scenes are what plots are made of.
func scenes() []scene {
	return []scene{
		{name: "script", text: `
  ID:
    run: echo did-ID | tee -a LEDGER; sleep 0.02`},
		{name: "agent", text: `
  ID:
    agent: AGENT
    timeout: 5m
    env: {FLOW_SIMULATE: "edit=ID.txt:did-ID;` + brisk + ` ID"}
    prompt: "Task ID: work."`},
		{name: "schema", text: `
  ID:
    agent: AGENT
    timeout: 5m
    prompt: "Task ID: look."
    output: {type: object, required: [good, title], properties: {good: {type: boolean}, title: {type: string}}}`},
		{name: "parallel", text: `
  ID:
    steps:
      left: {agent: AGENT, timeout: 5m, env: {FLOW_SIMULATE: "` + brisk + ` left"}, prompt: "Task ID.left: work."}
      right: {agent: AGENT, timeout: 5m, env: {FLOW_SIMULATE: "edit=ID-right.txt:did-ID.right;` + brisk + ` right"}, prompt: "Task ID.right: work."}
      both: {run: "echo did-ID.both | tee -a LEDGER; test {{ .steps.left.text }}-{{ .steps.right.text }} = 'said left-said right'"}`},
		{name: "items", text: `
  ID:
    foreach: [a, b, c]
    max-parallel: 2
    steps:
      think: {agent: AGENT, timeout: 5m, env: {FLOW_SIMULATE: "` + brisk + ` {{ .item }}"}, prompt: "Task ID.{{ .item }}: think."}
      note: {needs: [think], run: "echo did-ID.{{ .item }} | tee -a LEDGER"}`},
		{name: "rounds", text: `
  ID:
    repeat: {until: .steps.review.output.approved, max: 4}
    steps:
      edit:
        agent: AGENT
        session: continue
        timeout: 5m
        env: {FLOW_SIMULATE: "edit=ID-{{ .iteration }}.txt:did-ID.edit.{{ .iteration }};` + brisk + ` {{ .iteration }}"}
        prompt: "Task ID.edit.{{ .iteration }}: edit."
      test: {needs: [edit], run: "echo did-ID.test.{{ .iteration }} | tee -a LEDGER"}
      review:
        needs: [test]
        agent: AGENT
        timeout: 5m
        env: {FLOW_SIMULATE: "delay=1ms;no@1:ID"}
        prompt: "Task ID.review.{{ .iteration }}: review."
        output: {type: object, required: [approved], properties: {approved: {type: boolean}}}`},
		{name: "sessions", text: `
  ID:
    steps:
      first: {agent: FORKER, timeout: 5m, env: {FLOW_SIMULATE: "` + brisk + ` first"}, prompt: "Task ID.first: begin."}
      more: {agent: FORKER, timeout: 5m, session: {continue: first}, env: {FLOW_SIMULATE: "` + brisk + ` more"}, prompt: "Task ID.more: go on."}
      branch: {agent: FORKER, needs: [more], timeout: 5m, session: {fork: first}, env: {FLOW_SIMULATE: "` + brisk + ` branch"}, prompt: "Task ID.branch: branch."}`},
		{name: "race", delicate: true, text: `
  ID:
    race: [claude, codex2]
    timeout: 5m
    env: {FLOW_SIMULATE: "` + brisk + ` ID"}
    prompt: "Race ID: work."`},
		{name: "vote", delicate: true, text: `
  ID:
    vote: {agents: [claude2, codex, gemini], by: good}
    timeout: 5m
    prompt: "Task ID: vote."
    output: {type: object, required: [good], properties: {good: {type: boolean}}}`},
		{name: "worktrees", text: `
  ID:
    steps:
      fix:
        foreach: [one, two]
        isolation: worktree
        steps:
          edit: {agent: AGENT, timeout: 5m, env: {FLOW_SIMULATE: "edit=ID-{{ .item }}.txt:did-ID.{{ .item }};` + brisk + ` {{ .item }}"}, prompt: "Task ID.{{ .item }}: fix."}
          test: {needs: [edit], run: "echo did-ID.test.{{ .item }} | tee -a LEDGER; grep -c . ID-{{ .item }}.txt >ID-{{ .item }}.count"}
      join: {merge: fix}`},
		{name: "conflict", text: `
  ID:
    steps:
      fix:
        foreach: [one, two]
        isolation: worktree
        steps:
          edit: {run: "echo {{ .item }} >shared.txt; echo did-ID.{{ .item }} | tee -a LEDGER"}
      join:
        merge: {from: [fix], on-conflict: agent, agent: codex}
        env: {FLOW_SIMULATE: "run=echo both >shared.txt;` + brisk + ` merged"}`},
		{name: "copy", text: `
  ID:
    isolation: copy
    agent: AGENT
    timeout: 5m
    env: {FLOW_SIMULATE: "edit=ID.txt:did-ID;` + brisk + ` ID"}
    prompt: "Task ID: work apart."`},
		{name: "call", text: `
  ID:
    pipeline: inner.yaml
    with: {what: ID, ledger: LEDGER}`},
		{name: "question", text: `
  ID:
    ask: Shall ID go on?`},
		{name: "permission", text: `
  ID:
    agent: TALKER
    timeout: 5m
    permissions: {rules: [{ask: "shell(touch *)"}, {allow: "edit_file(**)"}]}
    env: {FLOW_SIMULATE: "edit=ID.txt:did-ID;run=touch ID.touched;` + brisk + ` ID"}
    prompt: "Task ID: touch."`},
		{name: "cache", text: `
  ID:
    agent: AGENT
    isolation: worktree
    cache: {key: ID}
    timeout: 5m
    env: {FLOW_SIMULATE: "edit=ID.txt:did-ID;` + brisk + ` ID"}
    prompt: "Task ID: once."`},
		{name: "artifacts", text: `
  ID:
    run: echo did-ID | tee -a LEDGER; mkdir -p ID.d; echo a >ID.d/a; seq 1 3000 >ID.d/b
    artifacts: [ID.d/**]`},
		{name: "notify", text: `
  ID:
    notify: {run: "echo tell-ID >>LEDGER", on: [succeeded]}
    run: echo did-ID | tee -a LEDGER`},
		{name: "retry", delicate: true, text: `
  ID:
    retry: {max: 4, backoff: 10ms}
    run: echo did-ID | tee -a LEDGER; test -e ID.tried || { touch ID.tried; exit 1; }`},
		{name: "overload", delicate: true, text: `
  ID:
    agent: AGENT
    timeout: 5m
    retry: {max: 6, backoff: 10ms}
    env: {FLOW_SIMULATE: "fail=overloaded@1:ID;` + brisk + ` ID"}
    prompt: "Task ID: try."`},
		{name: "fallback", delicate: true, text: `
  ID:
    agent: broke
    timeout: 5m
    env: {FLOW_SIMULATE: "` + brisk + ` ID", FLOW_SIMULATE_GEMINI: "fail=billing"}
    prompt: "Task ID: work."`},
		{name: "failure", delicate: true, text: `
  ID:
    continue-on-error: true
    steps:
      bad: {run: "echo did-ID.bad | tee -a LEDGER; exit 3"}
      mend: {needs: [bad], if: failed, run: "echo did-ID.mend | tee -a LEDGER"}
      never: {needs: [bad], run: "echo did-ID.never | tee -a LEDGER"}`},
		{name: "check", text: `
  ID:
    agent: AGENT
    timeout: 5m
    check: {run: "echo check-ID >>LEDGER; test $(grep -c check-ID LEDGER) -gt 1", max: 5}
    env: {FLOW_SIMULATE: "edit=ID.txt:did-ID;` + brisk + ` ID"}
    prompt: "Task ID: pass."`},
		{name: "long", text: `
  ID:
    steps:
      much: {agent: AGENT, timeout: 5m, env: {FLOW_SIMULATE: "big=40000"}, prompt: "Task ID: talk."}
      size: {run: "echo did-ID | tee -a LEDGER; printf %s {{ .steps.much.text }} | wc -c >ID.size"}`},
		{name: "orphans", text: `
  ID:
    run: echo did-ID | tee -a LEDGER; setsid sleep 0.3 >/dev/null 2>&1 & sleep 0.2 & echo`},
		{name: "secret", text: `
  ID:
    env: {TOKEN: "{{ .secrets.PLOT_TOKEN }}", MADE: "{{ .secrets.PLOT_TOKEN | upper }}"}
    steps:
      say: {agent: AGENT, timeout: 5m, env: {FLOW_SIMULATE: "edit=ID.txt:did-ID.say;` + brisk + ` {{ .secrets.PLOT_TOKEN }}"}, prompt: "Task ID: tell."}
      print: {run: 'echo did-ID | tee -a LEDGER; echo "$TOKEN $MADE"; printf %s "$TOKEN" | base64; echo "$MADE" >&2; sleep 0.05'}`},
		{name: "stubborn", text: `
  ID:
    agent: AGENT
    timeout: 5m
    env: {FLOW_SIMULATE: "deaf;stderr=3000;nul;bom;repeat-result;daemon=1s;edit=ID.txt:did-ID;` + brisk + ` ID"}
    prompt: "Task ID: work."`},
		{name: "noise", text: `
  ID:
    run: echo did-ID | tee -a LEDGER; head -c 20000000 /dev/zero >&2; sleep 0.6`},
		{name: "set", text: `
  ID:
    set: {list: "{{ until 3 }}", name: fixed}`},
		{name: "budget", text: `
  ID:
    budget: {tokens: 1000000}
    steps:
      cheap: {agent: AGENT, timeout: 5m, env: {FLOW_SIMULATE: "` + brisk + ` cheap"}, prompt: "Task ID: save."}`},
	}
}

// plotToken is a secret that steps of plots say, and plotMade what a template makes of it.
const (
	plotToken = "plot-token-5d0a8c1e"
	plotMade  = "PLOT-TOKEN-5D0A8C1E"
)

const plotHead = `
concurrency: 4
secrets: PLOT_TOKEN
budget: {tokens: 100000000}
notify: {run: "echo tell-run >>LEDGER", on: [succeeded]}
agents:
  claude2: {use: claude, transport: stream-json}
  codex2: {use: codex, transport: app-server}
  gemini2: {use: gemini, transport: acp}
  broke: {use: gemini, fallback: [codex]}
steps:`

const plotInner = `
inputs: {what: {type: string}, ledger: {type: string}}
steps:
  think: {agent: gemini, timeout: 5m, env: {FLOW_SIMULATE: "delay=1ms;text=said {{ .inputs.what }}"}, prompt: "Task {{ .inputs.what }}: think."}
  note: {needs: [think], run: "echo did-{{ .inputs.what }} | tee -a {{ .inputs.ledger }}"}
outputs: {said: "{{ .steps.think.text }}"}
`

// newPlot makes a plot of a few scenes, some of which need others.
func newPlot(seed uint64, sturdy bool) plot {
	random := rand.New(rand.NewPCG(seed, 0))
	all := scenes()
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var chosen []scene
	for _, s := range all {
		if len(chosen) < 5 && (!sturdy || !s.delicate) {
			chosen = append(chosen, s)
		}
	}
	return plotOf(seed, random, sturdy, chosen)
}

func plotOf(seed uint64, random *rand.Rand, sturdy bool, chosen []scene) plot {
	p := plot{seed: seed, sturdy: sturdy}
	var text strings.Builder
	text.WriteString(plotHead)
	var before []string
	for i, s := range chosen {
		id := fmt.Sprintf("%s%d", s.name, i)
		text.WriteString(s.of(id, random))
		if n := len(before); n > 0 && random.IntN(3) > 0 {
			fmt.Fprintf(&text, "\n    needs: [%s]", before[random.IntN(n)])
		}
		before = append(before, id)
		p.scenes = append(p.scenes, s.name)
	}
	p.text = text.String() + "\n"
	return p
}

// of is the scene as the step of that id. One agent plays all parts in it, as sessions need.
func (s scene) of(id string, random *rand.Rand) string {
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	return strings.NewReplacer(
		"ID", id,
		"TALKER", pick("claude2", "codex2", "gemini2", "opencode"),
		"FORKER", pick("claude", "codex", "gemini", "claude2", "codex2"),
		"AGENT", pick("claude", "codex", "gemini", "opencode", "claude2", "codex2", "gemini2"),
	).Replace(s.text)
}

// stage writes the plot into a repository of its own, in which run id may begin.
func (p plot) stage(t *testing.T, id string) crashRun {
	t.Helper()
	r := crashRun{dir: filepath.Join(t.TempDir(), "repository"), id: id, pipeline: "pipeline.yaml"}
	r.env = []string{"FLOW_SIMULATE_LOG=" + r.dir + ".log", "PLOT_TOKEN=" + plotToken}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{r.pipeline: strings.ReplaceAll(p.text, "LEDGER", r.ledger()), "inner.yaml": plotInner, "shared.txt": "none\n"} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.git(t, "init", "-q", "-b", "main")
	r.git(t, "add", "-A")
	r.git(t, "commit", "-qm", "Begin")
	return r
}

// ledger is the file that the scripts of a plot append to.
func (r crashRun) ledger() string { return r.dir + ".ledger" }
