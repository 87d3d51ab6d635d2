package acpclient

import (
	"testing"

	"github.com/valyala/fastjson"

	"flow/agents"
)

// A command is judged as it will run: where, and by which shell.
func TestCommand(t *testing.T) {
	for input, want := range map[string]string{
		`{"command":"ls"}`:                                  "ls",
		`{"command":"ls","cwd":"/repo"}`:                    "ls",
		`{"command":"ls","workdir":"/repo/.git/hooks"}`:     "cd '/repo/.git/hooks' && ls",
		`{"command":"ls","cwd":"sub"}`:                      "cd '/repo/sub' && ls",
		`{"command":["/bin/sh","-c","ls | wc"]}`:            "ls | wc",
		`{"command":["ls","a b"],"dir_path":"/tmp"}`:        "cd '/tmp' && ls 'a b'",
		`{"command":["./sh","-c","ls"]}`:                    "./sh -c ls",
		`{"command":["/repo/bash","-lc","ls"],"cwd":"/x"}`:  "cd '/x' && /repo/bash -lc ls",
		`{"command":"","cmd":"make","directory":"/repo/b"}`: "cd '/repo/b' && make",
	} {
		c := New(Options{Request: agents.Request{Dir: "/repo"}})
		k := c.callOf(fastjson.MustParse(`{"toolCallId":"1","kind":"execute","rawInput":` + input + `}`))
		if got, certain := k.target(); got != want || !certain {
			t.Errorf("%s is %q (%t), want %q", input, got, certain, want)
		}
	}
}
