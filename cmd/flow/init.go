package main

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/spf13/cobra"

	"flow/pipeline"
)

// starters are the pipelines that init writes. What it fills in stands between << and >>.
//
//go:embed starters
var starters embed.FS

type starterKind struct{ name, doc string }

func starterKinds() []starterKind {
	return []starterKind{
		{"review", "one agent reviews what changed"},
		{"fix", "find, fix, test and review, until the reviewer approves"},
		{"nightly", "find problems, fix each in a worktree of its own, merge"},
		{"approve", "plan, ask a person, carry out"},
	}
}

const schemaFile = "pipeline.schema.json"

type initFlags struct {
	name, agent, kind string
	yes               bool
}

func (a *app) initCommand() *cobra.Command {
	var f initFlags
	var kinds strings.Builder
	for _, k := range starterKinds() {
		fmt.Fprintf(&kinds, "\n  %-8s %s", k.name, k.doc)
	}
	cmd := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a pipeline to start from",
		Long: "init writes NAME.yaml, a pipeline to start from, and beside it " + schemaFile + ", by which editors complete\n" +
			"and check it. On a terminal it asks for what no flag says. It never overwrites a file. The kinds:\n" + kinds.String(),
		Example: "  flow init --kind fix --agent codex\n  flow init ci --name nightly --kind nightly --yes",
		Args:    arguments(0, 1, "at most one directory"),
		RunE:    func(_ *cobra.Command, args []string) error { return a.init(append(args, ".")[0], f) },
	}
	cmd.Flags().StringVar(&f.name, "name", "", "name of the pipeline and its file (default: the kind)")
	cmd.Flags().StringVar(&f.agent, "agent", "", orNames(known())+" (default: the first that is installed)")
	cmd.Flags().StringVar(&f.kind, "kind", "", "review, fix, nightly or approve (default review)")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "ask nothing")
	return cmd
}

func (a *app) init(dir string, f initFlags) error {
	if err := a.complete(&f); err != nil {
		return err
	}
	text, err := starter(f)
	if err != nil {
		return err
	}
	schema, err := pipeline.LanguageSchema()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, f.name+".yaml")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usageError{err}
	}
	err = writeNew(file, text)
	if errors.Is(err, fs.ErrExist) {
		return usageError{fmt.Errorf("%s exists already\nhint: choose another --name", file)}
	}
	if err != nil {
		return usageError{err}
	}
	fmt.Fprintln(a.stdout, file)
	switch err := writeNew(filepath.Join(dir, schemaFile), schema); {
	case errors.Is(err, fs.ErrExist):
		fmt.Fprintf(a.stderr, "%s is there already and was left as it is\n", filepath.Join(dir, schemaFile))
	case err != nil:
		return usageError{err}
	default:
		fmt.Fprintln(a.stdout, filepath.Join(dir, schemaFile))
	}
	fmt.Fprintf(a.stderr, "hint: flow plan %s shows what it would do, flow run %s --simulate tries it without an agent\n", file, file)
	return nil
}

// complete asks for what the flags do not say, or takes the defaults, and checks it.
func (a *app) complete(f *initFlags) error {
	var kinds []string
	for _, k := range starterKinds() {
		kinds = append(kinds, k.name)
	}
	agents := known()
	q := questions{in: bufio.NewReader(a.stdin), out: a.stderr, ask: !f.yes && a.interactive(driveFlags{})}
	q.question(&f.kind, "kind of pipeline ("+strings.Join(kinds, ", ")+")", "review")
	if err := oneOf("the kind", f.kind, kinds...); err != nil {
		return err
	}
	q.question(&f.agent, "agent ("+strings.Join(agents, ", ")+")", firstInstalled(agents))
	if err := oneOf("the agent", f.agent, agents...); err != nil {
		return err
	}
	q.question(&f.name, "name", f.kind)
	if !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`).MatchString(f.name) {
		return usageError{fmt.Errorf("the name %q is no name for a file\nhint: use letters, digits, _ and -", f.name)}
	}
	return nil
}

// firstInstalled is the first agent whose executable is on PATH, else the first.
func firstInstalled(names []string) string {
	for _, name := range names {
		if _, err := exec.LookPath(adapters()[name].Info().Executable); err == nil {
			return name
		}
	}
	return names[0]
}

// questions are put on a terminal. The end of the input answers all that follow by their
// defaults.
type questions struct {
	in  *bufio.Reader
	out io.Writer
	ask bool
}

// question fills in a value that is empty.
func (q questions) question(value *string, what, fallback string) {
	if *value == "" && q.ask {
		fmt.Fprintf(q.out, "%s [%s]: ", what, fallback)
		line, _ := q.in.ReadString('\n') // no line is no answer
		*value = strings.TrimSpace(line)
	}
	if *value == "" {
		*value = fallback
	}
}

// starter is the pipeline of a kind.
func starter(f initFlags) ([]byte, error) {
	t, err := template.New(f.kind+".yaml").Delims("<<", ">>").ParseFS(starters, "starters/"+f.kind+".yaml")
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]string{"Name": f.name, "Agent": f.agent, "File": f.name + ".yaml"})
	return b.Bytes(), err
}

// writeNew writes a file that is not there yet. The error is fs.ErrExist if it is.
func writeNew(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}
