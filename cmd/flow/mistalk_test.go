package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mistalks are the misdeeds of agents that are talked to. Nothing is allowed in their turns.
func mistalks() []misdeed {
	const flood = 10_000
	return []misdeed{
		{name: "deaf", what: "never reads what it is told, a prompt of 1 MB", never: true, prompt: "prompt: '{{ file \"long.txt\" }}'", keys: "idle-timeout: 10s", do: func(*fake) int {
			return stay()
		}},
		{name: "closes-ear", what: "closes its standard input, then asks, and does not wait for the answer", do: func(f *fake) int {
			f.work()
			_ = os.Stdin.Close()
			f.request("1")
			f.say(f.well)
			return 0
		}},
		{name: "answers-nothing", what: "answers requests that nobody made", do: func(f *fake) int {
			f.work()
			f.say(
				`{"jsonrpc":"2.0","id":4711,"result":{}}`, `{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"no"}}`,
				`{"type":"control_response","response":{"subtype":"success","request_id":"flow-4711","response":{}}}`,
			)
			f.say(f.well)
			return f.leave()
		}},
		{name: "invents", what: "asks what nobody knows, and waits for the answer", do: func(f *fake) int {
			f.work()
			if f.prompt == "" && f.begin[0][2:6] == "type" {
				f.say(`{"type":"control_request","request_id":"i1","request":{"subtype":"sing"}}`)
			} else {
				f.say(`{"jsonrpc":"2.0","id":"i1","method":"user/sing","params":{}}`)
			}
			if !f.answered(1) {
				return 1
			}
			f.say(f.well)
			return f.leave()
		}},
		{name: "floods", what: "asks 10,000 times at once, and waits for all answers", do: func(f *fake) int {
			f.work()
			go func() {
				for i := range flood {
					f.request(fmt.Sprint(i))
				}
			}()
			if !f.answered(flood) {
				return 1
			}
			f.say(f.well)
			return f.leave()
		}},
		{name: "floods-deaf", what: "asks 10,000 times at once, and reads no answer", do: func(f *fake) int {
			f.work()
			for i := range flood {
				f.request(fmt.Sprint(i))
			}
			f.say(f.well)
			return 0
		}},
		{name: "huge", what: "asks with up to 20 MB, and waits for the answer", do: func(f *fake) int {
			f.work()
			f.request(strings.Repeat("x", 5<<20))
			if !f.answered(1) {
				return 1
			}
			f.say(f.well)
			return f.leave()
		}},
		{name: "too-long", what: "asks with more than 32 MiB, and waits for the answer", never: true, do: func(f *fake) int {
			f.work()
			f.request(strings.Repeat("x", 12<<20))
			f.answered(1)
			return f.leave()
		}},
		{name: "batch", what: "asks in a batch of batches", do: func(f *fake) int {
			f.work()
			f.say("[[" + strings.ReplaceAll(f.ask, "TEXT", "1") + "]]")
			f.say(f.well)
			return f.leave()
		}},
		{name: "asks-after", what: "asks after its turn has ended, and waits for the answer", do: func(f *fake) int {
			f.work()
			f.say(f.well)
			f.request("1")
			f.answered(1)
			return f.leave()
		}},
	}
}

// TestMistalk has agents that are talked to misbehave in every way, all in one run. What
// each step comes to stands in testdata/mistalk.txt.
func TestMistalk(t *testing.T) {
	t.Parallel()
	all := voices()
	protocols := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(p string) bool { return all[p].hears == nil })
	r := newCrashRun(t, "mistalk")
	pipeline := append([]byte("permissions: {default: deny}\n"), misbehaving(protocols, mistalks())...)
	for name, data := range map[string][]byte{r.pipeline: pipeline, "long.txt": []byte(strings.Repeat("0123456789abcde\n", 64<<10))} {
		if err := os.WriteFile(filepath.Join(r.dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cells, seen := r.misbehave(t, exitFailed)
	golden(t, filepath.Join("testdata", "mistalk.txt"), tableOf(t, cells, mistalks(), protocols))
	sees(t, "70-deaf", about("acp__deaf", seen))
	sees(t, "71-flood", about("codex_app_server__floods", seen))
	sees(t, "71a-too-long-a-request", seen)
}
