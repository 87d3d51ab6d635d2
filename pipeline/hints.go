package pipeline

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// unknownKey explains a key that the language does not have, under this name or at all.
func (l *loader) unknownKey(at *yaml.Node, where string, known []string) {
	key := deref(at).Value
	hint := foreign(where, key)
	if hint == "" {
		hint = orList(suggest(key, known), "known keys: ", known)
	}
	l.failNode(at, hint, "unknown key `%s` in %s", key, where)
}

// The places of keys, as messages name them.
const (
	inPipeline = "the pipeline"
	inStep     = "a step"
	inProfile  = "an agent"
	inConfig   = "the configuration"
)

// foreign explains the habits of other tools.
func foreign(where, key string) string {
	if !slices.Contains([]string{inPipeline, inStep, inProfile}, where) {
		return foreignIn(where, key)
	}
	if h := map[string]string{
		"depends_on": "write `needs`", "depends-on": "write `needs`", "dependsOn": "write `needs`", "dependencies": "write `needs`", "after": "write `needs`",
		"timeout-minutes": "write `timeout: 10m`", "timeout_minutes": "write `timeout: 10m`", "allow_failure": "write `continue-on-error: true`",
		"runs-on": "steps run on this machine; remove it", "container": "steps run on this machine; remove it", "image": "steps run on this machine; remove it",
		"services": "start services in a `run` step", "uses": "there are no actions: write what it does as `run` or `prompt`; another pipeline is called by `pipeline: FILE`",
		"command": "write `run`", "cmd": "write `run`", "script": "write `run`", "cmds": "write `run: |` with one command a line",
		"working-directory": "write `cwd`", "working_directory": "write `cwd`", "dir": "write `cwd`", "workdir": "write `cwd`",
		"when": "write `if`", "only": "write `if`", "retries": "write `retry: {max: 2}`", "max-attempts": "write `retry: {max: 2}`",
		"variables": "write `env`", "environment": "write `env` for variables; for an approval add a step with `ask`", "vars": "write `inputs` for values, `env` for variables",
	}[key]; h != "" && (key != "command" || where == inStep) {
		return h
	}
	if h := foreignControl(key); h != "" && where == inStep {
		return h
	}
	return foreignIn(where, key)
}

// foreignValue explains what other tools call the values of templates.
func foreignValue(name string) string {
	switch name {
	case "matrix", "strategy":
		return "write `foreach: LIST`; a template names the value as .item"
	case "needs", "jobs":
		return "name the step itself, as .steps.ID"
	case "github", "gitlab", "runner", "job", "vars":
		return "declare what the pipeline is given under `inputs`; a script sees what is in `env`"
	}
	return ""
}

// foreignField explains what other tools call what a step has.
func foreignField(name string) string {
	switch name {
	case "outcome", "conclusion", "result", "state":
		return "write .status"
	}
	return ""
}

func foreignIn(where, key string) string {
	switch where + "." + key {
	case inPipeline + ".jobs", inPipeline + ".stages", inPipeline + ".tasks":
		return "there is one level: put every step under `steps`, as `id: {run: …}`"
	case inPipeline + ".on", inPipeline + ".triggers":
		return "a pipeline is started by `flow run`; remove it"
	case inPipeline + ".version":
		return "the language has no version key; remove it"
	case inPipeline + ".defaults", inPipeline + ".params", inPipeline + ".parameters":
		return "write `inputs`, each with a `default`"
	case inStep + ".name", inStep + ".id":
		return "the key of a step is its name: `steps: {build: {run: …}}`"
	case inStep + ".model", inStep + ".system-prompt", inStep + ".allowed-tools", inStep + ".args", inStep + ".max-turns":
		return "set it in a profile under `agents`, and name that as `agent`"
	case inStep + ".fallback":
		return "set it in the profile of the agent, under `agents`"
	case inStep + ".on-limit", inProfile + ".on-limit":
		return "set it once, at the top of the pipeline"
	case inPipeline + ".cache", inPipeline + ".check", inPipeline + ".artifacts":
		return "set it on the steps"
	case inPipeline + ".sandbox":
		return "set it in the profiles, under `agents`, or on steps"
	case inProfile + ".budget":
		return "write `max-cost-usd`, or set `budget` on steps or the pipeline"
	case inStep + ".allow_raw":
		return "write `allow-raw`"
	case "`check`.command", "`check`.script", "`check`.cmd", "`notify`.command", "`notify`.script", "`notify`.cmd":
		return "write `run`"
	case "`check`.retries", "`check`.attempts", "`check`.max-attempts", "`check`.retry":
		return "write `max`"
	case "`notify`.when", "`notify`.if", "`notify`.events":
		return "write `on`: [failed, succeeded]"
	case "`permissions`.allow", "`permissions`.deny", "`permissions`.ask":
		return "write rules: [{" + key + ": shell(go test *)}]"
	case "`budget`.max-cost-usd", "`budget`.cost", "`budget`.dollars", "`budget`.max":
		return "write `usd`"
	case inStep + ".schema", inStep + ".outputs":
		return "write `output` with a JSON Schema"
	case inProfile + ".agent", inProfile + ".type", inProfile + ".provider":
		return "write `use`"
	}
	return foreignSetting(where, strings.ReplaceAll(key, "_", "-"))
}

// suggest returns "did you mean `x`?" for the nearest of words, or "".
func suggest(word string, words []string) string {
	best, distance := "", 1+max(1, len(word)/3)
	for _, w := range words {
		if d := editDistance(strings.ToLower(word), strings.ToLower(w), distance); d < distance {
			best, distance = w, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean `" + best + "`?"
}

// editDistance counts insertions, deletions, changes and swaps of neighbours that
// lead from a to b (optimal string alignment). At limit and above it may return any
// number not below limit.
func editDistance(a, b string, limit int) int {
	if abs(len(a)-len(b)) >= limit {
		return limit
	}
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost(a[i-1] != b[j-1]))
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

func cost(differs bool) int {
	if differs {
		return 1
	}
	return 0
}

func abs(n int) int { return max(n, -n) }
