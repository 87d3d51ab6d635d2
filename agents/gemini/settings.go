package gemini

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"

	"flow/agents"
)

func settingsPath(r agents.Request) string { return filepath.Join(r.Scratch, "gemini-settings.json") }

func defaultsPath(r agents.Request) string { return filepath.Join(r.Scratch, "gemini-defaults.json") }

func policyPath(r agents.Request) string { return filepath.Join(r.Scratch, "gemini-policy.toml") }

// ownHome reports whether the turn has Request.Home in place of the user's home
// for all that the CLI keeps: settings, instructions (GEMINI.md), logins, sessions.
func ownHome(r agents.Request) bool { return r.Home != "" && !r.Inherit }

// homeSettingsPath is where the CLI looks for the user's settings.
func homeSettingsPath(r agents.Request) string {
	return filepath.Join(r.Home, ".gemini", "settings.json")
}

// files are what the CLI reads of us: settings at each of its places, and rules.
func files(r agents.Request, rules []byte) []agents.File {
	f := []agents.File{
		{Path: settingsPath(r), Data: settings(r)},
		{Path: defaultsPath(r), Data: defaults()},
		{Path: policyPath(r), Data: rules},
	}
	if ownHome(r) {
		f = append(f, agents.File{Path: homeSettingsPath(r), Data: homeSettings()},
			agents.File{Path: commandPath(r), Data: []byte(commandFile)}, markerFile(r))
	}
	return f
}

// section is one object of a settings file.
type section = map[string]any

// settings is the file of the highest priority, above the user's and the
// repository's. The CLI reads it only when it and every directory above it belong
// to root and no one else may write there (so not below /tmp); otherwise it warns
// on standard error and goes on without. A home of the run's own says the same
// again; without one, Dialog.Stderr reports the warning. What a run depends on for
// safety therefore stands in flags and environment; this file has what they cannot say.
func settings(r agents.Request) []byte {
	s := common()
	if r.MaxTurns > 0 {
		s["model"] = section{"maxSessionTurns": r.MaxTurns}
	}
	if !r.Inherit {
		maps.Copy(s, hermetic())
	}
	if untrusted(r) {
		s["security"] = section{"folderTrust": withoutTrust()}
	}
	return encode(s)
}

// homeSettings is the user's file in a home of the run's own, which the CLI reads
// whoever owns it. Turns share that home, for a session can be resumed only where
// it began, and they may run at the same time. So the file is the same for all of
// them: what differs, the turn limit, is left to the environment, from which the
// CLI fills in its settings.
func homeSettings() []byte {
	s := common()
	maps.Copy(s, hermetic())
	s["security"] = section{"auth": chosenLogin(), "folderTrust": withoutTrust()}
	s["model"] = section{"maxSessionTurns": "${" + maxTurnsVariable + "}"}
	return encode(s)
}

const maxTurnsVariable = "FLOW_GEMINI_MAX_TURNS"

// maxTurnsSetting is the value of model.maxSessionTurns; -1 is no limit.
func maxTurnsSetting(r agents.Request) string {
	if r.MaxTurns <= 0 {
		return maxTurnsVariable + "=-1"
	}
	return fmt.Sprintf("%s=%d", maxTurnsVariable, r.MaxTurns)
}

// defaults is the file of the lowest priority, read under the same conditions as
// settings: a login that the user has chosen wins.
func defaults() []byte { return encode(section{"security": section{"auth": chosenLogin()}}) }

// withoutTrust lets the CLI work in a folder that is not trusted.
func withoutTrust() section { return section{"enabled": false} }

// chosenLogin names the way to log in for users who have chosen none: with
// GOOGLE_GEMINI_BASE_URL in the environment the CLI would otherwise choose one that
// it then rejects. GEMINI_DEFAULT_AUTH_TYPE, the CLI's own variable, is for those
// who log in otherwise (vertex-ai, say).
func chosenLogin() section {
	return section{"selectedType": "${GEMINI_DEFAULT_AUTH_TYPE:-gemini-api-key}"}
}

// common is what no turn goes without, whoever's settings it has besides.
func common() section {
	return section{
		"general": section{
			// The cleanup of old sessions also removes those that were resumed once.
			"sessionRetention": section{"enabled": false},
			// The default is ten attempts, four silent minutes of them.
			"maxAttempts":                  2,
			"enableAutoUpdate":             false,
			"enableAutoUpdateNotification": false,
		},
		"privacy": section{"usageStatisticsEnabled": false},
		"tools":   section{"shell": withoutTerminal()},
	}
}

// withoutTerminal lets commands run without one. Over ACP they would have a
// pseudoterminal, which a sandbox does not have: then none could be run.
func withoutTerminal() section { return section{"enableInteractiveShell": false} }

// hermetic turns off what would run or load something that nobody asked for.
func hermetic() section {
	return section{
		"telemetry":   section{"enabled": false},
		"hooksConfig": section{"enabled": false},
		"skills":      section{"enabled": false},
		"ide":         section{"enabled": false},
		"mcp":         section{"serverCommand": ""},
		"tools":       section{"discoveryCommand": "", "callCommand": "", "sandbox": false, "shell": withoutTerminal()},
		"advanced":    section{"ignoreLocalEnv": true},
	}
}

// encode cannot fail: sections hold only texts, numbers and truth values.
func encode(s section) []byte {
	data, _ := json.MarshalIndent(s, "", "  ")
	return append(data, '\n')
}
