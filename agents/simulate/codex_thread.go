package simulate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"
)

// A codexThread is a thread that an app-server has loaded, with the settings of its
// next turn.
type codexThread struct {
	session  *session
	mode     string
	store    store
	unlock   func()
	dir      string
	sandbox  string // in exec's words
	profile  string // the permission profile that it comes from, or ""
	roots    []string
	held     bool // what the client allows stays in the sandbox all the same
	approval json.RawMessage
	granted  map[string]bool // what the client allowed for the session
	turns    int             // played or being played
}

// codexSettings are the parameters that thread/start, thread/resume, thread/fork and
// turn/start share.
type codexSettings struct {
	ThreadID      string          `json:"threadId"`
	Cwd           string          `json:"cwd"`
	Model         string          `json:"model"`
	Sandbox       string          `json:"sandbox"`
	Approval      json.RawMessage `json:"approvalPolicy"`
	Permissions   string          `json:"permissions"` // a permission profile, instead of a sandbox
	Ephemeral     bool            `json:"ephemeral"`
	SandboxPolicy struct {
		Type  string   `json:"type"`
		Roots []string `json:"writableRoots"`
	} `json:"sandboxPolicy"`
}

// apply changes the thread's settings where p says something.
func (t *codexThread) apply(s *codexServer, p codexSettings) (err error) {
	if err := checkApproval(p.Approval, s.experiments); err != nil {
		return err
	}
	if p.Sandbox, err = sandboxMode(p.Sandbox, p.SandboxPolicy.Type); err != nil {
		return err
	}
	if p.Cwd != "" || t.dir == "" {
		if t.dir, err = s.directory(p.Cwd); err != nil {
			return err
		}
	}
	if p.Sandbox != "" {
		t.sandbox, t.roots, t.profile, t.held = p.Sandbox, p.SandboxPolicy.Roots, "", false
	}
	if p.Permissions != "" {
		if err := t.bound(s, p); err != nil {
			return err
		}
	}
	if len(p.Approval) > 0 && string(p.Approval) != "null" {
		t.approval = p.Approval
	}
	if p.Model != "" {
		t.session.Model = p.Model
	}
	return nil
}

// bound bounds the thread by a permission profile of the configuration. One that denies
// some path is left by no command, whatever the client allows.
func (t *codexThread) bound(s *codexServer, p codexSettings) error {
	if p.Sandbox != "" {
		return rpcErrorf(rpcInvalidRequest, "`permissions` cannot be combined with `sandbox`")
	}
	var entries map[string]any
	table := s.args.config("permissions." + p.Permissions + ".filesystem")
	asJSON := regexp.MustCompile(`"\s*=`).ReplaceAllString(table, `":`) // an inline table of TOML is JSON but for that
	if err := json.Unmarshal([]byte(asJSON), &entries); err != nil {
		return rpcErrorf(rpcInvalidRequest, "no permission profile `%s` can be read: %v", p.Permissions, err)
	}
	t.sandbox, t.roots, t.profile, t.held = "read-only", nil, p.Permissions, false
	for path, access := range entries {
		switch {
		case path == ":workspace_roots":
			t.sandbox = "workspace-write"
		case access == "write" && filepath.IsAbs(path):
			t.roots = append(t.roots, path)
		case access == "deny":
			t.held = true
		}
	}
	return nil
}

// sandboxMode is a sandbox in exec's words, whichever way it is given; "" is none given.
func sandboxMode(mode, policy string) (string, error) {
	modes := map[string]string{"readOnly": "read-only", "workspaceWrite": "workspace-write", "dangerFullAccess": "danger-full-access", "externalSandbox": "danger-full-access", "": ""}
	if mode == "" {
		named, ok := modes[policy]
		if !ok {
			return "", rpcErrorf(rpcInvalidRequest, "Invalid request: unknown variant `%s`", policy)
		}
		return named, nil
	}
	if !slices.Contains([]string{"read-only", "workspace-write", "danger-full-access"}, mode) {
		return "", rpcErrorf(rpcInvalidRequest, "Invalid request: unknown variant `%s`, expected one of `read-only`, `workspace-write`, `danger-full-access`", mode)
	}
	return mode, nil
}

// checkApproval refuses an approval policy that there is not.
func checkApproval(policy json.RawMessage, experiments bool) error {
	var name string
	if len(policy) == 0 || string(policy) == "null" {
		return nil
	}
	if json.Unmarshal(policy, &name) != nil {
		if !experiments {
			return rpcErrorf(rpcInvalidRequest, "askForApproval.granular requires experimentalApi capability")
		}
		return nil
	}
	if !slices.Contains([]string{"untrusted", "on-request", "never"}, name) {
		return rpcErrorf(rpcInvalidRequest, "Invalid request: unknown variant `%s`, expected one of `untrusted`, `on-request`, `granular`, `never`", name)
	}
	return nil
}

// policy is the approval policy's name; an elaborate one counts as on-request.
func (t *codexThread) policy() string {
	name := "on-request"
	_ = json.Unmarshal(t.approval, &name) // else it keeps the name
	return name
}

// load makes a thread of the server from a session and the settings of its request.
func (s *codexServer) load(x *session, mode string, p codexSettings) (*codexThread, error) {
	t := &codexThread{
		session: x, mode: mode, store: s.store, sandbox: s.args.config("sandbox_mode"), approval: json.RawMessage(`"on-request"`),
		granted: map[string]bool{}, unlock: func() {},
	}
	if t.sandbox == "" {
		t.sandbox = "read-only"
	}
	if policy := s.args.config("approval_policy"); policy != "" {
		t.approval, _ = json.Marshal(policy)
	}
	if x.Model == "" {
		x.Model = s.args.model()
	}
	if x.Model == "" {
		x.Model = codexModel
	}
	if p.Sandbox == "" && p.Permissions == "" {
		p.Permissions = s.args.config("default_permissions")
	}
	if err := t.apply(s, p); err != nil {
		return nil, err
	}
	if mode == modeNew {
		x.Dir = t.dir
	}
	if p.Ephemeral && mode != modeResume {
		t.store.dir = ""
	} else if err := t.lock(); err != nil {
		return nil, err
	}
	s.threads[x.ID] = t
	return t, nil
}

// lock keeps other processes from the thread.
func (t *codexThread) lock() error {
	unlock, err := t.store.lock(t.session.ID)
	if err != nil {
		return err
	}
	if unlock == nil {
		return rpcErrorf(rpcInvalidRequest, "thread %s already has an active writer", t.session.ID)
	}
	t.unlock = unlock
	return nil
}

func (s *codexServer) startThread(params json.RawMessage) (any, func(), error) {
	var p codexSettings
	if err := s.params(params, &p); err != nil {
		return nil, nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, nil, err
	}
	t, err := s.load(&session{ID: id.String()}, modeNew, p)
	if err != nil {
		return nil, nil, err
	}
	return s.threadResult(t), s.started(t), nil
}

func (s *codexServer) resumeThread(params json.RawMessage) (any, func(), error) {
	var p codexSettings
	if err := s.params(params, &p); err != nil {
		return nil, nil, err
	}
	t := s.threads[p.ThreadID]
	if t != nil {
		err := t.apply(s, p)
		return s.threadResult(t), nil, err
	}
	x, err := s.find(p.ThreadID)
	if err != nil {
		return nil, nil, err
	}
	if t, err = s.load(x, modeResume, p); err != nil {
		return nil, nil, err
	}
	return s.threadResult(t), nil, nil
}

func (s *codexServer) forkThread(params json.RawMessage) (any, func(), error) {
	var p codexSettings
	if err := s.params(params, &p); err != nil {
		return nil, nil, err
	}
	parent, err := s.find(p.ThreadID)
	if err != nil {
		return nil, nil, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, nil, err
	}
	t, err := s.load(fork(parent, id.String()), modeFork, p)
	if err != nil {
		return nil, nil, err
	}
	return s.threadResult(t), s.started(t), nil
}

// started tells of a new thread.
func (s *codexServer) started(t *codexThread) func() {
	return func() { s.notify("thread/started", object{"thread": s.describe(t.session, "idle")}) }
}

// find returns a thread that was kept.
func (s *codexServer) find(id string) (*session, error) {
	if uuid.Validate(id) != nil {
		return nil, rpcErrorf(rpcInvalidRequest, "invalid thread id: %s", id)
	}
	if t := s.threads[id]; t != nil && len(t.session.Turns) > 0 {
		return t.session, nil
	}
	x, err := s.store.load(id)
	if missing(err) {
		return nil, rpcErrorf(rpcInvalidRequest, "no rollout found for thread id %s", id)
	}
	return x, err
}

// threadResult is what a request that loads a thread is answered.
func (s *codexServer) threadResult(t *codexThread) object {
	sandbox := map[string]string{"read-only": "readOnly", "workspace-write": "workspaceWrite", "danger-full-access": "dangerFullAccess"}
	var profile any
	if t.profile != "" {
		profile = object{"id": t.profile}
	}
	return object{
		"thread": s.describe(t.session, "idle"), "model": t.session.Model, "modelProvider": "simulated", "serviceTier": nil,
		"disabledPluginIds": []any{}, "cwd": t.dir, "runtimeWorkspaceRoots": []string{t.dir}, "instructionSources": []any{},
		"approvalPolicy": t.approval, "approvalsReviewer": "user", "sandbox": object{"type": sandbox[t.sandbox]},
		"activePermissionProfile": profile, "reasoningEffort": nil, "multiAgentMode": "explicitRequestOnly",
	}
}

// describe is a thread as the client sees it, without its turns.
func (s *codexServer) describe(x *session, status string) object {
	preview := ""
	if len(x.Turns) > 0 {
		preview = x.Turns[0].Prompt
	}
	id, now := x.ID, time.Now().Unix()
	created := now
	if u, err := uuid.Parse(id); err == nil && u.Version() == 7 {
		seconds, _ := u.Time().UnixTime()
		created = seconds
	}
	out := object{
		"id": id, "sessionId": id, "forkedFromId": nil, "parentThreadId": nil, "preview": preview, "ephemeral": false,
		"projectId": nil, "historyMode": "paginated", "modelProvider": "simulated", "model": x.Model, "reasoningEffort": nil,
		"createdAt": created, "updatedAt": now, "recencyAt": now, "status": object{"type": status}, "path": s.store.path(id),
		"cwd": x.Dir, "cliVersion": codexVersion, "originator": s.client, "source": "vscode", "name": nil, "turns": []any{},
	}
	if x.Parent != "" {
		out["forkedFromId"] = x.Parent
	}
	return out
}

func (s *codexServer) listThreads(params json.RawMessage) (any, func(), error) {
	var p struct {
		Limit int `json:"limit"`
	}
	if err := s.params(params, &p); err != nil {
		return nil, nil, err
	}
	all, err := s.store.all()
	if err != nil {
		return nil, nil, err
	}
	data := []object{}
	for _, x := range all {
		data = append(data, s.describe(x, "notLoaded"))
	}
	if p.Limit > 0 && len(data) > p.Limit {
		data = data[:p.Limit]
	}
	return object{"data": data, "nextCursor": nil, "backwardsCursor": nil}, nil, nil
}

func (s *codexServer) readThread(params json.RawMessage) (any, func(), error) {
	var p struct {
		ThreadID string `json:"threadId"`
		Turns    bool   `json:"includeTurns"`
	}
	if err := s.params(params, &p); err != nil {
		return nil, nil, err
	}
	x, err := s.find(p.ThreadID)
	if err != nil {
		return nil, nil, err
	}
	thread := s.describe(x, "notLoaded")
	if p.Turns {
		thread["turns"] = history(x)
	}
	return object{"thread": thread}, nil, nil
}

// history is the turns of a thread with what was said in them.
func history(x *session) []object {
	out := []object{}
	for i, t := range x.Turns {
		id := uuid.NewSHA1(uuid.NameSpaceOID, []byte(fmt.Sprint(x.ID, i))).String()
		items := []object{{"type": "userMessage", "id": id + "-0", "content": []object{{"type": "text", "text": t.Prompt, "text_elements": []any{}}}}}
		status := "interrupted"
		if t.Answered {
			items = append(items, object{"type": "agentMessage", "id": id + "-1", "text": t.Answer})
			status = "completed"
		}
		out = append(out, object{"id": id, "items": items, "itemsView": "full", "status": status, "error": nil})
	}
	return out
}

func (s *codexServer) archiveThread(params json.RawMessage) (any, func(), error) {
	var p codexSettings
	if err := s.params(params, &p); err != nil {
		return nil, nil, err
	}
	if _, err := s.find(p.ThreadID); err != nil {
		return nil, nil, err
	}
	dir := filepath.Join(s.store.dir, "archived")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	file := s.store.path(p.ThreadID)
	if err := os.Rename(file, filepath.Join(dir, filepath.Base(file))); err != nil {
		return nil, nil, err
	}
	return object{}, func() { s.notify("thread/archived", object{"threadId": p.ThreadID}) }, nil
}
