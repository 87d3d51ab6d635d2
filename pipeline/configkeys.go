package pipeline

import (
	"encoding/json"
	"slices"
)

// LogLevels are the values of `log-level`.
func LogLevels() []string { return []string{"off", "error", "warn", "info", "debug", "trace"} }

// configTable are the keys of a configuration. Those that pipelines have too mean the same.
func configTable() []key {
	return slices.Concat([]key{
		{"agents", "Settings of the agents: of every profile with `use: claude` under `claude`, and profiles by other names that every pipeline may use. `default` names the agent of steps that name none.", configAgents()},
		{"permissions", "Rules on tools, besides those of the pipeline.", def("permissions")},
		{"concurrency", "How many steps run at once, where the pipeline does not say.", concurrencySchema()},
		{"budget", "What all agents of a run may use together, where the pipeline has no budget.", def("budget")},
		{"on-limit", "What a usage or rate limit of an agent does, where the pipeline does not say.", onLimitSchema()},
		{"timeout", "How long one attempt of an agent step may take that has neither `timeout` nor `idle-timeout`.", def("duration")},
	}, programTable())
}

// programTable are the keys about flow itself, which only a user's configuration has.
func programTable() []key {
	return []key{
		{"state-dir", "Where runs are kept: an absolute path.", text()},
		{"log-level", "What is logged to standard error.", choice(LogLevels()...)},
		{"quiet", "No progress, only what failed.", truth()},
		{"no-input", "Ask nothing on the terminal.", truth()},
	}
}

const byDefault = "default" // the key of `agents` that is no agent

func configAgents() schema {
	s := mapOf(profilePattern, def("agent"))
	s["properties"] = schema{byDefault: schema{"type": "string", "description": "The agent of steps that name none, in pipelines without exactly one profile."}}
	return s
}

// ConfigSchema is the JSON Schema (draft 2020-12) of a configuration, for editors.
func ConfigSchema() ([]byte, error) {
	root := closed(configTable())
	root["$schema"], root["title"] = schemaDraft, "flow configuration"
	root["$defs"] = sharedDefs()
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}
