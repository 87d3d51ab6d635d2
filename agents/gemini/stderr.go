package gemini

import (
	"regexp"
	"strconv"
	"strings"

	"flow/agents"
)

// The CLI retries a failed model call on its own, for minutes, and says so on
// standard error only. Three forms are known; the message of the last two may
// run over several lines:
//
//	Attempt 1 failed with status 500. Retrying with backoff... _ApiError: {"error":…
//	Attempt 1 failed: You exceeded … quota. Suggested retry after 2s.. Retrying after 5063ms...
//	Attempt 3 failed: {"error":…}. Max attempts reached
var (
	attemptLine = regexp.MustCompile(`^Attempt (\d+) failed(?: with status (\d+))?[.:] *(.*)`)
	delayText   = regexp.MustCompile(`^(.*?)\.* *Retrying after (\d+)ms`)
)

const (
	backoffText  = "Retrying with backoff..."
	lastAttempt  = "Max attempts reached"
	skippedStart = "Security Warning: Skipping system "
)

// Stderr takes a line of standard error: retries, and the news that the CLI did
// not read our settings, unless it has them from the run's own home.
func (d *dialog) Stderr(line []byte) []agents.Event {
	text := strings.TrimSpace(string(line))
	if m := attemptLine.FindStringSubmatch(text); m != nil {
		attempt, _ := strconv.Atoi(m[1])
		status, _ := strconv.Atoi(m[2])
		d.retry = &agents.Retry{Attempt: attempt, Status: status}
		text = m[3]
	}
	if d.retry != nil {
		return d.onRetry(text)
	}
	if strings.Contains(text, skippedStart) && !d.ownHome && d.settingsSkipped == "" {
		d.settingsSkipped = text
		return one(agents.System{Subtype: "settings_skipped", Message: text})
	}
	return nil
}

// onRetry takes what a line says of the retry under way.
func (d *dialog) onRetry(text string) []agents.Event {
	r := d.retry
	if _, cause, ok := strings.Cut(text, backoffText); ok {
		r.Message = readable(errorName.ReplaceAllString(strings.TrimSpace(cause), ""))
		return d.sendRetry()
	}
	if m := delayText.FindStringSubmatch(text); m != nil {
		r.DelayMS, _ = strconv.ParseInt(m[2], 10, 64)
		r.Message = join(r.Message, m[1])
		return d.sendRetry()
	}
	if strings.Contains(text, lastAttempt) {
		d.retry = nil // the result tells what became of it
		return nil
	}
	if r.Message = join(r.Message, text); len(r.Message) > maxMessage {
		return d.sendRetry()
	}
	return nil
}

func (d *dialog) sendRetry() []agents.Event {
	r := *d.retry
	d.retry = nil
	r.Cause = causeOf(0, "", r.Message)
	if cause := causeOfStatus(r.Status, r.Message); cause != "" {
		r.Cause = cause
	}
	return one(r)
}

func join(a, b string) string { return strings.TrimSpace(a + " " + b) }

// maxMessage bounds what is quoted of standard error, in bytes.
const maxMessage = 2 << 10

// errorName is how Node.js prefixes an error it prints ("_ApiError: ").
var errorName = regexp.MustCompile(`^(?:exception |\w*Error: )+`)

// noise are lines of standard error that tell nothing about a failure.
var noise = regexp.MustCompile(`^(Warning: |YOLO mode is enabled|Approval mode overridden|Ripgrep is not available|` +
	`\[STARTUP\]|Loaded cached credentials|No previous sessions found for this project\.$|Attempt \d+ failed|` +
	`Security Warning: |[{}] *$)`)

// complaint is what standard error says of a failure: its last lines without
// greetings, stack traces and the manual page that follows a wrong argument.
func complaint(stderr string) string {
	stderr, _, usage := strings.Cut(stderr, "Usage: gemini ")
	said := tail(strings.Join(meaningful(stderr), "\n"), maxMessage)
	if usage {
		return "refused its arguments: " + said
	}
	return said
}

func meaningful(stderr string) []string {
	var lines []string
	dump := false // within the properties that Node.js prints after a stack trace
	for line := range strings.Lines(stderr) {
		line = strings.TrimRight(line, " \r\n")
		trimmed := strings.TrimSpace(line)
		switch {
		case dump:
			dump = line != "}"
		case strings.HasPrefix(trimmed, "at ") && line != trimmed:
			dump = strings.HasSuffix(line, "{")
		case trimmed != "" && !noise.MatchString(trimmed):
			lines = append(lines, trimmed)
		}
	}
	return lines
}

// tail is the end of text, at most n bytes of whole characters.
func tail(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return "…" + strings.ToValidUTF8(text[len(text)-n:], "")
}
