package scriptmodel_test

import (
	"context"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"flow/cmd/flow/internal/scriptmodel"
)

var update = flag.Bool("update", false, "write the golden files anew")

// conversation is the same for all APIs: what testdata/*.txtar asks in each of
// their words.
var conversation = []scriptmodel.Item{
	{Kind: scriptmodel.Prompt, Text: "Read a.txt."},
	{Kind: scriptmodel.Answer, Text: "I will."},
	{Kind: scriptmodel.Call, Tool: "read", Text: `{"path":"a.txt"}`},
	{Kind: scriptmodel.Result, Text: "content of a"},
}

// TestAPIs holds what a script sees of a request, and what the client gets of its
// turn, against testdata/*.txtar.
func TestAPIs(t *testing.T) {
	answer := scriptmodel.Turn{
		Text: "And b.", Usage: scriptmodel.Usage{Input: 70, Cached: 20, Output: 3},
		Calls: []scriptmodel.ToolCall{{Name: "read", Input: map[string]string{"path": "b.txt"}}},
	}
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			model := scriptmodel.New(func(scriptmodel.Request) scriptmodel.Turn { return answer }, nil)
			target := strings.TrimSpace(string(a.Comment))
			_, got := post(t, model, target, string(a.Files[0].Data))
			x := model.Exchanges()
			if len(x) != 1 || !x[0].Done {
				t.Fatalf("exchanges: %+v", x)
			}
			items := x[0].Request.Items
			for i := range items {
				if items[i].Kind == scriptmodel.Result {
					items[i].Tool = "" // which only Gemini repeats
				}
			}
			if diff := cmp.Diff(conversation, items); diff != "" {
				t.Errorf("conversation (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"read"}, x[0].Request.Tools); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			golden(t, file, a, got)
		})
	}
}

// golden compares the second file of the archive; -update writes it.
func golden(t *testing.T, file string, a *txtar.Archive, got string) {
	t.Helper()
	if *update {
		a.Files = append(a.Files[:1], txtar.File{Name: "answer", Data: []byte(got)})
		if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(a.Files[1].Data), got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func post(t *testing.T, model http.Handler, target, body string) (status int, answer string) {
	t.Helper()
	w := httptest.NewRecorder()
	model.ServeHTTP(w, httptest.NewRequest(http.MethodPost, target, strings.NewReader(body)))
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(text)
}

var targets = map[string]string{
	"anthropic": "/v1/messages", "openai": "/v1/responses", "gemini": "/v1beta/models/m:streamGenerateContent?alt=sse",
}

// bodies are the shortest requests that are part of a conversation.
var bodies = map[string]string{
	"anthropic": `{"max_tokens":9,"tools":[{"name":"read"}],"messages":[{"role":"user","content":"hi"}]}`,
	"openai":    `{"tools":[{"name":"read"}],"input":[{"type":"message","role":"user","content":[{"text":"hi"}]}]}`,
	"gemini":    `{"tools":[{"functionDeclarations":[{"name":"read"}]}],"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`,
}

func TestFailure(t *testing.T) {
	script := func(scriptmodel.Request) scriptmodel.Turn { return scriptmodel.Turn{Text: "hello"} }
	for api, target := range targets {
		model := scriptmodel.New(scriptmodel.Failing(1, scriptmodel.Turn{Status: 429, Message: "too fast"}, script), nil)
		status, answer := post(t, model, target, bodies[api])
		if status != 429 || !strings.Contains(answer, "too fast") {
			t.Errorf("%s: first status %d: %s", api, status, answer)
		}
		if status, answer = post(t, model, target, bodies[api]); status != 200 || !strings.Contains(answer, "hello") {
			t.Errorf("%s: second status %d: %s", api, status, answer)
		}
		if status, answer = post(t, model, target, "no JSON"); status != 400 {
			t.Errorf("%s: rubbish gets %d: %s", api, status, answer)
		}
	}
}

// TestClientGone: an answer that nobody waited for was not given.
func TestClientGone(t *testing.T) {
	for api, target := range targets {
		ctx, cancel := context.WithCancel(t.Context())
		model := scriptmodel.New(func(scriptmodel.Request) scriptmodel.Turn {
			cancel()
			return scriptmodel.Turn{Text: "hello", Delay: 1 << 62}
		}, func(scriptmodel.Exchange) { t.Errorf("%s: answered", api) })
		w := httptest.NewRecorder()
		model.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(bodies[api])))
		if x := model.Exchanges(); len(x) != 1 || x[0].Done || w.Body.Len() > 0 {
			t.Errorf("%s: %+v, %q", api, x, w.Body)
		}
	}
}

// TestSide: what the CLIs ask for themselves does not reach the script.
func TestSide(t *testing.T) {
	model := scriptmodel.New(func(r scriptmodel.Request) scriptmodel.Turn {
		t.Errorf("the script was asked: %+v", r)
		return scriptmodel.Turn{}
	}, nil)
	for target, body := range map[string]string{
		"/v1/messages":                     `{"max_tokens":1,"tools":[{"name":"read"}]}`,
		"/v1/messages/count_tokens":        bodies["anthropic"],
		"/v1/responses":                    `{"input":[]}`,
		"/v1beta/models/m:generateContent": bodies["gemini"],
		"/v1beta/models/m:countTokens":     bodies["gemini"],
		"/v1/models":                       "",
		"/":                                "",
	} {
		if status, answer := post(t, model, target, body); status != 200 {
			t.Errorf("%s: status %d: %s", target, status, answer)
		}
	}
	if status, _ := post(t, model, "/v1/nothing", ""); status != 404 {
		t.Errorf("an unknown path gets %d", status)
	}
}
