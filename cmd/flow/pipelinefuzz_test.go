package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"flow/cmd/flow/internal/draw"
	"flow/cmd/flow/internal/lsp"
	"flow/pipeline"
	"flow/steps"
)

// FuzzPipeline takes any bytes through all that reads a pipeline without running it: flow
// validate with its warnings, flow plan, flow graph in every format, and an editor that opens
// the file. Each mistake has words and a place in the file; what has none can be previewed
// and drawn. The seeds are the bad inputs and the examples.
func FuzzPipeline(f *testing.F) {
	for _, dir := range []string{filepath.Join("testdata", "badinput"), filepath.Join(top, "examples", "pipelines")} {
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil || len(files) == 0 {
			f.Fatalf("%s: %d seeds, %v", dir, len(files), err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		plan, errs, warnings := checkFuzzed(t, "p.yaml", src)
		for _, w := range warnings {
			checkPlace(t, pipeline.Error(w), src)
		}
		for _, e := range errs {
			checkPlace(t, e, src)
		}
		if plan != nil {
			previewFuzzed(t, plan)
			drawFuzzed(t, plan)
		}
		openInEditor(t, src)
	})
}

// checkFuzzed is what flow validate finds, and the plan if there is no mistake.
func checkFuzzed(t *testing.T, path string, src []byte) (*pipeline.Plan, pipeline.Errors, []pipeline.Warning) {
	t.Helper()
	o := languageOptions()
	o.ReadFile = func(path string) ([]byte, error) {
		if strings.HasSuffix(path, ".yaml") {
			return src, nil // it calls itself, by as many names as it likes
		}
		return []byte("text of " + path), nil
	}
	plan, warnings, err := pipeline.Parse(path, src, o)
	if err != nil {
		errs, ok := errors.AsType[pipeline.Errors](err)
		if !ok || len(errs) == 0 {
			t.Fatalf("not Errors: %v", err)
		}
		return nil, errs, warnings
	}
	if errs := steps.Check(plan, adapters()); len(errs) > 0 {
		return nil, errs, warnings
	}
	return plan, nil, append(warnings, steps.Lint(plan, adapters())...)
}

// checkPlace is that e says something, of a character of its file.
func checkPlace(t *testing.T, e pipeline.Error, src []byte) {
	t.Helper()
	if e.Msg == "" {
		t.Errorf("a mistake without words: %#v", e)
	}
	if e.Source != "" {
		return // in another file than those that are src
	}
	lines := bytes.Split(src, []byte("\n"))
	if e.Pos.Line < 1 || e.Pos.Line > len(lines) || e.Pos.Col < 1 || e.Pos.Col > utf8.RuneCount(lines[e.Pos.Line-1])+1 {
		t.Errorf("%q: %d:%d is not in a file of %d lines", e.Msg, e.Pos.Line, e.Pos.Col, len(lines))
	}
}

func previewFuzzed(t *testing.T, plan *pipeline.Plan) {
	t.Helper()
	inputs := map[string]any{}
	for _, input := range plan.Inputs {
		inputs[input.Name] = "given"
	}
	p, err := steps.NewPreview(steps.PreviewConfig{Plan: plan, Adapters: adapters(), Inputs: inputs, Workspace: "/w"})
	if err != nil {
		t.Fatalf("a pipeline without mistakes has no preview: %v", err)
	}
	var b bytes.Buffer
	printPreview(&b, p)
	if _, err := json.Marshal(p); err != nil || bytes.ContainsRune(b.Bytes(), '\x1b') {
		t.Errorf("the preview: %v\n%q", err, b.String())
	}
}

func drawFuzzed(t *testing.T, plan *pipeline.Plan) {
	t.Helper()
	g := draw.New(plan)
	for _, format := range []func(io.Writer) error{g.Text, g.Mermaid, g.DOT, g.SVG} {
		if err := format(io.Discard); err != nil {
			t.Errorf("it cannot be drawn: %v", err)
		}
	}
}

// openInEditor is that the language server answers an editor that has opened the file.
func openInEditor(t *testing.T, src []byte) {
	t.Helper()
	document := map[string]any{"uri": "file:///p.yaml", "languageId": "yaml", "version": 1, "text": string(src)}
	var in, out bytes.Buffer
	for i, method := range []string{"initialize", "textDocument/didOpen", "textDocument/documentSymbol", "shutdown", "exit"} {
		m := map[string]any{"jsonrpc": "2.0", "method": method, "params": map[string]any{"textDocument": document, "capabilities": map[string]any{}}}
		if method != "textDocument/didOpen" && method != "exit" {
			m["id"] = i
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&in, "Content-Length: %d\r\n\r\n%s", len(text), text)
	}
	err := lsp.Serve(&in, &out, lsp.Options{Check: func(path string, text []byte) (pipeline.Errors, []pipeline.Warning) {
		_, errs, warnings := checkFuzzed(t, path, text)
		return errs, warnings
	}})
	if err != nil || !strings.Contains(out.String(), "textDocument/publishDiagnostics") || strings.Contains(out.String(), `"error":{`) {
		t.Errorf("the language server: %v\n%s", err, out.String())
	}
}
