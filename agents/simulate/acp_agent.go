package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"

	"flow/agents"
)

// An acpAgent is an agent that speaks the Agent Client Protocol, version 1.
type acpAgent struct {
	*rpcPeer
	*process
	dialect  acpDialect
	store    store
	counted  map[string]bool
	ready    bool // initialized
	sessions map[string]*acpSession
	queue    []acpPrompt // that are to be played
	turn     *acpTurn    // the one under way, or nil
}

// An acpDialect is what sets the agents that speak ACP apart.
type acpDialect interface {
	initialized() object          // the answer to initialize
	newID() string                // of a session
	opened(s *acpSession) object  // what the answer to session/new tells besides the id
	serves(method string) bool    // whether there is such a method
	notFound(id string) *rpcError // for a session that is not there
	load(a *acpAgent, s *acpSession, answer func())
	moded(a *acpAgent, s *acpSession) // tells of a new mode, in its own way
	voice(t *acpTurn) acpVoice
}

// An acpVoice is what a dialect says during a turn.
type acpVoice interface {
	begin(x call) (call, bool)
	end(x call, r result)
	stopped()                       // the call under way was interrupted
	result(reason string) object    // of session/prompt
	problem(cause agents.Cause) any // a stop reason, or an *rpcError
	fails(cause agents.Cause) error
}

// An acpSession is a session that the agent has loaded.
type acpSession struct {
	session *session
	mode    string // of its next turn: new, resume or fork
	dir     string
	consent string          // the mode that says what is asked
	granted map[string]bool // tools that the client allowed for the session
}

// An acpPrompt is a request that waits for its turn.
type acpPrompt struct {
	id      json.RawMessage
	session *acpSession
	text    string
}

// talkACP is the process of an agent that speaks ACP.
func talkACP(p *process, dialect acpDialect) (int, error) {
	ctx, stop := watch()
	defer stop()
	a := &acpAgent{process: p, dialect: dialect, counted: map[string]bool{}, sessions: map[string]*acpSession{}}
	a.rpcPeer = &rpcPeer{version: "2.0", stream: &stream{w: p.stdout, ear: listen(ctx, p.stdin), ctx: ctx}}
	a.hear = a.heard
	var err error
	if a.store, err = p.openStore(); err != nil {
		return 0, err
	}
	return a.serve(ctx)
}

// serve plays prompts until the input ends or a signal does.
func (a *acpAgent) serve(ctx context.Context) (int, error) {
	for {
		signal := signalOf(ctx)
		switch {
		case signal == syscall.SIGTERM, errors.Is(a.err, errClosed), a.closed():
			return 0, nil
		case signal != 0:
			return dieBy(signal), nil
		case len(a.queue) > 0:
			if status, gone, err := a.next(ctx); gone || err != nil {
				return status, err
			}
		default:
			a.idle(ctx)
		}
	}
}

// next plays the first prompt that waits, and reports whether the process ends with it.
func (a *acpAgent) next(ctx context.Context) (status int, gone bool, err error) {
	p := a.queue[0]
	a.queue = a.queue[1:]
	t := &acpTurn{agent: a, on: p.session, id: p.id, began: time.Now(), turn: &turn{
		process: a.process, stream: a.stream, store: a.store, session: p.session.session, mode: p.session.mode,
		prompt: p.text, dir: p.session.dir, schema: agents.SchemaOf(p.text), counted: a.counted,
	}}
	t.acpVoice = a.dialect.voice(t)
	if err := t.prepare(t); err != nil {
		return 0, true, err
	}
	if err := t.accept(); err != nil {
		return 0, true, err
	}
	p.session.mode, a.turn = modeResume, t
	status, err = t.play(ctx, t)
	a.turn, a.ctx = nil, ctx
	return status, t.gone, err
}

// heard takes a line of the client; nil is the end of its words, and of any turn.
func (a *acpAgent) heard(line []byte) {
	if line == nil {
		if a.turn != nil {
			a.turn.cancel(errHungUp)
		}
		return
	}
	var m rpcMessage
	switch err := json.Unmarshal(line, &m); {
	case err != nil:
		a.put(a.message(object{"id": nil, "error": rpcErrorf(rpcNoJSON, "Parse error")}))
	case m.Method == "":
		a.asked.take(m)
	case m.ID == nil:
		a.noted(m)
	default:
		a.dispatch(m)
	}
}

// noted takes a notification.
func (a *acpAgent) noted(m rpcMessage) {
	var p acpParams
	if m.Method == "session/cancel" && json.Unmarshal(m.Params, &p) == nil && a.turn != nil && a.turn.session.ID == p.SessionID {
		a.turn.cancel(errStopped)
	}
}

// acpParams are the parameters of all requests.
type acpParams struct {
	SessionID string `json:"sessionId"`
	Cwd       string `json:"cwd"`
	ModeID    string `json:"modeId"`
	ModelID   string `json:"modelId"`
	ConfigID  string `json:"configId"`
	Value     string `json:"value"`
	Prompt    []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"prompt"`
}

// dispatch answers a request.
func (a *acpAgent) dispatch(m rpcMessage) {
	var p acpParams
	if err := json.Unmarshal(m.Params, &p); err != nil {
		a.answer(m.ID, nil, rpcErrorf(rpcInvalidParams, "Invalid params: %v", err))
		return
	}
	handle, ok := map[string]func(rpcMessage, acpParams) error{
		"initialize": a.initialize, "authenticate": a.agree, "session/new": a.open, "session/load": a.load,
		"session/resume": a.resume, "session/fork": a.fork, "session/list": a.list, "session/close": a.close,
		"session/prompt": a.prompt, "session/set_mode": a.setMode, "session/set_model": a.setModel,
		"session/set_config_option": a.configure,
	}[m.Method]
	if !ok || !a.dialect.serves(m.Method) {
		a.answer(m.ID, nil, rpcErrorf(rpcNoMethod, "\"Method not found\": %s", m.Method))
		return
	}
	err := handle(m, p)
	if e, ok := errors.AsType[*rpcError](err); ok {
		a.answer(m.ID, nil, e)
	} else if err != nil {
		a.answer(m.ID, nil, rpcErrorf(rpcInternal, "%v", err))
	}
}

func (a *acpAgent) initialize(m rpcMessage, _ acpParams) error {
	a.ready = true
	a.answer(m.ID, a.dialect.initialized(), nil)
	return nil
}

func (a *acpAgent) agree(m rpcMessage, _ acpParams) error {
	a.answer(m.ID, object{}, nil)
	return nil
}

// open begins a session; it is kept from its first prompt on.
func (a *acpAgent) open(m rpcMessage, p acpParams) error {
	s, err := a.add(&session{ID: a.dialect.newID(), Dir: p.Cwd}, modeNew, p)
	if err != nil {
		return err
	}
	a.welcome(m, s)
	return nil
}

// welcome answers with a session and tells of its commands.
func (a *acpAgent) welcome(m rpcMessage, s *acpSession) {
	result := a.dialect.opened(s)
	result["sessionId"] = s.session.ID
	a.answer(m.ID, result, nil)
	a.commands(s)
}

func (a *acpAgent) commands(s *acpSession) {
	a.update(s, object{"sessionUpdate": "available_commands_update", "availableCommands": []object{
		{"name": "init", "description": "does nothing: the agent is simulated"},
	}})
}

// update sends news of a session at once.
func (a *acpAgent) update(s *acpSession, update object) {
	a.put(a.message(object{"method": "session/update", "params": object{"sessionId": s.session.ID, "update": update}}))
}

// chunk is a piece of text as an update.
func chunk(kind, text string) object {
	return object{"sessionUpdate": kind, "content": object{"type": "text", "text": text}}
}

// add makes a session the agent's.
func (a *acpAgent) add(x *session, mode string, p acpParams) (*acpSession, error) {
	if p.Cwd == "" || p.Cwd[0] != '/' || !exists(p.Cwd) {
		return nil, rpcErrorf(rpcInvalidParams, "Invalid params: cwd %q is no directory", p.Cwd)
	}
	s := &acpSession{session: x, mode: mode, dir: p.Cwd, granted: map[string]bool{}}
	a.sessions[x.ID] = s
	return s, nil
}

// find is a session that was kept, or that is loaded.
func (a *acpAgent) find(id string) (*session, error) {
	if s := a.sessions[id]; s != nil {
		return s.session, nil
	}
	x, err := a.store.load(id)
	if missing(err) {
		return nil, a.dialect.notFound(id)
	}
	return x, err
}

// load goes on in a session whose history is repeated to the client.
func (a *acpAgent) load(m rpcMessage, p acpParams) error {
	x, err := a.find(p.SessionID)
	if err != nil {
		return err
	}
	s, err := a.add(x, modeResume, p)
	if err != nil {
		return err
	}
	a.dialect.load(a, s, func() { a.answer(m.ID, a.dialect.opened(s), nil) })
	a.commands(s)
	return nil
}

// repeat sends the history of a session, one function a message.
func (a *acpAgent) repeat(s *acpSession) []func() {
	var out []func()
	for _, t := range s.session.Turns {
		out = append(out, func() { a.update(s, chunk("user_message_chunk", t.Prompt)) })
		if t.Answered {
			out = append(out, func() { a.update(s, chunk("agent_message_chunk", t.Answer)) })
		}
	}
	return out
}

func (a *acpAgent) resume(m rpcMessage, p acpParams) error {
	x, err := a.find(p.SessionID)
	if err != nil {
		return err
	}
	s, err := a.add(x, modeResume, p)
	if err != nil {
		return err
	}
	a.answer(m.ID, a.dialect.opened(s), nil)
	a.commands(s)
	return nil
}

func (a *acpAgent) fork(m rpcMessage, p acpParams) error {
	parent, err := a.find(p.SessionID)
	if err != nil {
		return err
	}
	s, err := a.add(fork(parent, a.dialect.newID()), modeFork, p)
	if err != nil {
		return err
	}
	a.welcome(m, s)
	return nil
}

func (a *acpAgent) list(m rpcMessage, p acpParams) error {
	all, err := a.store.all()
	if err != nil {
		return err
	}
	sessions := []object{}
	for _, x := range all {
		if p.Cwd == "" || x.Dir == p.Cwd {
			sessions = append(sessions, object{"sessionId": x.ID, "cwd": x.Dir, "title": x.Turns[0].Prompt})
		}
	}
	a.answer(m.ID, object{"sessions": sessions}, nil)
	return nil
}

func (a *acpAgent) close(m rpcMessage, p acpParams) error {
	if _, err := a.loaded(p.SessionID); err != nil {
		return err
	}
	delete(a.sessions, p.SessionID)
	return a.agree(m, p)
}

// loaded is a session that the client has opened.
func (a *acpAgent) loaded(id string) (*acpSession, error) {
	if s := a.sessions[id]; s != nil {
		return s, nil
	}
	return nil, a.dialect.notFound(id)
}

func (a *acpAgent) prompt(m rpcMessage, p acpParams) error {
	s, err := a.loaded(p.SessionID)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, part := range p.Prompt {
		text.WriteString(part.Text)
	}
	a.queue = append(a.queue, acpPrompt{id: m.ID, session: s, text: text.String()})
	return nil
}

func (a *acpAgent) setMode(m rpcMessage, p acpParams) error {
	s, err := a.loaded(p.SessionID)
	if err != nil {
		return err
	}
	modes, _ := a.dialect.opened(s)["modes"].(object)
	if known, _ := modes["availableModes"].([]object); !slices.ContainsFunc(known, func(o object) bool { return o["id"] == p.ModeID }) {
		return rpcErrorf(rpcInternal, "Invalid or unavailable mode: %s", p.ModeID)
	}
	s.consent = p.ModeID
	a.dialect.moded(a, s)
	return a.agree(m, p)
}

func (a *acpAgent) setModel(m rpcMessage, p acpParams) error {
	s, err := a.loaded(p.SessionID)
	if err != nil {
		return err
	}
	s.session.Model = p.ModelID
	return a.agree(m, p)
}

// configure sets the model or the mode as an option.
func (a *acpAgent) configure(m rpcMessage, p acpParams) error {
	s, err := a.loaded(p.SessionID)
	if err != nil {
		return err
	}
	switch p.ConfigID {
	case "model":
		s.session.Model = p.Value
	case "mode":
		s.consent = p.Value
	default:
		return rpcErrorf(rpcInvalidParams, "Invalid params: unknown option %q", p.ConfigID)
	}
	a.answer(m.ID, a.dialect.opened(s), nil)
	return nil
}
