package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"flow/agents"
	"flow/agents/claude"
	"flow/steps"
)

// A permitter answers the permission prompts of an agent that flow does not drive.
type permitter struct {
	judge *steps.Judge
	now   func() time.Time

	mu    sync.Mutex // several calls may be under way
	audit io.Writer
}

// permissionInput is what Claude Code says of a call. What more it says is let through.
const permissionInput = `{"type": "object", "required": ["tool_name", "input"], "properties": {
	"tool_name": {"type": "string"}, "input": {"type": "object"}, "tool_use_id": {"type": "string"}}}`

// serve answers until standard input ends.
func (p *permitter) serve(ctx context.Context, stdin io.ReadCloser, stdout io.Writer) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "flow", Title: "flow", Version: version()}, &mcp.ServerOptions{
		Instructions: "The tool permission decides on tool calls; it is for --permission-prompt-tool, not for the model.",
		Capabilities: &mcp.ServerCapabilities{},
	})
	server.AddTool(&mcp.Tool{
		Name: "permission", Description: "Decides whether a tool call may be made.", InputSchema: json.RawMessage(permissionInput),
	}, p.call)
	if err := server.Run(ctx, &mcp.IOTransport{Reader: stdin, Writer: unclosed{stdout}}); err != nil {
		return fmt.Errorf("the conversation over MCP broke: %w", err)
	}
	return nil
}

// unclosed is a writer that outlives whoever closes it.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }

// A behavior is the answer that Claude Code reads, as the text of the tool's result.
type behavior struct {
	Behavior     string          `json:"behavior"`
	UpdatedInput json.RawMessage `json:"updatedInput,omitempty"` // of a call that is allowed: as it was
	Message      string          `json:"message,omitempty"`
}

func (p *permitter) call(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	text, err := json.Marshal(p.decide(r.Params.Arguments))
	if err != nil {
		return nil, err
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil
}

// decide answers a request. What cannot be understood, or not be recorded, is denied.
func (p *permitter) decide(arguments json.RawMessage) behavior {
	var asked struct {
		Tool  string          `json:"tool_name"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(arguments, &asked); err != nil || asked.Tool == "" {
		return behavior{Behavior: agents.EffectDeny, Message: "The request has no tool_name and input."}
	}
	entry, told := p.judge.Decide(claude.CallOf(asked.Tool, asked.Input))
	entry.Time, entry.Agent = p.now().UTC(), "claude"
	if err := p.record(entry); err != nil {
		return behavior{Behavior: agents.EffectDeny, Message: "The decision could not be recorded: " + err.Error()}
	}
	if entry.Decision != agents.EffectAllow {
		return behavior{Behavior: agents.EffectDeny, Message: told}
	}
	return behavior{Behavior: agents.EffectAllow, UpdatedInput: asked.Input}
}

func (p *permitter) record(e steps.AuditEntry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.audit.Write(append(line, '\n'))
	return err
}
