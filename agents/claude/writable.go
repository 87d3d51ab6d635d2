package claude

// writable is what the CLI keeps for itself: sessions, the shell's surroundings, the
// login. Settings, hooks, servers and skills of the user are left out, in this directory
// and in ~/.claude.json: they are obeyed outside of the sandbox too. The CLI goes on when
// it cannot write them.
func writable() []string {
	var all []string
	for _, name := range []string{
		"projects/", "sessions/", "session-env/", "shell-snapshots/", // it makes these in every turn
		".credentials.json", "cache", "debug", "file-history", "paste-cache", "plans", "statsig", "tasks", "telemetry", "todos",
	} {
		all = append(all, "${CLAUDE_CONFIG_DIR:-~/.claude}/"+name)
	}
	return all
}
