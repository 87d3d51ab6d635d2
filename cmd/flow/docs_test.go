package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"flow/agents"
	"flow/agents/simulate"
	"flow/pipeline"
)

var update = flag.Bool("update", false, "write the generated files anew")

// TestDocs holds the generated pages of docs/ against what the program says.
func TestDocs(t *testing.T) {
	for name, text := range map[string]string{
		"commands.md":  commandsPage(),
		"events.md":    eventsPage(t),
		"functions.md": functionsPage(),
		"keys.md":      keysPage(t),
		"rpc.md":       rpcPage(t),
		"simulate.md":  simulatePage(),
	} {
		file := filepath.Join("..", "..", "docs", name)
		if *update {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, string(got)); diff != "" {
			t.Errorf("docs/%s is not what the program says; go test ./cmd/flow -run Docs -update\n%s", name, diff)
		}
	}
}

const generated = "<!-- generated: go test ./cmd/flow -run Docs -update -->\n"

const commandsIntro = `# Commands

` + generated + `
Standard output is data, standard error is progress and messages; neither has control sequences of strangers, nor commands for the log of a build. Every command takes ` + "`--state-dir`" + `, ` + "`--log-level`" + `
and ` + "`--no-config`" + `. A flag with a variable takes its value where the command line does not have it; ` + "`FLOW_CONFIG`" + ` names another [configuration](config.md)
of the user, or is ` + "`none`" + `.
RUN is a run's id, the beginning of one that no other shares, or ` + "`last`" + `.

| exit status | means |
|---|---|
| 0 | it succeeded |
| 1 | a step failed, or flow itself did |
| 2 | the command line or the pipeline is wrong |
| 3 | an agent CLI is missing, or too few open files or processes are allowed |
| 4 | the run waits for a person, or all that failed is that one said no |
| 5 | a budget is used up |
| 10 | there is no such run |
| 11 | another process has the run |
| 12 | the state directory cannot be used (full, damaged, not writable, written by a newer flow) |
| 124 | every step that failed ran into its timeout |
| 129, 130, 143 | the run was stopped by SIGHUP, SIGINT or SIGTERM |
`

func commandsPage() string {
	var b strings.Builder
	b.WriteString(commandsIntro)
	root := (&app{getenv: func(string) string { return "" }}).root()
	root.InitDefaultCompletionCmd()
	commands := root.Commands()
	slices.SortFunc(commands, func(x, y *cobra.Command) int { return strings.Compare(x.Name(), y.Name()) })
	for _, c := range commands {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		fmt.Fprintf(&b, "\n## flow %s\n\n%s\n\n```\n%s\n```\n", c.Name(), strings.TrimSpace(text), c.UseLine())
		if c.Example != "" {
			fmt.Fprintf(&b, "\n```\n%s\n```\n", dedent(c.Example))
		}
		writeFlags(&b, c.LocalNonPersistentFlags())
		for _, sub := range c.Commands() {
			fmt.Fprintf(&b, "\n- `%s`: %s", sub.CommandPath(), sub.Short)
		}
		if len(c.Commands()) > 0 {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func dedent(s string) string { return strings.ReplaceAll(strings.TrimPrefix(s, "  "), "\n  ", "\n") }

func writeFlags(b *strings.Builder, flags *pflag.FlagSet) {
	first := true
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		if first {
			b.WriteString("\n| flag | meaning |\n|---|---|\n")
			first = false
		}
		name := "`--" + f.Name + "`"
		if slices.Contains(flagVariables(), f.Name) {
			name += ", `" + variableOf(f.Name) + "`"
		}
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		usage := strings.ReplaceAll(strings.ReplaceAll(f.Usage, "`", ""), "|", `\|`)
		fmt.Fprintf(b, "| %s | %s |\n", name, usage)
	})
}

const eventsIntro = `# Events

` + generated + `
` + "`flow events RUN -o json`" + ` and ` + "`flow translate`" + ` print unified events, one JSON object a line. Their JSON Schema is printed by
` + "`flow schema events`" + `. Every event has these fields; those of its type follow below. Fields in italics may be missing.

Joining the ` + "`content`" + ` of all ` + "`textChunk`" + ` events of one role gives each text once. Each ` + "`toolStarted`" + ` has exactly one
` + "`toolCompleted`" + `, and the last event of every process of an agent is ` + "`sessionEnded`" + `. A text over 32 KiB is cut in stored events: ` + "`native`" + `
says where the whole line stands in the run's directory.

`

const functionsIntro = `# Template functions

` + generated + `
Templates are Go's [text/template](https://pkg.go.dev/text/template), with its own functions (` + "`and or not len index slice printf eq ne lt le gt ge`" + `) and these.
They have the names and meanings of slim-sprig where it has them. None reads the environment, the network, the clock or
randomness, and no result can grow without bound. In a condition (` + "`if`" + `) there are also ` + "`always`, `failed` and `succeeded`" + `.

| function | |
|---|---|
`

func functionsPage() string {
	var b strings.Builder
	b.WriteString(functionsIntro)
	for _, f := range pipeline.Functions() {
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.Signature, strings.ReplaceAll(f.Doc, "|", `\|`))
	}
	return b.String()
}

func simulatePage() string {
	return `# Simulated agents

` + generated + `
` + "`flow run FILE --simulate`" + ` replaces the agent CLIs by processes that take the same command line, keep sessions, and speak the same
protocols. Only the model is missing: they answer at once, always the same, with valid data where the step has an output schema
(booleans true, numbers at their minimum, lists of two), and report usage and cost as the real ones do.

Set FLOW_SIMULATE in a step's ` + "`env:`" + ` to have one do more; real agents do not look at it.

` + "```yaml\nenv: {FLOW_SIMULATE: \"edit=NOTES.md; fail=rate_limit@1\"}\n```\n\n```\n" + simulate.Help + "```\n"
}

type schemaNode struct {
	Description string                `json:"description"`
	Required    []string              `json:"required"`
	Properties  map[string]schemaNode `json:"properties"`
	Type        string                `json:"type"`
	Ref         string                `json:"$ref"`
	Const       string                `json:"const"`
	Items       *schemaNode           `json:"items"`
	Defs        map[string]schemaNode `json:"$defs"`
}

func eventsPage(t *testing.T) string {
	t.Helper()
	var schema schemaNode
	// Unknown bodies have `true` for a schema where any value will do.
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(agents.EventSchema), ": true", ": {}")), &schema); err != nil {
		t.Fatal(err)
	}
	common := schema.Defs["turnStarted"].Properties
	var b strings.Builder
	b.WriteString(eventsIntro)
	writeFields(&b, schema.Defs["turnStarted"], nil)
	for _, body := range agents.Bodies() {
		def := schema.Defs[body.Type()]
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", body.Type(), def.Description)
		if len(def.Properties) > len(common) {
			b.WriteByte('\n')
			writeFields(&b, def, common)
		}
	}
	b.WriteString("\n## Values\n")
	var causes []string
	for _, c := range agents.Causes() {
		causes = append(causes, "`"+string(c)+"`")
	}
	fmt.Fprintf(&b, "\n`cause`, also of `retry: {on: …}`: %s.\n", strings.Join(causes, " "))
	for _, name := range []string{"Usage", "TodoItem", "Native"} {
		fmt.Fprintf(&b, "\n### %s\n\n", name)
		writeFields(&b, schema.Defs[name], nil)
	}
	return b.String()
}

func writeFields(b *strings.Builder, def schemaNode, without map[string]schemaNode) {
	b.WriteString("| field | type | meaning |\n|---|---|---|\n")
	names := make([]string, 0, len(def.Properties))
	for name := range def.Properties {
		if _, skip := without[name]; !skip || name == "model" {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int {
		ix, iy := slices.Index(def.Required, x), slices.Index(def.Required, y)
		if (ix < 0) != (iy < 0) {
			return map[bool]int{true: 1, false: -1}[ix < 0]
		}
		if ix != iy {
			return ix - iy
		}
		return strings.Compare(x, y)
	})
	for _, name := range names {
		p := def.Properties[name]
		label := "`" + name + "`"
		if !slices.Contains(def.Required, name) {
			label = "*" + label + "*"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", label, p.kind(), strings.ReplaceAll(p.Description, "\n", " "))
	}
}

func (n schemaNode) kind() string {
	switch {
	case n.Ref != "":
		name := n.Ref[strings.LastIndex(n.Ref, "/")+1:]
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case n.Items != nil:
		return "list of " + n.Items.kind()
	case n.Const != "":
		return "string"
	case n.Type == "":
		return "any"
	default:
		return n.Type
	}
}
