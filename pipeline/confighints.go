package pipeline

// foreignSetting explains older and others' words for settings of agents and of flow.
func foreignSetting(where, key string) string {
	switch where + "." + key {
	case inProfile + ".skip-permissions", inProfile + ".dangerously-skip-permissions", inProfile + ".yolo":
		return "write `permissions` with the rules that you want; `approval: auto-all` with `sandbox: off` lets everything pass"
	case inProfile + ".trusted-folders", inProfile + ".trusted-directories":
		return "write `add-dirs` for further directories; the one that flow is started in needs no trust"
	case inProfile + ".auto-accept", inProfile + ".auto-approve":
		return "write permissions: {rules: [{allow: [read_file(**), find_files]}]}"
	case inProfile + ".enabled", inProfile + ".disabled":
		return "remove it: an agent that no step names is not started"
	case inConfig + ".limits":
		return "write `concurrency`, `budget` and `on-limit`, as in a pipeline, and `timeout`"
	case inConfig + ".policy", inConfig + ".rules":
		return "write permissions: {rules: […]}"
	case inConfig + ".default", inConfig + ".default-agent", inConfig + ".agent":
		return "write agents: {default: claude}"
	case inConfig + ".env":
		return "set it for an agent, agents: {claude: {env: …}}, or in the pipeline"
	case inConfig + ".sandbox", inConfig + ".model", inConfig + ".approval", inConfig + ".transport":
		return "set it for an agent, agents: {claude: {" + key + ": …}}"
	case inConfig + ".steps", inConfig + ".inputs", inConfig + ".outputs", inConfig + ".secrets", inConfig + ".name", inConfig + ".notify":
		return "this belongs into a pipeline"
	case inConfig + ".version":
		return "there are no versions of it; remove it"
	}
	return ""
}
