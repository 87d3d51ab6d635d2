package rpc

import (
	"fmt"
	"strings"
)

// The codes of errors. Those below -32000 are JSON-RPC's own.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeNoMethod       = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603 // a defect of flow, or of the machine
	CodeFailed         = -32000 // it cannot be done; data.cause says why
	CodeNotFound       = -32001 // there is no such run, step, question or session
	CodeLocked         = -32002 // another process has the run
	CodeInvalid        = -32003 // a pipeline has mistakes: data.problems
	CodePreflight      = -32004 // an agent is not installed, or a secret is missing
	CodeBusy           = -32005 // a limit of the server is reached
)

// An Error is the answer to a request that was not granted.
type Error struct {
	Code    int        `json:"code"`
	Message string     `json:"message"`
	Data    *ErrorData `json:"data,omitempty"`
}

// ErrorData says more of an error.
type ErrorData struct {
	Cause    string    `json:"cause,omitempty" doc:"a word that programs can tell errors apart by"`
	Hint     string    `json:"hint,omitempty" doc:"what to do next"`
	Problems []Problem `json:"problems,omitempty" doc:"all mistakes that were found"`
}

// A Problem is one mistake in a file or in the params of a request.
type Problem struct {
	File     string `json:"file,omitempty" doc:"the file that it stands in"`
	Line     int    `json:"line,omitempty" doc:"from 1"`
	Col      int    `json:"col,omitempty" doc:"from 1, in characters"`
	Param    string `json:"param,omitempty" doc:"the parameter that it is about"`
	Severity string `json:"severity" enum:"error,warning"`
	Message  string `json:"message" doc:"what was found"`
	Hint     string `json:"hint,omitempty" doc:"what would be right"`
}

func (e *Error) Error() string {
	if e.Data == nil || e.Data.Hint == "" {
		return e.Message
	}
	return e.Message + "\nhint: " + e.Data.Hint
}

// NewError makes an error of a code, with its cause, message and hint ("" for none).
func NewError(code int, cause, msg, hint string) *Error {
	return &Error{Code: code, Message: msg, Data: &ErrorData{Cause: cause, Hint: hint}}
}

// ParseError answers what is not JSON.
func ParseError(msg, hint string) *Error { return NewError(CodeParse, "parse", msg, hint) }

// InvalidRequest answers JSON that is not a request.
func InvalidRequest(msg string) *Error {
	return NewError(CodeInvalidRequest, "invalid_request", msg, `{"jsonrpc": "2.0", "id": 1, "method": "rpc/methods"} is a request`)
}

// InvalidParams answers params with mistakes.
func InvalidParams(problems ...Problem) *Error {
	texts := make([]string, len(problems))
	for i := range problems {
		problems[i].Severity = "error"
		texts[i] = problems[i].Param + ": " + problems[i].Message
	}
	e := NewError(CodeInvalidParams, "invalid_params", strings.Join(texts, "; "), "")
	e.Data.Problems = problems
	if len(problems) == 1 {
		e.Data.Hint = problems[0].Hint
	}
	return e
}

// InvalidParam answers params of which one is wrong.
func InvalidParam(param, msg, hint string) *Error {
	return InvalidParams(Problem{Param: param, Message: msg, Hint: hint})
}

// noMethod answers a method that there is not.
func noMethod(name string, known []string) *Error {
	hint := "rpc/methods lists them"
	for _, k := range known {
		if strings.EqualFold(k, name) || strings.HasSuffix(k, "/"+name) {
			hint = fmt.Sprintf("do you mean %s?", k)
		}
	}
	return NewError(CodeNoMethod, "no_method", fmt.Sprintf("there is no method %q", name), hint)
}
