package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A codexServer is `codex app-server`: threads and turns as long as the client wants
// them, and questions to it, in JSON-RPC without its version.
type codexServer struct {
	*rpcPeer
	*process
	args        codexArgs
	store       store
	counted     map[string]bool
	client      string // its name, once it has initialized
	experiments bool   // the client wants what is experimental
	muted       []string
	threads     map[string]*codexThread // that are loaded
	queue       []*codexTurn            // that are to be played
	turn        *codexTurn              // the one under way, or nil
	left        []running               // commands that outlived their turns
}

// runCodexServer is the process of `codex app-server`.
func runCodexServer(p *process, root parsed, rest []string) (int, error) {
	const usage = "codex app-server [OPTIONS] [COMMAND]"
	given, err := codexGrammar(codexServerOptions(), usage, false).parse(rest)
	if err != nil {
		return 0, err
	}
	if listen := given.last("--listen"); len(given.words) > 0 || listen != "" && listen != "stdio://" {
		return 0, quit(2, "flow simulate: codex app-server speaks on standard input and output")
	}
	args := codexArgs{parsed: given}
	for key, values := range root.values {
		args.values[key] = append(values, args.values[key]...)
	}
	if err := args.checkFeatures(p); err != nil {
		return 0, err
	}
	ctx, stop := watch()
	defer stop()
	s := &codexServer{process: p, args: args, counted: map[string]bool{}, threads: map[string]*codexThread{}}
	s.rpcPeer = &rpcPeer{stream: &stream{w: p.stdout, ear: listen(ctx, p.stdin), ctx: ctx}}
	s.hear = s.heard
	if s.store, err = p.openStore(); err != nil {
		return 0, err
	}
	defer s.release()
	return s.serve(ctx)
}

func codexServerOptions() []option {
	return []option{
		{names: "--config -c", takes: one, usage: "--config <key=value>"},
		{names: "--enable", takes: one, usage: "--enable <FEATURE>"},
		{names: "--disable", takes: one, usage: "--disable <FEATURE>"},
		{names: "--strict-config"},
		{names: "--stdio"},
		{names: "--listen", takes: one, usage: "--listen <URL>"},
	}
}

// serve plays turns until the input ends or a signal does.
func (s *codexServer) serve(ctx context.Context) (int, error) {
	for {
		signal := signalOf(ctx)
		switch {
		case signal == syscall.SIGTERM:
			return 0, nil
		case signal != 0:
			return dieBy(signal), nil
		case errors.Is(s.err, errClosed):
			return 101, nil
		case s.closed():
			return 0, nil
		case len(s.queue) > 0:
			if status, gone, err := s.next(ctx); gone || err != nil {
				return status, err
			}
		default:
			s.idle(ctx)
		}
	}
}

// next plays the first turn that waits, and reports whether the process ends with it.
func (s *codexServer) next(ctx context.Context) (status int, gone bool, err error) {
	c := s.queue[0]
	s.turn, s.queue = c, s.queue[1:]
	if err := c.prepare(c); err != nil {
		return 0, true, err
	}
	status, err = c.play(ctx, c)
	s.left = append(s.left, c.left...)
	s.turn, s.ctx = nil, ctx
	return status, c.gone, err
}

// release ends what runs and gives the threads back.
func (s *codexServer) release() {
	s.clean()
	for _, t := range s.threads {
		t.unlock()
	}
}

// clean ends the commands that outlived their turns.
func (s *codexServer) clean() {
	for _, r := range s.left {
		r.kill()
	}
	s.left = nil
}

// heard takes a line of the client; nil is the end of its words, and of any turn.
func (s *codexServer) heard(line []byte) {
	if line == nil {
		if s.turn != nil {
			s.turn.cancel(errHungUp)
		}
		return
	}
	var m rpcMessage
	switch err := json.Unmarshal(line, &m); {
	case err != nil: // logged and skipped
		s.complain("%s ERROR codex_app_server: Failed to deserialize JSON-RPC message: %v", timestamp(), err)
	case m.Method == "":
		s.asked.take(m)
	case m.ID == nil: // a notification, as `initialized` is
	case s.client == "" && m.Method != "initialize":
		s.answer(m.ID, nil, rpcErrorf(rpcInvalidRequest, "Not initialized"))
	default:
		s.dispatch(m)
	}
}

// A codexMethod answers one kind of request. Its second function, when it returns one,
// runs once the answer is written.
type codexMethod func(params json.RawMessage) (result any, after func(), err error)

// dispatch answers a request.
func (s *codexServer) dispatch(m rpcMessage) {
	method, ok := map[string]codexMethod{
		"initialize": s.initialize, "model/list": s.listModels, "account/read": s.readAccount,
		"thread/start": s.startThread, "thread/resume": s.resumeThread, "thread/fork": s.forkThread,
		"thread/list": s.listThreads, "thread/read": s.readThread, "thread/archive": s.archiveThread,
		"turn/start": s.startTurn, "turn/steer": s.steerTurn, "turn/interrupt": s.interruptTurn,
		"review/start": s.startReview, "thread/backgroundTerminals/clean": s.cleanTerminals,
	}[m.Method]
	if !ok {
		s.answer(m.ID, nil, rpcErrorf(rpcInvalidRequest, "Invalid request: unknown variant `%s`", m.Method))
		return
	}
	result, after, err := method(m.Params)
	if err == nil {
		s.answer(m.ID, result, nil)
	} else if e, ok := errors.AsType[*rpcError](err); ok {
		s.answer(m.ID, nil, e)
	} else {
		s.answer(m.ID, nil, rpcErrorf(rpcInternal, "%v", err))
	}
	if after != nil && err == nil {
		after()
	}
}

// params reads the parameters of a request.
func (s *codexServer) params(params json.RawMessage, into any) error {
	if err := json.Unmarshal(params, into); err != nil {
		return rpcErrorf(rpcInvalidRequest, "Invalid request: %v", err)
	}
	return nil
}

func (s *codexServer) initialize(params json.RawMessage) (any, func(), error) {
	var p struct {
		ClientInfo struct {
			Name, Version string
		} `json:"clientInfo"`
		Capabilities struct {
			Experimental bool     `json:"experimentalApi"`
			Muted        []string `json:"optOutNotificationMethods"`
		} `json:"capabilities"`
	}
	if s.client != "" {
		return nil, nil, rpcErrorf(rpcInvalidRequest, "Already initialized")
	}
	if err := s.params(params, &p); err != nil {
		return nil, nil, err
	}
	if p.ClientInfo.Name == "" || p.ClientInfo.Version == "" {
		return nil, nil, rpcErrorf(rpcInvalidRequest, "Invalid request: missing field `clientInfo`")
	}
	s.client, s.muted, s.experiments = p.ClientInfo.Name, p.Capabilities.Muted, p.Capabilities.Experimental
	return object{
		"userAgent": s.client + "/" + codexVersion + " (simulated) dumb (" + s.client + "; " + p.ClientInfo.Version + ")",
		"codexHome": s.home(), "platformFamily": "unix", "platformOs": "linux",
	}, nil, nil
}

// home is where Codex keeps its things.
func (s *codexServer) home() string {
	if home := s.env("CODEX_HOME"); home != "" {
		return home
	}
	return filepath.Join(s.env("HOME"), ".codex")
}

// notify sends a notification unless the client does not want its kind.
func (s *codexServer) notify(method string, params object) {
	if !slices.Contains(s.muted, method) {
		s.send(object{"method": method, "params": params, "emittedAtMs": time.Now().UnixMilli()})
	}
}

func (s *codexServer) listModels(json.RawMessage) (any, func(), error) {
	return object{"data": []object{{
		"id": codexModel, "model": codexModel, "displayName": strings.ToUpper(codexModel), "description": "The simulated model.",
		"hidden": false, "isDefault": true, "defaultReasoningEffort": "medium",
		"supportedReasoningEfforts": []object{{"reasoningEffort": "medium", "description": "the only one"}},
	}}, "nextCursor": nil}, nil, nil
}

func (s *codexServer) readAccount(json.RawMessage) (any, func(), error) {
	return object{"account": object{"type": "apiKey"}, "requiresOpenaiAuth": false}, nil, nil
}

func (s *codexServer) cleanTerminals(json.RawMessage) (any, func(), error) {
	if !s.experiments {
		return nil, nil, rpcErrorf(rpcInvalidRequest, "thread/backgroundTerminals/clean requires experimentalApi capability")
	}
	s.clean()
	return object{}, nil, nil
}

// directory is a working directory that a request names, or that of the process.
func (s *codexServer) directory(named string) (string, error) {
	if named == "" {
		return os.Getwd()
	}
	if info, err := os.Stat(named); err != nil || !info.IsDir() {
		return "", rpcErrorf(rpcInvalidRequest, "cwd %s is not a directory", named)
	}
	return filepath.Clean(named), nil
}
