package gemini

import (
	"encoding/json"
	"path/filepath"

	"flow/agents"
)

func settingsPath(r agents.Request) string { return filepath.Join(r.Scratch, "gemini-settings.json") }

func defaultsPath(r agents.Request) string { return filepath.Join(r.Scratch, "gemini-defaults.json") }
func policyPath(r agents.Request) string   { return filepath.Join(r.Scratch, "gemini-policy.toml") }

// section is one object of a settings file.
type section = map[string]any

// settings is the file of the highest priority, above the user's and the
// repository's. The CLI reads it only when it and every directory above it belong
// to root and no one else may write there (so not below /tmp); otherwise it warns
// on standard error and goes on without, which Dialog.Stderr reports. What a run
// depends on for safety therefore stands in flags and environment; this file has
// what they cannot say.
func settings(r agents.Request) []byte {
	s := section{
		"general": section{
			// The cleanup of old sessions also removes those that were resumed once.
			"sessionRetention": section{"enabled": false},
			// The default is ten attempts, four silent minutes of them.
			"maxAttempts":                  3,
			"enableAutoUpdate":             false,
			"enableAutoUpdateNotification": false,
		},
		"privacy": section{"usageStatisticsEnabled": false},
	}
	if r.MaxTurns > 0 {
		s["model"] = section{"maxSessionTurns": r.MaxTurns}
	}
	if !r.Inherit {
		s["telemetry"] = section{"enabled": false}
		s["hooksConfig"] = section{"enabled": false}
		s["skills"] = section{"enabled": false}
		s["ide"] = section{"enabled": false}
		s["mcp"] = section{"serverCommand": ""}
		s["tools"] = section{"discoveryCommand": "", "callCommand": "", "sandbox": false}
		s["advanced"] = section{"ignoreLocalEnv": true}
	}
	return encode(s)
}

// defaults is the file of the lowest priority. It names the way to log in for
// users who have chosen none: with GOOGLE_GEMINI_BASE_URL in the environment the
// CLI would otherwise choose one that it then rejects. A login that the user has
// chosen wins, and GEMINI_DEFAULT_AUTH_TYPE, the CLI's own variable, is for
// machines without a choice that log in otherwise (vertex-ai, oauth-personal).
func defaults() []byte {
	return encode(section{"security": section{"auth": section{"selectedType": "${GEMINI_DEFAULT_AUTH_TYPE:-gemini-api-key}"}}})
}

// encode cannot fail: sections hold only texts, numbers and truth values.
func encode(s section) []byte {
	data, _ := json.MarshalIndent(s, "", "  ")
	return append(data, '\n')
}
