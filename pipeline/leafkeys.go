package pipeline

// leafKey decodes the keys that check, keep and bound what a step does. It is false
// for any other key.
func (l *loader) leafKey(nd *node, k entry) bool {
	st, what := nd.step, "`"+k.key+"`"
	switch k.key {
	case "check":
		st.Check = l.check(k.val)
	case "artifacts":
		st.Artifacts = l.artifacts(k.val)
	case "allow-raw":
		st.AllowRaw = l.boolean(k.val, what)
	case "sandbox":
		st.Sandbox, st.SandboxOptions = l.sandbox(k.val)
	case "permissions":
		st.Permissions = l.permissions(k.val)
	case "budget":
		st.Budget = l.budget(k.val)
	case "cache":
		st.Cache = l.cache(k.val)
	case "notify":
		st.Notify = l.notify(k.val)
	default:
		return false
	}
	return true
}

// leafTexts checks the templates of these keys. nd may be a group.
func (l *loader) leafTexts(nd *node) {
	st := nd.step
	if st.Check != nil {
		l.scriptText(st.Check.Run, site{node: nd, env: true, what: "`check`"}, "")
	}
	for _, t := range st.Artifacts {
		l.checkText(t, site{node: nd, env: true, what: "`artifacts`"})
	}
	if st.Cache != nil && st.Cache.Key != nil {
		l.checkText(*st.Cache.Key, site{node: nd, env: true, what: "`cache.key`"})
	}
	for _, n := range st.Notify {
		l.scriptText(n.Run, site{node: nd, env: true, what: "`notify`"}, "")
	}
}

// leafTemplates calls f for the templates of these keys, as they will be rendered.
func leafTemplates(st *Step, f func(Text, mode)) {
	if st.Check != nil {
		f(st.Check.Run, modeScript)
	}
	for _, t := range st.Artifacts {
		f(t, modeText)
	}
	if st.Cache != nil && st.Cache.Key != nil {
		f(*st.Cache.Key, modeText)
	}
	for _, n := range st.Notify {
		f(n.Run, modeScript)
	}
}

// leafTable are the rows of these keys in the table of a step's keys.
func leafTable() []key {
	return []key{
		{"check", "A script that must pass before the agent's work counts as done. Its failure goes back to the agent.", checkSchema()},
		{"artifacts", "Files to keep with the run: paths and globs below the working directory. Templates.", oneOrMore(text())},
		{"allow-raw", "The step's scripts may use `raw`, which makes a value text of the script.", truth()},
		{"sandbox", "What the step's processes can reach; of an agent's, instead of the profile's.", sandboxSchema()},
		{"permissions", "Rules on tools, besides those of the profile and the pipeline.", def("permissions")},
		{"budget", "What the agents of the step, and of the steps within, may use.", def("budget")},
		{"cache", "Keep the result, and take it when the same is asked of the same agent on the same files.", cacheSchema()},
		{"notify", "A script to run when the step has ended.", def("notify")},
	}
}
