package codex

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

// The messages are codex's own, as recorded or as its app-server types them.
func TestClassify(t *testing.T) {
	tests := map[string]agents.Cause{
		"unexpected status 401 Unauthorized: Incorrect API key, url: http://x/v1/responses":                                 agents.CauseAuth,
		"unexpected status 403 Forbidden: no access, url: http://x/v1/responses":                                            agents.CauseAuth,
		"Missing environment variable: `STUB_KEY`.":                                                                         agents.CauseAuth,
		"The model `x` does not exist":                                                                                      agents.CauseModelNotFound,
		"The 'gpt-9' model is not supported when using Codex with a ChatGPT account.":                                       agents.CauseModelNotFound,
		"exceeded retry limit, last status: 429 Too Many Requests":                                                          agents.CauseRateLimit,
		"stream disconnected before completion: Rate limit reached for gpt-5.5. Please try again in 1.2s.":                  agents.CauseRateLimit,
		"Quota exceeded. Check your plan and billing details.":                                                              agents.CauseUsageLimit,
		"You’ve hit your usage limit. Upgrade to Pro or try again at 1:59 PM.":                                              agents.CauseUsageLimit,
		"You've hit your usage limit.":                                                                                      agents.CauseUsageLimit,
		"We’re currently experiencing high demand, which may cause temporary errors.":                                       agents.CauseServer,
		"unexpected status 502 Bad Gateway: x, url: http://x":                                                               agents.CauseServer,
		"exceeded retry limit, last status: 500 Internal Server Error":                                                      agents.CauseServer,
		"unexpected status 503 Service Unavailable: x":                                                                      agents.CauseOverloaded,
		"Selected model is at capacity. Please try a different model.":                                                      agents.CauseOverloaded,
		"stream disconnected before completion: stream closed before response.completed":                                    agents.CauseNetwork,
		"stream disconnected before completion: failed to lookup address information: Try again":                            agents.CauseNetwork,
		"Connection failed: error sending request":                                                                          agents.CauseNetwork,
		"stream disconnected before completion: An error occurred":                                                          agents.CauseServer,
		"stream disconnected before completion: Incomplete response returned, reason: content_filter":                       agents.CauseRefusal,
		"Incomplete response returned, reason: max_output_tokens":                                                           agents.CauseMaxOutput,
		"Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.": agents.CauseContext,
		"Codex ran out of room in the model’s context window.":                                                              agents.CauseContext,
		"Invalid prompt: flagged":                                                                                           agents.CauseRefusal,
		"bad (invalid_request_error)":                                                                                       agents.CauseInvalidRequest,
		"unexpected status 418 I'm a teapot":                                                                                agents.CauseInvalidRequest,
		"Error: thread/resume: thread/resume failed: no rollout found for thread id x (code -32600)":                        agents.CauseSessionNotFound,
		"Error: thread/resume failed: thread x already has an active writer (code -32600)":                                  agents.CauseSessionInUse,
		"Not inside a trusted directory and --skip-git-repo-check was not specified.":                                       agents.CauseConfig,
		"Error loading config.toml: unknown variant `nope`":                                                                 agents.CauseConfig,
		"required MCP servers failed to initialize: lab: timed out handshaking with MCP server":                             agents.CauseConfig,
		"turn/start failed: Input exceeds the maximum length of 1048576 characters.":                                        agents.CauseConfig,
		"something new": agents.CauseUnknown,
		"":              agents.CauseUnknown,
	}
	for message, want := range tests {
		if got := classify(message); got != want {
			t.Errorf("classify(%q) = %s, want %s", message, got, want)
		}
	}
}

func TestReadRetry(t *testing.T) {
	tests := map[string]struct {
		want agents.Retry
		ok   bool
	}{
		"Reconnecting... 2/5 (unexpected status 401 Unauthorized: no, url: http://x (y))": {
			agents.Retry{Attempt: 2, MaxRetries: 5, Status: 401, Cause: "auth", Message: "unexpected status 401 Unauthorized: no, url: http://x (y)"}, true,
		},
		"Reconnecting... waiting for network (Connection failed: error sending request)": {
			agents.Retry{Cause: "network", Message: "Connection failed: error sending request"}, true,
		},
		"Reconnecting... 1/5":           {agents.Retry{Attempt: 1, MaxRetries: 5}, true},
		"Reconnecting... soon (why, 9)": {agents.Retry{Message: "why, 9"}, true},
		"Connection failed":             {agents.Retry{}, false},
	}
	for message, tt := range tests {
		got, ok := readRetry(message)
		if diff := cmp.Diff(tt.want, got); diff != "" || ok != tt.ok {
			t.Errorf("readRetry(%q): %v (-want +got):\n%s", message, ok, diff)
		}
	}
}

// While codex waits for a network it does not number its attempts.
func TestRetriesAreNumbered(t *testing.T) {
	waiting := `{"type":"error","message":"Reconnecting... waiting for network (Connection failed)"}`
	events, _ := play(t, agents.Request{}, agents.Exit{Code: 1}, started, turn, waiting, waiting)
	var attempts []int
	for _, r := range find[agents.Retry](events) {
		attempts = append(attempts, r.Attempt)
	}
	if diff := cmp.Diff([]int{1, 2}, attempts); diff != "" {
		t.Error(diff)
	}
}

func TestResetTime(t *testing.T) {
	tests := map[string]string{
		"… or try again at Nov 22nd, 2026 5:36 PM.": "2026-11-22T17:36:00Z",
		"… or try again at Dec 1st, 2026 12:05 AM.": "2026-12-01T00:05:00Z",
		"… or try again at Dec 3rd, 2026 9:05 AM.":  "2026-12-03T09:05:00Z",
		"… or try again at Feb 30th, 2026 9:05 AM.": "", // no such day
		"… or try again at 1:59 PM.":                "", // today, whenever that is
		"… or try again later.":                     "",
		"":                                          "",
	}
	for message, want := range tests {
		got := ""
		if at := resetTime(message); !at.IsZero() {
			got = at.UTC().Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("resetTime(%q) = %q, want %q", message, got, want)
		}
	}
}

func TestUnwrap(t *testing.T) {
	tests := map[string]string{
		`{"error": {"message": "bad", "type": "invalid_request_error"}}`: "bad (invalid_request_error)",
		`{"error": {"message": "bad", "type": "t", "code": "c"}}`:        "bad (c)",
		`{"error": {"message": "bad", "code": null}}`:                    "bad (400 Bad Request)",
		`{"detail": "model is not supported"}`:                           "model is not supported (400 Bad Request)",
		`{"error": "bad"}`:                                               `{"error": "bad"}`,
		`{"other": 1}`:                                                   `{"other": 1}`,
		`{ no JSON`:                                                      `{ no JSON`,
		`plain`:                                                          `plain`,
	}
	for message, want := range tests {
		if got := unwrap(message); got != want {
			t.Errorf("unwrap(%s) = %s, want %s", message, got, want)
		}
	}
}

func TestStderrTail(t *testing.T) {
	log := "2026-11-21T00:03:14.534Z ERROR codex_core::session: no\n"
	noise := "WARNING: proceeding, even though\nReading additional input from stdin...\n" + log
	if got := stderrTail(noise+"Error: one\n\n  two\n", false); got != "Error: one\ntwo" {
		t.Errorf("%q", got)
	}
	if got := stderrTail(noise, false); got != "" {
		t.Errorf("%q", got)
	}
	if got := stderrTail(noise, true); got != strings.TrimSpace(log) {
		t.Errorf("%q", got)
	}
	long := stderrTail(strings.Repeat("é", 4096)+"end", false)
	if len(long) > maxMessage || !strings.HasSuffix(long, "end") || strings.ContainsRune(long, '\uFFFD') {
		t.Errorf("%d bytes, ends with %q", len(long), long[max(0, len(long)-8):])
	}
}

func TestClip(t *testing.T) {
	for s, want := range map[string]string{"abcd": "abcd", "abcde": "abcd…", "abcé": "abc…", "\x80\x80\x80\x80\x80": "…"} {
		if got := clip(s, 4); got != want {
			t.Errorf("clip(%q) = %q, want %q", s, got, want)
		}
	}
}
