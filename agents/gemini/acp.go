package gemini

import (
	"strings"

	"flow/agents"
	"flow/agents/internal/acpclient"
)

// The protocols that the CLI speaks.
const (
	headless  = "headless"
	transport = "acp"
)

// Transport returns the protocol for r. Over ACP the CLI asks before it acts, but tells
// less of what it does: without a person who is to be asked, rules do as well in its own
// policy.
func (Adapter) Transport(r agents.Request) string {
	switch {
	case r.Transport != "":
		return r.Transport
	case r.Asks():
		return transport
	}
	return headless
}

func talks(r agents.Request) bool { return r.Transport == transport }

// talkArgs are the arguments of `gemini --acp`. Sessions and the model's turn are matters
// of the protocol there.
func talkArgs(r agents.Request, mode string) []string {
	a := append([]string{"--acp", "--approval-mode=" + mode, "--admin-policy=" + policyPath(r)}, confinement(r)...)
	return append(append(a, "--model="+either(r.Model, DefaultModel)), r.Args...)
}

// talkMode is the mode in which the CLI asks for every effect, whatever approval is wanted:
// who is asked knows that.
func talkMode(r agents.Request) string {
	if r.Approval == agents.ApprovalPlan {
		return "plan"
	}
	return "default"
}

// talkPrompt is a prompt that is no command. The CLI runs a text that begins with / or $ as
// one; what is not a part of its own in a message it leaves alone otherwise, @ too.
func talkPrompt(r agents.Request) string {
	prompt := agents.WithSchema(r.Prompt, r.Schema)
	if strings.ContainsAny(firstRune(prompt), "/$") {
		return "The task:\n\n" + prompt
	}
	return prompt
}

func firstRune(text string) string {
	for _, r := range strings.TrimSpace(text) {
		return string(r)
	}
	return ""
}

// talkPolicy is the policy of a CLI that asks. It asks for every call that a rule could be
// about, so that flow's rules decide. They are not in it: what it allows it does not ask
// for, and of a call that it forbids it does not tell what it was, for the record.
func talkPolicy(r agents.Request) ([]byte, error) {
	var b []byte
	if r.Ruled() {
		b = appendRule(b, rule{tool: "*"}, "ask_user", defaultPriority)
		b = grantOwn(b)
	}
	if r.Sandbox != "" || r.Network == agents.NetworkOff {
		for _, name := range bounds(r) {
			b = appendRule(b, rule{tool: name}, "deny", sandboxPriority)
		}
	}
	for _, shared := range r.Rules {
		if shared.Effect != agents.EffectAllow {
			continue
		}
		if err := checkShared(r, shared); err != nil {
			return nil, err
		}
	}
	return appendNative(b, r)
}

// A conversation is one over ACP, with what standard error and the settings tell besides.
type conversation struct {
	*acpclient.Client
	stderr   dialog // only its account of standard error
	maxTurns int
}

var _ agents.Conversation = (*conversation)(nil)

func newConversation(r agents.Request) *conversation {
	own := r
	own.Model, own.AddDirs = "", nil // flags
	if r.Session.Mode == agents.SessionFork {
		own.Session = agents.Session{Mode: agents.SessionResume, ID: r.Session.ID} // a copy by now
	}
	return &conversation{
		Client: acpclient.New(acpclient.Options{
			Agent: Name, Title: "Gemini CLI", Request: own, Prompt: talkPrompt(r),
			Install: Adapter{}.Info().Install, Login: loginHint, Cause: talkCause,
		}),
		stderr: dialog{ownHome: ownHome(r)}, maxTurns: r.MaxTurns,
	}
}

// talkCause explains an error. Codes from 400 on are the API's own.
func talkCause(code int64, message string) agents.Cause {
	if cause := causeOfSession(message); cause != "" {
		return cause
	}
	if code >= 400 {
		return causeOfStatus(int(code), message)
	}
	return causeOfMessage(message)
}

// Stderr takes a line of standard error: retries, and settings that were not read.
func (c *conversation) Stderr(line []byte) []agents.Event { return c.stderr.Stderr(line) }

// End says what became of the turn.
func (c *conversation) End(exit agents.Exit) agents.Outcome {
	exit.Stderr = complaint(exit.Stderr)
	out := c.Client.End(exit)
	if out.Reason != agents.Completed {
		if hint := hintFor(out.Problem.Cause); hint != "" {
			out.Problem.Hint = hint
		}
		return out
	}
	c.stderr.maxTurns = c.maxTurns
	if reason, problem := c.stderr.checkSettings(); problem != nil {
		problem.Agent = Name
		out.Reason, out.Problem = reason, problem
	}
	return out
}
