package gemini

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
)

func TestCauseOf(t *testing.T) {
	api := func(code int, message, status string) string {
		return fmt.Sprintf(`[API Error: {"error":{"code":%d,"message":%q,"status":%q}}]`, code, message, status)
	}
	tests := []struct {
		name      string
		code      int
		errorType string
		message   string
		want      agents.Cause
	}{
		{"the status is the exit status", 145, "unknown", "", agents.CauseAuth},
		{"forbidden", 147, "unknown", api(403, "The caller does not have permission", "PERMISSION_DENIED"), agents.CauseAuth},
		{"the message tells when the exit status does not", 1, "unknown", api(503, "overloaded", "UNAVAILABLE"), agents.CauseOverloaded},
		{"a bad key is a bad request", 144, "unknown", api(400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT"), agents.CauseAuth},
		{"a full context is a bad request", 144, "unknown", api(400, "The input token count (2) exceeds the maximum number of tokens allowed (1).", "INVALID_ARGUMENT"), agents.CauseContext},
		{"any other bad request", 144, "unknown", api(400, "Request contains an invalid argument.", "INVALID_ARGUMENT"), agents.CauseInvalidRequest},
		{"payment", 146, "unknown", "", agents.CauseBilling},
		{"too large", 157, "unknown", "", agents.CauseInvalidRequest},
		{"no such model", 1, "unknown", "[API Error: models/x is not found for API version v1beta]", agents.CauseModelNotFound},
		{"per minute", 173, "unknown", "[API Error: You exceeded your current quota]", agents.CauseRateLimit},
		{"per day", 173, "unknown", "[API Error: You have exhausted your daily quota on this model.]", agents.CauseUsageLimit},
		{"bad gateway", 246, "unknown", "", agents.CauseServer},
		{"no connection", 1, "unknown", "[API Error: exception TypeError: fetch failed sending request]", agents.CauseNetwork},
		{"cut", 1, "unknown", "[API Error: terminated]", agents.CauseNetwork},
		{"turns, by type", 0, "FatalTurnLimitedError", "", agents.CauseMaxTurns},
		{"turns, by exit status", 53, "", "", agents.CauseMaxTurns},
		{"cancelled from a terminal", 130, "FatalCancellationError", "Operation cancelled.", agents.CauseCancelled},
		{"unsafe", 0, "", "The model response was blocked due to safety settings.", agents.CauseRefusal},
		{"too long", 0, "", "Model response was truncated because it exceeded the token limit.", agents.CauseMaxOutput},
		{"a hook said no", 0, "", "Agent execution blocked: no", agents.CausePermission},
		{"not logged in", 41, "", "Invalid auth method selected.", agents.CauseAuth},
		{"untrusted", 55, "", "not running in a trusted directory", agents.CauseConfig},
		{"a signal as a shell would put it", 137, "", "", agents.CauseUnknown},
		{"no idea", 1, "unknown", "something new", agents.CauseUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := causeOf(tt.code, tt.errorType, tt.message); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestReadable(t *testing.T) {
	for message, want := range map[string]string{
		"Loop detected":                                  "Loop detected",
		"[API Error: terminated]":                        "API error: terminated",
		"[API Error: exception TypeError: fetch failed]": "API error: fetch failed",
		"[API Error: Daily quota.]\nPlease wait":         "API error: Daily quota. Please wait",
		`[API Error: {"error":{"code":401,"message":"No [x].","status":"UNAUTHENTICATED"}}]`:  "API error: No [x]. (401 UNAUTHENTICATED)",
		`[API Error: {"error":{"code":500,"message":"Oh.","status":"INTERNAL"}}] Please wait`: "API error: Oh. (500 INTERNAL) Please wait",
		`[API Error: {"error":`: `API error: {"error":`,
	} {
		if got := readable(message); got != want {
			t.Errorf("readable(%q) = %q, want %q", message, got, want)
		}
	}
}

func TestComplaint(t *testing.T) {
	tests := []struct{ name, stderr, want string }{
		{"greetings only", "Warning: 256-color support not detected.\nRipgrep is not available. Falling back to GrepTool.\n", ""},
		{
			"a stack trace and its properties",
			"Error: it broke\n    at main (file.js:1:2) {\n  exitCode: 41\n}\nIt broke.\n", "Error: it broke\nIt broke.",
		},
		{"a wrong argument", "Unknown argument: nope\nUsage: gemini [options]\n\n  -h, --help\n", "refused its arguments: Unknown argument: nope"},
		{"too much", strings.Repeat("é", 5000), "…" + strings.Repeat("é", maxMessage/2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := complaint(tt.stderr); strings.TrimSpace(got) != strings.TrimSpace(tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRetries(t *testing.T) {
	tests := []struct {
		name, stderr string
		want         []agents.Body
	}{
		{
			"with a status",
			`Attempt 2 failed with status 503. Retrying with backoff... _ApiError: {"error":{"code":503,"message":"Busy.","status":"UNAVAILABLE"}}`,
			[]agents.Body{agents.Retry{Attempt: 2, Status: 503, Cause: agents.CauseOverloaded, Message: "API error: Busy. (503 UNAVAILABLE)"}},
		},
		{
			"without one",
			"Attempt 1 failed. Retrying with backoff... Error: exception TypeError: fetch failed sending request",
			[]agents.Body{agents.Retry{Attempt: 1, Cause: agents.CauseNetwork, Message: "fetch failed sending request"}},
		},
		{
			"over two lines, with a delay",
			"Attempt 1 failed: You exceeded your current quota.\nSuggested retry after 2s.. Retrying after 5063ms...",
			[]agents.Body{agents.Retry{Attempt: 1, DelayMS: 5063, Cause: agents.CauseRateLimit, Message: "You exceeded your current quota. Suggested retry after 2s"}},
		},
		{"the last attempt is followed by none", "Attempt 3 failed: it broke. Max attempts reached\nRetrying after 5ms", nil},
		{"anything else", "Attempting something\nYOLO mode is enabled.", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := Adapter{}.Dialog(agents.Request{})
			var got []agents.Body
			for line := range strings.Lines(tt.stderr) {
				for _, e := range d.Stderr([]byte(strings.TrimSuffix(line, "\n"))) {
					got = append(got, e.Body)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// An unfinished retry must not collect lines for ever.
func TestRetryIsBounded(t *testing.T) {
	d := Adapter{}.Dialog(agents.Request{})
	d.Stderr([]byte("Attempt 1 failed: it is"))
	var events []agents.Event
	for range 1000 {
		events = append(events, d.Stderr([]byte("a long story"))...)
	}
	if len(events) != 1 {
		t.Errorf("%d events, want one retry", len(events))
	}
}
