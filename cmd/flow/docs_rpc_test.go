package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

const rpcIntro = `# Programs drive flow

` + generated + `
` + "`flow rpc`" + ` speaks JSON-RPC 2.0 on standard input and output, one message (or batch) a line. ` + "`flow serve`" + ` speaks the same over HTTP:
` + "`POST /rpc`" + ` for a request, the WebSocket ` + "`/ws`" + ` for clients that stay, and ` + "`GET /events?run=RUN&after=SEQ`" + ` for those who only listen, as server-sent
events. ` + "`flow schema rpc`" + ` prints an OpenRPC document of all that follows.

` + "```" + `
→ {"jsonrpc": "2.0", "id": 1, "method": "rpc/initialize", "params": {"capabilities": {"permissions": true}}}
← {"jsonrpc": "2.0", "id": 1, "result": {"protocol": 1, "server": {"name": "flow", "version": "1.0"}}}
→ {"jsonrpc": "2.0", "id": 2, "method": "agent/run", "params": {"type": "claude", "prompt": "Fix the login bug", "options": {"permissions": {"default": "ask"}}}}
← {"jsonrpc": "2.0", "id": 2, "result": {"run": "20261121-200000-a1b2c3", "step": "turn1", "status": "running", "after": 0}}
← {"jsonrpc": "2.0", "method": "agent_tool_call", "params": {"run": "20261121-200000-a1b2c3", "seq": 7, "tool_name": "shell", "target": "go test ./...", …}}
← {"jsonrpc": "2.0", "method": "agent_permission", "params": {"run": "20261121-200000-a1b2c3", "permission_id": "5f0c9d2e", "operation": "shell_execute", …}}
→ {"jsonrpc": "2.0", "id": 3, "method": "agent/respond", "params": {"run": "20261121-200000-a1b2c3", "id": "5f0c9d2e", "decision": "allow"}}
` + "```" + `

- **Runs.** ` + "`agent/run` and `pipeline/run`" + ` answer at once; the run goes on in the server, recorded like every other. ` + "`flow show`, `flow approve` and `flow resume`" + ` know it.
  A run of another process can be read, followed and answered here, but not stopped: the error says who has it.
- **Notifications** come by themselves for what a client begins (` + "`subscribe: false`" + ` for none), and by ` + "`run/events`" + ` with ` + "`subscribe`" + ` for any run, until
  ` + "`run_complete`" + `. Each has the ` + "`seq`" + ` of the event that it tells of: a client that comes again gives the last one as ` + "`after`" + `, and misses nothing.
  With ` + "`run_events`" + ` the cursor is that of ` + "`run_event`" + `, which comes after the notification made of the same event. A client that reads slowly is waited for.
- **Permissions.** Agents wait for an answer as long as a client is connected that declared the capability ` + "`permissions`" + `; it hears of all questions of the
  server's runs. When the last one leaves, what waits is denied and recorded. With ` + "`ask-timeout`" + ` it waits that long for whoever comes, also without a connection.
  A question is a state: who subscribes again is told again.
- **The end.** When standard input of ` + "`flow rpc`" + ` ends, the runs that it began are stopped politely and can be resumed; with ` + "`--detach`" + ` they come to their end first. SIGTERM does the
  same to ` + "`flow serve`" + `. After ` + "`kill -9`" + ` runs resume as after any crash.

## Who may call flow serve

Whoever knows the token may do what the user may. It is printed once, on standard error, and kept in ` + "`serve.token`" + ` in the state directory (mode 0600), or in
` + "`--token-file`" + `. Give it as ` + "`Authorization: Bearer TOKEN`" + `, or, where a WebSocket can set no header, as the subprotocol ` + "`flow.token.TOKEN`" + ` beside ` + "`flow.v1`" + `. It is
never taken from a URL. The server listens on this machine only, unless ` + "`--allow-remote`" + `; nothing is encrypted, so prefer a tunnel
(` + "`ssh -L 7777:127.0.0.1:7777 HOST`" + `). Requests under another name than the machine's own (` + "`--allow-host`" + ` adds some) or from pages of other sites are refused.

## Errors

` + "`data.cause`" + ` is a word to tell errors apart by, ` + "`data.hint`" + ` says what to do next, and ` + "`data.problems`" + ` lists all mistakes of a pipeline or of params.

| code | means |
|---|---|
| -32700 | not JSON |
| -32600 | JSON, but no request |
| -32601 | no such method |
| -32602 | params with mistakes |
| -32603 | a defect of flow |
| -32000 | it cannot be done |
| -32001 | no such run, session or question |
| -32002 | another process has the run |
| -32003 | a pipeline has mistakes, or options that make none |
| -32004 | an agent is not installed |
| -32005 | a limit of the server is reached, or it is ending |

`

type openRPC struct {
	Methods       []openMethod `json:"methods"`
	Notifications []openMethod `json:"x-notifications"`
	Components    struct {
		Schemas map[string]schemaNode `json:"schemas"`
	} `json:"components"`
}

type openMethod struct {
	Name        string      `json:"name"`
	Description string      `json:"description"`
	Params      []openParam `json:"params"`
	Result      struct {
		Schema schemaNode `json:"schema"`
	} `json:"result"`
}

type openParam struct {
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Required    bool       `json:"required"`
	Schema      schemaNode `json:"schema"`
}

func rpcPage(t *testing.T) string {
	t.Helper()
	text, err := (&app{getenv: os.Getenv}).newHost("").server().Schema()
	if err != nil {
		t.Fatal(err)
	}
	var doc openRPC
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(rpcIntro + "## Methods\n")
	for _, m := range doc.Methods {
		m.write(&b)
		if result := m.Result.Schema.kind(); result != "any" {
			fmt.Fprintf(&b, "\nAnswers %s.\n", result)
		}
	}
	b.WriteString("\n## Notifications\n")
	for _, n := range doc.Notifications {
		n.write(&b)
	}
	b.WriteString("\n## Objects\n")
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		if s := doc.Components.Schemas[name]; len(s.Properties) > 0 {
			fmt.Fprintf(&b, "\n### %s\n\n", name)
			writeFields(&b, s, nil)
		}
	}
	return b.String()
}

// write writes a method or a notification with its params.
func (m openMethod) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n", m.Name, m.Description)
	params := schemaNode{Properties: map[string]schemaNode{}}
	for _, p := range m.Params {
		p.Schema.Description = p.Description
		params.Properties[p.Name] = p.Schema
		if p.Required {
			params.Required = append(params.Required, p.Name)
		}
	}
	if len(m.Params) > 0 {
		b.WriteByte('\n')
		writeFields(b, params, nil)
	}
}
