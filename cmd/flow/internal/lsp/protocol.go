package lsp

import "encoding/json"

// What of the Language Server Protocol 3.17 is spoken here. Lines and characters
// count from 0, characters in UTF-16 code units.

type position struct {
	Line      int `json:"line"`
	Character int `json:"character"`
}

type span struct {
	Start position `json:"start"`
	End   position `json:"end"`
}

type location struct {
	URI   string `json:"uri"`
	Range span   `json:"range"`
}

type document struct {
	URI  string `json:"uri"`
	Text string `json:"text,omitempty"`
}

type openParams struct {
	TextDocument document `json:"textDocument"`
}

type changeParams struct {
	TextDocument   document `json:"textDocument"`
	ContentChanges []struct {
		Text string `json:"text"`
	} `json:"contentChanges"`
}

type positionParams struct {
	TextDocument document `json:"textDocument"`
	Position     position `json:"position"`
}

type severity int

const (
	severityError   severity = 1
	severityWarning severity = 2
)

type diagnostic struct {
	Range    span     `json:"range"`
	Severity severity `json:"severity"`
	Source   string   `json:"source"`
	Message  string   `json:"message"`
}

type publishParams struct {
	URI         string       `json:"uri"`
	Diagnostics []diagnostic `json:"diagnostics"`
}

type itemKind int

const (
	itemFunction itemKind = 3
	itemField    itemKind = 5
	itemVariable itemKind = 6
	itemModule   itemKind = 9
	itemProperty itemKind = 10
	itemValue    itemKind = 12
	itemEnum     itemKind = 13
	itemKeyword  itemKind = 14
)

type completionItem struct {
	Label         string   `json:"label"`
	Kind          itemKind `json:"kind"`
	Detail        string   `json:"detail,omitempty"`
	Documentation *markup  `json:"documentation,omitempty"`
	TextEdit      textEdit `json:"textEdit"`
}

type textEdit struct {
	Range   span   `json:"range"`
	NewText string `json:"newText"`
}

type markup struct {
	Kind  string `json:"kind"` // markdown
	Value string `json:"value"`
}

func markdown(text string) *markup {
	if text == "" {
		return nil
	}
	return &markup{Kind: "markdown", Value: text}
}

type hover struct {
	Contents markup `json:"contents"`
	Range    span   `json:"range"`
}

type symbolKind int

const (
	symbolModule   symbolKind = 2
	symbolClass    symbolKind = 5
	symbolFunction symbolKind = 12
	symbolVariable symbolKind = 13
)

type symbol struct {
	Name           string     `json:"name"`
	Detail         string     `json:"detail,omitempty"`
	Kind           symbolKind `json:"kind"`
	Range          span       `json:"range"`
	SelectionRange span       `json:"selectionRange"`
	Children       []symbol   `json:"children,omitempty"`
}

// capabilities are the answer to `initialize`. Documents are sent whole: a pipeline is
// small, and half of the mistakes of language servers are in applying changes.
const capabilities = `{
	"positionEncoding": "utf-16",
	"textDocumentSync": {"openClose": true, "change": 1, "save": {}},
	"completionProvider": {"triggerCharacters": [".", " ", ":", "{", "[", ","]},
	"hoverProvider": true,
	"definitionProvider": true,
	"documentSymbolProvider": true
}`

// A message is one of JSON-RPC 2.0: a request has ID and Method, a notification only
// the Method, a response only the ID.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Codes of JSON-RPC.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
)
