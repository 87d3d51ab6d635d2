package simulate

import (
	"path/filepath"
	"testing"
)

// The lines of a conversation are shaped like the recorded ones, whatever the client
// answers.
func TestClaudeTalksAsRecorded(t *testing.T) {
	allow := func(id any, subtype string) object {
		if subtype == "hook_callback" {
			return answers(id, object{})
		}
		return answers(id, object{"behavior": "allow"})
	}
	deny := func(id any, _ string) object {
		return answers(id, object{"behavior": "deny", "message": "no", "hookSpecificOutput": object{"permissionDecision": "deny"}})
	}
	ask := func(id any, subtype string) object {
		if subtype == "hook_callback" {
			return hookSays(id, "ask", nil)
		}
		return answers(id, object{"behavior": "deny", "message": "no", "interrupt": true})
	}
	fail := func(id any, _ string) object {
		return object{"type": "control_response", "response": object{"subtype": "error", "request_id": id, "error": "broken"}}
	}
	stop := func(any, string) object { return controls("stop", "interrupt", nil) }
	shapes := recorded(t, Claude)
	for name, answer := range map[string]func(any, string) object{"allow": allow, "deny": deny, "ask": ask, "fail": fail, "stop": stop} {
		for _, script := range []string{"edit=new.txt;edit=old.txt;run=touch ran", "question", "edit=.git/config;asks", "fail=auth"} {
			t.Run(name+" "+script, func(t *testing.T) {
				l := newLab(t).script(script)
				write(t, filepath.Join(l.dir, "old.txt"), "old\n")
				p := l.talk(Claude, talking("--replay-user-messages")...)
				p.say(hooking())
				p.say(userSays("go", uuidA))
				p.say(controls("mode", "set_permission_mode", object{"mode": "default"}))
				p.say(controls("none", "zork", nil))
				for v := p.next(); v != nil && v["type"] != "result"; v = p.next() {
					if v["type"] == "control_request" {
						p.say(answer(v["request_id"], get(t, v, "request.subtype").(string)))
					}
				}
				p.say(controls("model", "set_model", object{"model": "haiku"}))
				p.close()
				for _, line := range p.heard {
					compare(t, shapes, read()[Claude], line)
				}
			})
		}
	}
}
