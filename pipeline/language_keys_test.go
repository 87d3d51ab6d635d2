package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func testAgents() Options {
	return Options{Agents: map[string]AgentInfo{"claude": {Resume: true, Fork: true}, "codex": {Resume: true}, "gemini": {Resume: true}}}
}

// Every key of the tables is one that Load decodes: the schema promises nothing else.
func TestTablesAreDecoded(t *testing.T) {
	for where, table := range map[string][]key{
		"%s: ~": pipelineTable(), "steps: {a: {%s: ~}}": stepTable(), "agents: {a: {%s: ~}}": profileTable(),
		"steps: {a: {retry: {%s: ~}}}": retryTable(), "concurrency: {%s: ~}": concurrencyTable(), "on-limit: {%s: ~}": onLimitTable(),
		"steps: {a: {check: {%s: ~}}}": checkTable(), "budget: {%s: ~}": budgetTable(), "steps: {a: {cache: {%s: ~}}}": cacheTable(),
		"notify: {%s: ~}": notifyTable(), "permissions: {%s: ~}": permissionsTable(),
		"steps: {a: {sandbox: {%s: ~}}}": sandboxTable(), "agents: {a: {sandbox: {%s: ~}}}": sandboxTable(),
		"agents: {a: {exec: {%s: ~}}}": execTable(), "agents: {a: {exec: {events: {%s: ~}}}}": eventTable(),
		"agents: {a: {exec: {events: {text: {%s: ~}}}}}": pickTable(),
		"steps: {a: {worktree: {%s: ~}}}":                worktreeTable(), "steps: {a: {repeat: {%s: ~}}}": repeatTable(), "steps: {a: {merge: {%s: ~}}}": mergeTable(),
		"steps: {a: {vote: {%s: ~}}}": voteTable(), "steps: {a: {vote: {judge: {%s: ~}}}}": judgeTable(), "steps: {a: {session: {%s: ~}}}": sessionTable(),
	} {
		for _, k := range table {
			src := fmt.Sprintf(where, k.name)
			_, _, err := Parse("p.yaml", []byte(src), testAgents())
			if err == nil || strings.Contains(err.Error(), "unknown key `"+k.name+"`") {
				t.Errorf("%s: %v", src, err)
			}
			if k.doc == "" || len(k.schema) == 0 {
				t.Errorf("key %s has no text or no schema", k.name)
			}
		}
	}
}

// Every key of a configuration is decoded, with what its schema says of it.
func TestConfigTablesAreDecoded(t *testing.T) {
	for where, table := range map[string][]key{"%s: ~": configTable(), "agents: {claude: {%s: ~}}": profileTable()} {
		for _, k := range table {
			src := fmt.Sprintf(where, k.name)
			_, _, err := ParseConfig("c.yaml", []byte(src), UserConfig, testAgents())
			if err == nil || strings.Contains(err.Error(), "unknown key `"+k.name+"`") {
				t.Errorf("%s: %v", src, err)
			}
			if k.doc == "" || len(k.schema) == 0 {
				t.Errorf("key %s has no text or no schema", k.name)
			}
		}
	}
}

// flow config shows a key of a profile by the name that it has in the JSON of a plan.
func TestProfileKeysHaveFields(t *testing.T) {
	fields := map[string]bool{}
	for f := range reflect.TypeFor[Profile]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = true
	}
	for _, name := range profileKeys() {
		if !fields[fieldOf(name)] {
			t.Errorf("a Profile has no field %s for the key %s", fieldOf(name), name)
		}
	}
}

// What Load says of keys and the forms of their values, editors say too, by the
// schema and at the same place. The exceptions are what the schema cannot know.
func TestSchemaFindsTheSame(t *testing.T) {
	exceptions := map[string]string{
		"got `(010|2_000_000|2e6)`$":             "YAML reads a plain number, and an editor sees no more than that",
		"must be more than 0 and at most 7 days": "a schema does not know how long 200h is",
		"^`raw` must be| must be one expression": "is about templates",
	}
	formal := regexp.MustCompile("^unknown key|^`[^`]*` must be |needs a unit| must be a mapping|^unknown effect|has no `run`|bounds nothing|tries nothing")
	schema, err := LanguageSchema()
	if err != nil {
		t.Fatal(err)
	}
	excepted := func(msg string) bool {
		for pattern := range exceptions {
			if regexp.MustCompile(pattern).MatchString(msg) {
				return true
			}
		}
		return false
	}
	compared := 0
	files, err := filepath.Glob("testdata/errors/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		root := newLoader(file, src, testAgents()).document()
		if root == nil {
			continue // no editor gets as far as the schema
		}
		_, _, err = Load(file, testAgents())
		var errs Errors
		if !errors.As(err, &errs) {
			t.Fatal(err)
		}
		at := map[Pos]string{}
		pointers(root, "", at)
		found := violated(schema, root)
		for _, e := range errs {
			if !formal.MatchString(e.Msg) || excepted(e.Msg) {
				continue
			}
			compared++
			if p, ok := at[e.Pos]; !ok || !found[p] {
				t.Errorf("%v\nhas the place %q, where the schema finds nothing: %v", e, p, slices.Sorted(maps.Keys(found)))
			}
		}
	}
	if compared < 70 {
		t.Errorf("only %d mistakes compared", compared)
	}
}

// pointers writes the JSON pointer of every node, and for a key that of its mapping
// with the key behind.
func pointers(n *yaml.Node, at string, out map[Pos]string) {
	switch n = deref(n); n.Kind {
	case yaml.MappingNode:
		out[place(n)] = at
		for i := 0; i+1 < len(n.Content); i += 2 {
			under := at + "/" + n.Content[i].Value
			pointers(n.Content[i+1], under, out)
			out[place(n.Content[i])] = under
		}
	case yaml.SequenceNode:
		out[place(n)] = at
		for i, item := range n.Content {
			pointers(item, fmt.Sprintf("%s/%d", at, i), out)
		}
	default:
		out[place(n)] = at
	}
}

// editorValue is what an editor makes of YAML.
func editorValue(n *yaml.Node) any {
	switch n = deref(n); n.Kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[n.Content[i].Value] = editorValue(n.Content[i+1])
		}
		return m
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, item := range n.Content {
			list[i] = editorValue(item)
		}
		return list
	}
	var v any
	if n.ShortTag() == "!!timestamp" || n.Decode(&v) != nil {
		return n.Value
	}
	return v
}

// violated returns the pointers at which the schema finds something: a value, an
// unknown key, or the mapping that lacks one.
func violated(schema []byte, root *yaml.Node) map[string]bool {
	out := map[string]bool{}
	data, err := json.Marshal(editorValue(root))
	if err == nil {
		err = ValidateJSON(schema, data)
	}
	if err == nil {
		return out
	}
	for v := range strings.SplitSeq(err.Error(), "; ") {
		at, what, _ := strings.Cut(v, ": ")
		if !strings.HasPrefix(at, "/") {
			at, what = "", v // of the whole
		}
		out[strings.TrimSuffix(at, "/")] = true
		if keys, ok := strings.CutPrefix(what, "unknown "); ok {
			for k := range strings.SplitSeq(keys, ", ") {
				out[strings.TrimSuffix(at, "/")+"/"+k] = true
			}
		}
		if what == "missing" {
			out[at[:strings.LastIndexByte(at, '/')]] = true
		}
	}
	return out
}
