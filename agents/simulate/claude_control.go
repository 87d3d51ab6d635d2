package simulate

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
)

// A claudeHook is one entry of the client's PreToolUse hooks.
type claudeHook struct {
	Matcher string   `json:"matcher"`
	IDs     []string `json:"hookCallbackIds"`
}

// covers reports whether the hook wants to be asked about a tool.
func (h claudeHook) covers(tool string) bool {
	if h.Matcher == "" || h.Matcher == "*" {
		return true
	}
	ok, err := regexp.MatchString("^(?:"+h.Matcher+")$", tool)
	return err == nil && ok
}

// control answers a request of the client.
func (k *claudeTalk) control(id string, request json.RawMessage) {
	var r struct {
		Subtype string `json:"subtype"`
		Mode    string `json:"mode"`
		Model   string `json:"model"`
		Hooks   struct {
			PreToolUse []claudeHook `json:"PreToolUse"`
		} `json:"hooks"`
	}
	_ = json.Unmarshal(request, &r) // what cannot be read is of no known kind
	switch r.Subtype {
	case "initialize":
		k.hooks = r.Hooks.PreToolUse
		k.agree(id, k.initialized())
	case "interrupt":
		k.withdraw()
		k.agree(id, object{"still_queued": []any{}})
		if len(k.current) > 0 {
			k.cancel(errStopped)
		}
	case "set_permission_mode":
		k.setMode(id, r.Mode)
	case "set_model":
		k.setModel(id, r.Model)
	case "mcp_status":
		k.agree(id, object{"mcpServers": []any{}})
	default:
		k.disagree(id, "unsupported_request", "Unsupported control request subtype: "+r.Subtype)
	}
}

func (k *claudeTalk) agree(id string, response object) {
	k.put(object{"type": "control_response", "response": object{"subtype": "success", "request_id": id, "response": response}})
}

func (k *claudeTalk) disagree(id, code, message string) {
	k.put(object{"type": "control_response", "response": object{
		"subtype": "error", "request_id": id, "error": message, "error_code": code,
	}})
}

// initialized is the answer to initialize: what the session is like.
func (k *claudeTalk) initialized() object {
	return object{
		"commands": []any{}, "agents": []any{}, "output_style": "default", "available_output_styles": []string{"default"},
		"models": []any{}, "account": object{"tokenSource": "none", "apiKeySource": "none", "apiProvider": "firstParty"},
		"pid": os.Getpid(), "claude_code_version": claudeVersion, "current_permission_mode": k.args.mode,
		"hooks_applied": true, "hook_on_failure_supported": true, "session_state": "idle", "fast_mode_state": "off",
		"capabilities": []any{},
	}
}

// setMode changes the permission mode. Only a session that was launched without
// permissions may do without them.
func (k *claudeTalk) setMode(id, mode string) {
	modes := []string{"acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "plan"}
	launched := k.args.has("--dangerously-skip-permissions") || k.args.has("--allow-dangerously-skip-permissions") ||
		k.args.last("--permission-mode") == "bypassPermissions"
	switch {
	case !slices.Contains(modes, mode):
		k.disagree(id, "invalid_mode", "Cannot set permission mode: must be one of "+strings.Join(modes, ", "))
	case mode == "bypassPermissions" && !launched:
		k.disagree(id, "bypass_not_launched", "Cannot set permission mode to bypassPermissions because the session was not launched with --dangerously-skip-permissions")
	default:
		k.args.mode = mode
		k.agree(id, object{"mode": mode})
		k.put(k.envelope(object{"type": "system", "subtype": "status", "status": nil, "permissionMode": mode}))
	}
}

// setModel changes the model, now and in later turns.
func (k *claudeTalk) setModel(id, model string) {
	full := claudeModel(model)
	k.session.Model = full
	k.put(k.envelope(object{
		"type": "user", "parent_tool_use_id": nil, "timestamp": timestamp(), "isReplay": true, "message": object{
			"role": "user", "content": "<local-command-stdout>Set model to `" + model + " (" + full + ")`</local-command-stdout>",
		},
	}))
	k.agree(id, object{"model": full})
}
