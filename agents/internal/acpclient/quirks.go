package acpclient

import "strings"

// quirks notes what an agent does otherwise than the protocol has it, by what it calls
// itself.
func (i *agentInfo) quirks() {
	switch i.name {
	case "gemini-cli": // 0.61.0
		// It answers session/load while it is still repeating the session. The list of
		// its commands is sent from a timer that it sets after that, so it comes last.
		i.commandsEndReplay = true
		// A call's id is the name of its tool, "__" and more; nothing else names the tool.
		i.toolInIDs = true
		// By the policy that flow gives it, it asks for every call that rules could be about.
		i.asksWhenRuled = true
	case "OpenCode": // 1.18.33
		// It says that a call is in progress before it asks for it, and while it waits.
		i.earlyProgress = true
		// In the place of a tool that there is not it runs one, "invalid", that says so.
		i.saysInvalid = true
		// By the configuration that flow gives it, it asks for every call.
		i.asksWhenRuled = true
	}
}

// excuse reports whether a call is of the tool that stands for one that there is not.
func (i agentInfo) excuse(k *call) bool {
	return i.saysInvalid && k.kind == "other" && k.title == "invalid" && k.input != nil && len(k.input.fields) == 2 &&
		k.input.text("tool") != "" && k.input.text("error") != ""
}

// modeUpdate is how Gemini CLI begins a text that tells of a new mode, and that no model
// has said.
const modeUpdate = "[MODE_UPDATE] "

// toolOfID is the name of a tool in the id of its call, "" if there is none.
func toolOfID(id string) string {
	name, _, ok := strings.Cut(id, "__")
	if !ok {
		return ""
	}
	return name
}
