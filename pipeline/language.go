package pipeline

import (
	"encoding/json"
	"maps"
	"slices"
)

// A key is one key of the language: what it means, for people and editors, and what
// values it takes, as JSON Schema.
type key struct {
	name string
	doc  string
	schema
}

type schema map[string]any

// Schemas that many keys share.
func text() schema           { return schema{"type": "string"} }
func truth() schema          { return schema{"type": "boolean"} }
func object() schema         { return schema{"type": "object"} }
func def(name string) schema { return schema{"$ref": "#/$defs/" + name} }

func choice(values ...string) schema { return schema{"type": "string", "enum": values} }

func number(low, high int) schema {
	return schema{"type": "integer", "minimum": low, "maximum": high}
}

func positive() schema { return schema{"type": "number", "exclusiveMinimum": 0} }

func listOf(item schema) schema { return schema{"type": "array", "items": item} }

// oneOrMore is a value or a list of such values.
func oneOrMore(item schema) schema { return schema{"anyOf": []schema{item, listOf(item)}} }

func mapOf(names string, value schema) schema {
	return schema{"type": "object", "propertyNames": schema{"pattern": names}, "additionalProperties": value}
}

const (
	idPattern      = `^[A-Za-z_][A-Za-z0-9_]*$`
	profilePattern = `^[A-Za-z_][A-Za-z0-9_-]*$`
)

func pipelineTable() []key {
	return []key{
		{"name", "Name of the pipeline; default: the file's.", text()},
		{"description", "What the pipeline is for.", text()},
		{"inputs", "What a run is given: flow run -i name=value.", mapOf(idPattern, def("input"))},
		{"env", "Variables of every process.", def("variables")},
		{"secrets", "Environment variables that only `env` may pass on.", oneOrMore(text())},
		{"keep-raw", "What processes print is stored as it is, with the secrets in it.", truth()},
		{"agents", "Profiles: agents with settings.", mapOf(profilePattern, def("agent"))},
		{"budget", "What all agents of a run may use together.", def("budget")},
		{"on-limit", "What a usage or rate limit of an agent does; default fail.", onLimitSchema()},
		{"permissions", "Rules on tools, for every agent.", def("permissions")},
		{"notify", "A script to run when the run has ended.", def("notify")},
		{"concurrency", "How many steps run at once; default 4.", concurrencySchema()},
		{"fail-fast", "The first failure stops the run.", truth()},
		{"steps", "The steps, by id. They run at once unless one needs another.", mapOf(idPattern, def("step"))},
		{"outputs", "What a run that succeeded prints.", mapOf(idPattern, def("value"))},
	}
}

func stepTable() []key { return slices.Concat(ownTable(), controlTable(), leafTable()) }

func ownTable() []key {
	return []key{
		{"prompt", "One headless turn of an agent. A template.", text()},
		{"prompt-file", "A file with the prompt, below the pipeline's directory.", text()},
		{"agent", "The agent: a profile, or a built-in one such as claude.", text()},
		{"run", "A shell script. A template; its values reach the shell as quoted variables.", text()},
		{"shell", "The program that runs the script; default sh.", text()},
		{"steps", "A group: a graph of steps of its own.", mapOf(idPattern, def("step"))},
		{"needs", "Steps that must succeed first. What templates name is needed anyway.", oneOrMore(text())},
		{"if", "A condition: a template that gives true or false. always, failed and succeeded are functions.", schema{"type": []string{"string", "boolean"}}},
		{"retry", "Further attempts after a failure.", closed(retryTable(), "max")},
		{"timeout", "How long one attempt may take.", def("duration")},
		{"idle-timeout", "How long an attempt may show no sign of life.", def("duration")},
		{"continue-on-error", "A failure does not fail the run, and counts as success for dependents.", truth()},
		{"cwd", "Working directory, below the workspace. A template.", text()},
		{"env", "Variables of the process.", def("variables")},
		{"output", "JSON Schema of the answer.", object()},
		{"session", "The native session: new, the own one of the round before, or another step's, continued or forked.", sessionSchema()},
		{"fail-fast", "The first failure stops the group, or the items of `foreach`.", truth()},
	}
}

func profileTable() []key {
	return []key{
		{"use", "Which agent this is: claude, codex, gemini, opencode …; acp or exec: what `command` starts.", text()},
		{"command", "The command line that starts the agent, instead of its executable on PATH.", oneOrMore(text())},
		{"args", "Further arguments.", oneOrMore(text())},
		{"transport", "The protocol that flow speaks with the agent; default: the one that the rules need.", text()},
		{"model", "The agent's own name of the model.", text()},
		{"approval", "Which tool calls pass without anyone being asked.", choice(Approvals()...)},
		{"sandbox", "What the agent's tools can reach; default workspace-write.", sandboxSchema()},
		{"allowed-tools", "Tools that pass, in the agent's own syntax.", oneOrMore(text())},
		{"blocked-tools", "Tools that never pass, in the agent's own syntax.", oneOrMore(text())},
		{"add-dirs", "Further directories that the agent may work in.", oneOrMore(text())},
		{"system-prompt", "Appended to the agent's own system prompt.", text()},
		{"effort", "Reasoning effort, in the agent's own words.", text()},
		{"max-turns", "The most turns of the model.", number(1, maxTurns)},
		{"max-cost-usd", "The most money, in US dollars.", positive()},
		{"inherit", "Let in hooks, settings and MCP servers of the user and the repository.", truth()},
		{"env", "Variables of the agent's process.", def("variables")},
		{"fallback", "Profiles to go on with, in order, when this one is not to be had.", oneOrMore(text())},
		{"permissions", "Rules on tools, besides those of the pipeline.", def("permissions")},
		{"exec", "With `use: exec`: how the command gets the prompt, and what it prints.", closed(execTable())},
	}
}

func names(table []key) []string {
	all := make([]string, len(table))
	for i, k := range table {
		all[i] = k.name
	}
	return all
}

func pipelineKeys() []string { return names(pipelineTable()) }
func stepKeys() []string     { return names(stepTable()) }
func profileKeys() []string  { return names(profileTable()) }

// closed is the schema of a mapping that has the keys of a table and no others, those
// required always.
func closed(table []key, required ...string) schema {
	properties := schema{}
	for _, k := range table {
		s := schema{"description": k.doc}
		maps.Copy(s, k.schema)
		properties[k.name] = s
	}
	s := schema{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// LanguageSchema is the JSON Schema (draft 2020-12) of a pipeline file, for editors. It
// is made from the tables by which Load tells known keys from others; what Load knows
// of values goes much further.
func LanguageSchema() ([]byte, error) {
	root := closed(pipelineTable())
	root["$schema"], root["title"], root["required"] = schemaDraft, "flow pipeline", []string{"steps"}
	step := closed(stepTable())
	var kinds []schema
	for _, kind := range kindKeys() {
		kinds = append(kinds, schema{"required": []string{kind}})
	}
	step["oneOf"] = kinds
	defs := sharedDefs()
	maps.Copy(defs, schema{
		"step": step, "input": inputSchema(), "notify": notifySchema(),
		"values": mapOf(idPattern, schema{"description": "A template, or any value."}),
	})
	root["$defs"] = defs
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}

const schemaDraft = "https://json-schema.org/draft/2020-12/schema"

// sharedDefs are what the schemas of pipelines and of configurations refer to.
func sharedDefs() schema {
	return schema{
		"agent":     closed(profileTable()),
		"duration":  schema{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`, "description": "Such as 90s, 30m or 1h30m; at most 7 days."},
		"value":     schema{"type": []string{"string", "number", "boolean"}, "description": "A template."},
		"variables": mapOf(idPattern, def("value")),
		"budget":    budgetSchema(), "permissions": closed(permissionsTable()),
		"pick": pickSchema(),
	}
}

func inputSchema() schema {
	properties := schema{"type": choice(inputTypes()...), "description": text(), "default": schema{}}
	for _, word := range inputKeywords() {
		properties[word] = schema{}
	}
	return schema{"type": "object", "properties": properties, "additionalProperties": false}
}
