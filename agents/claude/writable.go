package claude

// writable is what the CLI keeps for itself: sessions, settings, the state of its user.
func writable() []string {
	return []string{"$CLAUDE_CONFIG_DIR/", "~/.claude/", "~/.claude.json"}
}
