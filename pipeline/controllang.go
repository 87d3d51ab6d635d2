package pipeline

// controlTable are the keys of loops, calls, contests, questions, merges and workspaces.
func controlTable() []key {
	return []key{
		{"pipeline", "Another pipeline: a file, relative to this one.", text()},
		{"with", "The inputs of the called pipeline.", def("values")},
		{"ask", "A question to a person, who approves, denies or fills in `output`. A template.", text()},
		{"merge", "Brings the branches of isolated steps into the workspace, in order.", schema{"anyOf": []schema{oneOrMore(text()), closed(mergeTable(), "from")}}},
		{"set", "Names for values: templates that keep their type, or any value.", def("values")},
		{"foreach", "Runs the step for every item of a list: a list, or a template that gives one.", schema{"anyOf": []schema{text(), {"type": "array", "maxItems": MaxItems}}}},
		{"max-parallel", "How many items of `foreach` run at once.", number(1, maxConcurrency)},
		{"repeat", "Runs the step in rounds until a condition holds.", closed(repeatTable(), "until")},
		{"race", "Gives the prompt to several agents: the first that succeeds wins.", agentList()},
		{"vote", "Gives the prompt to several agents: the most frequent value of a field wins, or a judge decides.", closed(voteTable(), "agents")},
		{"isolation", "A workspace of its own for the step, or for each item or candidate of it.", choice(isolations()...)},
		{"worktree", "How that workspace begins.", closed(worktreeTable())},
	}
}

// foreignControl explains how other tools write loops, calls and approvals.
func foreignControl(key string) string {
	return map[string]string{
		"strategy": forEachItem, "matrix": forEachItem, "for_each": forEachItem, "for-each": forEachItem, "forEach": forEachItem, "for": forEachItem,
		"withItems": forEachItem, "with_items": forEachItem, "withParam": forEachItem, "withSequence": forEachItem, "items": forEachItem, "map": forEachItem,
		"loop":  "write `foreach: LIST` for the items of a list, `repeat: {until: …}` for rounds",
		"until": untilHolds, "while": untilHolds, "do": untilHolds, "repeatPolicy": untilHolds, "max-iterations": untilHolds, "max_iterations": untilHolds,
		"parallel":    "steps that need nothing from each other run at once; for items write `foreach` with `max-parallel: N`",
		"parallelism": "write `max-parallel` for items; `concurrency` is set for the whole pipeline",
		"batch":       "write `max-parallel: N`",
		"approval":    askPerson, "approve": askPerson, "manual": askPerson, "suspend": askPerson, "input": askPerson, "confirm": askPerson, "gate": askPerson,
		"include": callPipeline, "import": callPipeline, "call": callPipeline, "workflow": callPipeline, "subworkflow": callPipeline, "template": callPipeline, "templateRef": callPipeline,
		"arguments": "write `with`", "parameters": "write `with`", "inputs": "write `with`", "params": "write `with`",
		"assign": "write `set`", "let": "write `set`", "values": "write `set`",
		"agents": "write race: [AGENT, AGENT], or vote: {agents: […], by: FIELD}",
		"branch": "write isolation: worktree; the branch is .steps.ID.branch",
	}[key]
}

const (
	forEachItem  = "write `foreach: LIST`; a template names the item as .item"
	untilHolds   = "write repeat: {until: CONDITION, max: N}"
	askPerson    = "add a step with `ask: QUESTION` and let this one need it"
	callPipeline = "write `pipeline: FILE`, and `with` for its inputs"
)
