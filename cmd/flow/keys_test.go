package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"gopkg.in/yaml.v3"

	"flow/pipeline"
)

// TestEveryKeyIsAtWork demands of every key of the language, and of every value of those
// that take one of a few words, that a pipeline in testdata/script uses it. Only pipelines
// that are valid count: a script that shows how a key is refused does not show it at work.
func TestEveryKeyIsAtWork(t *testing.T) {
	text, err := pipeline.LanguageSchema()
	if err != nil {
		t.Fatal(err)
	}
	var root languageNode
	if err := json.Unmarshal(text, &root); err != nil {
		t.Fatal(err)
	}
	language := usedKeys{defs: root.Defs, seen: map[string]bool{}}
	language.declare("pipeline", root)
	for name, def := range root.Defs {
		language.declare(name, def)
	}
	maps.DeleteFunc(language.seen, func(name string, _ bool) bool {
		// Causes have tests of their own, and no agent has this mode where nobody can be asked.
		return strings.HasPrefix(name, "step.retry.on: ") || name == "agent.approval: ask-dangerous"
	})
	for _, doc := range scriptPipelines(t) {
		language.use("pipeline", root, doc.Content[0])
	}
	for _, name := range slices.Sorted(maps.Keys(language.seen)) {
		if !language.seen[name] {
			t.Errorf("no script has %s", name)
		}
	}
}

// A languageNode is what this test reads of the language's schema.
type languageNode struct {
	Ref        string                  `json:"$ref"`
	Enum       []string                `json:"enum"`
	AnyOf      []languageNode          `json:"anyOf"`
	Items      *languageNode           `json:"items"`
	Properties map[string]languageNode `json:"properties"`
	Others     json.RawMessage         `json:"additionalProperties"` // false, or the schema of a mapping's values
	Defs       map[string]languageNode `json:"$defs"`
}

// usedKeys are the keys of the language by where they stand, as `step.retry.max`, with
// whether they have been seen; a word that a key takes is `step.isolation: copy`.
type usedKeys struct {
	defs map[string]languageNode
	seen map[string]bool
}

// declare notes what may stand at a place, as not seen.
func (u usedKeys) declare(at string, s languageNode) {
	for _, word := range s.Enum {
		u.seen[at+": "+word] = false
	}
	for name, value := range s.Properties {
		u.seen[at+"."+name] = false
		u.declare(at+"."+name, value)
	}
	for _, a := range s.AnyOf {
		u.declare(at, a)
	}
	if s.Items != nil {
		u.declare(at, *s.Items)
	}
}

// use marks what stands at a place of a pipeline.
func (u usedKeys) use(at string, s languageNode, n *yaml.Node) {
	if s.Ref != "" {
		at = strings.TrimPrefix(s.Ref, "#/$defs/")
		s = u.defs[at]
	}
	for _, a := range s.AnyOf {
		u.use(at, a, n)
	}
	switch n.Kind {
	case yaml.AliasNode:
		u.use(at, s, n.Alias)
	case yaml.ScalarNode:
		u.mark(at + ": " + n.Value)
	case yaml.SequenceNode:
		for _, item := range n.Content {
			if s.Items != nil {
				u.use(at, *s.Items, item)
			}
		}
	case yaml.MappingNode:
		for i := 0; i < len(n.Content); i += 2 {
			u.entry(at, s, n.Content[i].Value, n.Content[i+1])
		}
	}
}

func (u usedKeys) entry(at string, s languageNode, name string, n *yaml.Node) {
	if value, known := s.Properties[name]; known {
		u.mark(at + "." + name)
		u.use(at+"."+name, value, n)
		return
	}
	var others languageNode
	if json.Unmarshal(s.Others, &others) == nil {
		u.use(at, others, n)
	}
}

func (u usedKeys) mark(name string) {
	if _, declared := u.seen[name]; declared {
		u.seen[name] = true
	}
}

// scriptPipelines are the valid pipelines of all scripts.
func scriptPipelines(t *testing.T) []*yaml.Node {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts (%v)", len(scripts), err)
	}
	var all []*yaml.Node
	for _, script := range scripts {
		archive, err := txtar.ParseFile(script)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, validPipelines(t, archive)...)
	}
	return all
}

// validPipelines are those of one script, which may name its other files.
func validPipelines(t *testing.T, archive *txtar.Archive) []*yaml.Node {
	t.Helper()
	dir := t.TempDir()
	if err := txtar.Write(archive, dir); err != nil {
		t.Fatal(err)
	}
	var valid []*yaml.Node
	for _, f := range archive.Files {
		file := filepath.Join(dir, f.Name)
		if filepath.Ext(file) != ".yaml" {
			continue
		}
		if _, _, err := check(file, languageOptions()); err != nil {
			continue
		}
		doc := &yaml.Node{}
		text, err := os.ReadFile(file)
		if err == nil {
			err = yaml.Unmarshal(text, doc)
		}
		if err != nil {
			t.Fatal(err)
		}
		valid = append(valid, doc)
	}
	return valid
}
