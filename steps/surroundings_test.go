package steps

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flow/agents"
	"flow/agents/proc"
	"flow/pipeline"
	"flow/pipeline/dag"
)

func vars(pairs ...string) (all []pipeline.Var) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, pipeline.Var{Name: pairs[i], Value: *text(pairs[i+1])})
	}
	return all
}

func TestEnvironment(t *testing.T) {
	w := newWorld(t, ask("s", func(s *pipeline.Step) {
		s.Env = vars("LAYER", "step", "BOTH", "step", "TOKEN", "Bearer {{ .env.KEY }}", "FLOW_RUN_ID", "mine")
	}), script("sh", "x"))
	w.plan.Env = vars("LAYER", "plan", "KEY", "{{ .secrets.S }}", "HOME", "/plan")
	profile := w.plan.Agents["a"]
	profile.Env = vars("LAYER", "profile", "PROFILE", "{{ .env.LAYER }}")
	w.plan.Agents["a"] = profile
	w.config.Secrets, w.plan.Secrets = map[string]string{"S": "s3cret"}, []string{"S"}
	w.config.Environ = []string{"PATH=/bin", "HOME=/home", "LC_ALL=C", "AWS_SECRET_ACCESS_KEY=x", "OPENAI_API_KEY=k", "FLOW_SIMULATE=x", "EMPTY"}
	w.play = says(0, "session S", "answer ok")
	w.finish()
	envs := map[string][]string{}
	for _, p := range w.ran {
		slices.Sort(p.spec.Env)
		envs[p.spec.Label] = p.spec.Env
	}
	want := map[string][]string{
		"s.1.1": {
			"BOTH=agent", "FLOW_RUN_ID=run1", "FROM_AGENT=1", "HOME=/plan", "KEY=s3cret", "LAYER=step", "LC_ALL=C",
			"OPENAI_API_KEY=k", "PATH=/bin", "PROFILE=profile", "TOKEN=Bearer s3cret",
		},
		"sh.1.1": {"FLOW_RUN_ID=run1", "HOME=/plan", "KEY=s3cret", "LAYER=plan", "LC_ALL=C", "PATH=/bin"},
	}
	if diff := cmp.Diff(want, envs); diff != "" {
		t.Error(diff)
	}
}

// TestSecrets is that templates never see a secret, however a variable's template
// spells it.
func TestSecrets(t *testing.T) {
	spellings := []string{
		`{{ .secrets.S }}`, `{{.secrets.S}}`, `{{ index .secrets "S" }}`, `{{ (index . "secrets").S }}`, `{{ index . "secrets" "S" }}`,
		`{{ $.secrets.S }}`, `{{ with .secrets }}{{ .S }}{{ end }}`, `{{ range .secrets }}{{ . }}{{ end }}`, `{{ $s := . }}{{ $s.secrets.S }}`,
		`{{ get (get . "secrets") "S" }}`, `{{ dig "secrets" "S" "" . }}`, `{{ b64enc .secrets.S | b64dec }}`, `{{ json . }}`, `{{ . }}`,
		`{{ .env.A }}`, `{{ index .env "A" }}`, `{{ printf "%v" .env }}`, `{{ get .env "A" }}`,
	}
	for _, src := range spellings {
		t.Run(src, func(t *testing.T) {
			w := newWorld(t)
			w.config.Secrets, w.plan.Secrets = map[string]string{"S": "s3cret"}, []string{"S"}
			x := w.executor()
			data, err := x.stepsIn(x.root, nil)
			if err != nil {
				t.Fatal(err)
			}
			declared, visible, err := x.variables(x.root, vars("A", "{{ .secrets.S }}", "B", src), data)
			if err == nil && strings.Contains(src, ".secrets") && !strings.Contains(strings.Join(declared[1:], ""), "s3cret") {
				t.Errorf("the process does not get the secret: %q", declared)
			}
			data["env"] = visible
			for _, look := range []string{"{{ .env }}", "{{ json . }}", "{{ get .env \"A\" }}{{ get .env \"B\" }}"} {
				if got, err := x.root.renderer.Text(*text(look), data); err == nil && strings.Contains(got, "s3cret") {
					t.Errorf("%s shows %s", look, got)
				}
			}
		})
	}
}

// A variable that hides one of the pipeline's does not leave the old value visible.
func TestShadowedVariable(t *testing.T) {
	w := newWorld(t)
	w.config.Secrets, w.plan.Secrets = map[string]string{"S": "s3cret"}, []string{"S"}
	x := w.executor()
	_, visible, err := x.variables(x.root, vars("A", "plain", "A", "{{ .secrets.S }}", "B", "b"), pipeline.Data{})
	if diff := cmp.Diff(map[string]any{"B": "b"}, visible); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// Conditions, directories, prompts and outputs see the variables; a condition can
// keep a variable that cannot be rendered from mattering.
func TestVisibleVariables(t *testing.T) {
	w := newWorld(t,
		ask("yes", func(s *pipeline.Step) {
			s.Env = vars("DIR", "{{ .env.BASE }}/b")
			s.If, s.Cwd, s.Prompt = text(`eq .env.BASE "a"`), text("{{ .env.DIR }}"), text("in {{ .env.DIR }}")
		}),
		ask("no", func(s *pipeline.Step) {
			s.Env, s.If = vars("BAD", "{{ .inputs.nope }}"), text(`eq .env.BASE "b"`)
		}))
	w.plan.Env = vars("BASE", "a")
	w.plan.Outputs = vars("base", "{{ .env.BASE }}")
	w.config.Inputs, w.config.Workspace = map[string]any{}, t.TempDir()
	if err := os.MkdirAll(filepath.Join(w.config.Workspace, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.play = says(0, "answer ok")
	m := w.finish()
	w.want(m, "yes", dag.OK)
	w.want(m, "no", dag.SkippedStep)
	if p := w.ran[0]; p.prompt != "in a/b" || !strings.HasSuffix(p.spec.Dir, "/a/b") {
		t.Errorf("it was asked %q in %s", p.prompt, p.spec.Dir)
	}
	outputs, err := w.executor().Outputs(m)
	if diff := cmp.Diff(map[string]any{"base": "a"}, outputs); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestInsideWorkspace(t *testing.T) {
	top := t.TempDir()
	outside := t.TempDir()
	for _, err := range []error{
		os.Mkdir(filepath.Join(top, "sub"), 0o700),
		os.WriteFile(filepath.Join(top, "file"), nil, 0o600),
		os.Symlink(outside, filepath.Join(top, "out")),
		os.Symlink("sub", filepath.Join(top, "in")),
		os.Symlink("loop", filepath.Join(top, "loop")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for cwd, want := range map[string]string{
		".": "", "sub": "", "in": "", "sub/../sub": "",
		"":          "cwd is empty; write . for the workspace itself",
		"..":        `cwd ".." is outside the workspace`,
		"/":         `cwd "/" is outside the workspace`,
		"sub/../..": `cwd "sub/../.." is outside the workspace`,
		"out":       `cwd "out" leads outside the workspace`,
		"file":      `cwd "file" is not a directory`,
		"nope":      `cwd "nope": no such file or directory`,
		"loop":      `cwd "loop": EvalSymlinks: too many links`,
	} {
		dir, err := insideWorkspace(top, cwd)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != want || (err == nil) != filepath.IsAbs(dir) {
			t.Errorf("%q gives %q and the error %q, want %q", cwd, dir, got, want)
		}
	}
}

func TestFile(t *testing.T) {
	w := newWorld(t)
	top := t.TempDir()
	w.config.Workspace = top
	w.plan.Files = map[string]string{"frozen": "as it was"}
	for name, data := range map[string]string{"a": "hello", "frozen": "as it is", "big": strings.Repeat("x", pipeline.MaxRenderedBytes+1), "binary": "\xff"} {
		if err := os.WriteFile(filepath.Join(top, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(top, "link")); err != nil {
		t.Fatal(err)
	}
	if err := mkfifo(filepath.Join(top, "fifo")); err != nil {
		t.Fatal(err)
	}
	x := w.executor()
	for name, want := range map[string]string{"a": "hello", "./a": "hello", "frozen": "as it was"} {
		data := pipeline.Data{"inputs": map[string]any{"name": name}}
		if got, err := x.root.renderer.Text(*text("{{ file .inputs.name }}"), data); got != want || err != nil {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	for name, want := range map[string]string{
		"../x": "escapes", "/etc/passwd": "escapes", "link": "escapes", "fifo": "not a regular file", ".": "not a regular file",
		"big": "larger than 4 MiB", "binary": "not UTF-8", "nope": "no such file",
	} {
		if _, err := x.projectFile(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s gives the error %v, want %q", name, err, want)
		}
	}
}

func TestTranscript(t *testing.T) {
	w := newWorld(t,
		ask("x"),
		pipeline.Step{ID: "g", Kind: pipeline.KindGroup, Needs: []string{"x"}, Steps: []pipeline.Step{
			ask("x"),
			ask("near", needs("x"), func(s *pipeline.Step) { s.Prompt = text(`{{ transcript "x" }}`) }),
		}},
		ask("top", needs("x"), func(s *pipeline.Step) { s.Prompt = text(`{{ transcript "x" }}`) }))
	w.play = func(p *process) (proc.Result, error) {
		return says(0, "say I "+p.spec.Label, "tool hammer", "answer ok")(p)
	}
	m := w.finish()
	w.want(m, "g.near", dag.OK)
	w.want(m, "top", dag.OK)
	for _, p := range w.ran {
		want := map[string]string{"g.near.1.1": "g.x.1.1", "top.1.1": "x.1.1"}[p.spec.Label]
		if want == "" {
			continue
		}
		want = "I\n" + want + "\n\n[Tool hammer]\n[failed: no result before the session ended]"
		if p.prompt != want {
			t.Errorf("%s was given %q, want %q", p.spec.Label, p.prompt, want)
		}
	}
}

func TestContent(t *testing.T) {
	s := newStore(t)
	for _, c := range []struct {
		text string
		blob bool
	}{{"", false}, {"short", false}, {strings.Repeat("x", inlineMax), false}, {strings.Repeat("x", inlineMax+1), true}, {"\xff", true}} {
		got, err := store(s, c.text)
		if err != nil || (got.Blob != "") != c.blob {
			t.Errorf("%d bytes are kept as %+v, %v", len(c.text), got, err)
		}
		r, err := DecodeResult(Result{Text: got}.encode())
		if err != nil {
			t.Fatal(err)
		}
		if back, err := r.Text.Load(s); back != c.text || err != nil {
			t.Errorf("%.10q comes back as %.10q, %v", c.text, back, err)
		}
	}
}

func TestEachLine(t *testing.T) {
	const headMax = 64 << 10 // of replay.Lines
	long := strings.Repeat("y", 3*headMax)
	cases := []struct {
		data  string
		limit int
		want  []proc.Line
	}{
		{"", 10, nil},
		{"a\n\nb", 10, []proc.Line{{Data: []byte("a"), Length: 1}, {Offset: 2}, {Data: []byte("b"), Offset: 3, Length: 1}}},
		{"0123456789\n0123456789a\nz\n", 10, []proc.Line{
			{Data: []byte("0123456789"), Length: 10},
			{Data: []byte("0123456789a"), Offset: 11, Length: 11, Oversized: true},
			{Data: []byte("z"), Offset: 23, Length: 1},
		}},
		{long + "\nz", len(long), []proc.Line{{Data: []byte(long), Length: int64(len(long))}, {Data: []byte("z"), Offset: int64(len(long)) + 1, Length: 1}}},
		{long + "\nz", len(long) - 1, []proc.Line{
			{Data: []byte(long[:headMax]), Length: int64(len(long)), Oversized: true},
			{Data: []byte("z"), Offset: int64(len(long)) + 1, Length: 1},
		}},
	}
	for _, c := range cases {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, []byte(c.data), 0o600); err != nil {
			t.Fatal(err)
		}
		var got []proc.Line
		err := eachLine(path, c.limit, func(l proc.Line) {
			l.Data = append([]byte(nil), l.Data...)
			got = append(got, l)
		})
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%.20q: %v %s", c.data, err, diff)
		}
	}
	if err := eachLine(filepath.Join(t.TempDir(), "none"), 10, func(proc.Line) { t.Error("a line") }); err != nil {
		t.Error(err)
	}
}

func TestReadTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("aé\xffz"), 0o600); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[int64]string{100: "aé\uFFFDz", 3: "z", 2: "z", 1: "z"} {
		if got, err := readTail(path, limit); err != nil || !strings.HasSuffix(got, want) || len(got) > len("aé\uFFFDz") {
			t.Errorf("the last %d bytes are %q, %v", limit, got, err)
		}
	}
}

// The language lists the causes that agents have, and no others.
func TestCauses(t *testing.T) {
	var want []string
	for _, c := range agents.Causes() {
		want = append(want, string(c))
	}
	if diff := cmp.Diff(want, pipeline.Causes()); diff != "" {
		t.Error(diff)
	}
}

func TestCheck(t *testing.T) {
	profile := func(name, model string, line int) pipeline.Profile {
		p := pipeline.Profile{Name: name, Use: "fake", Model: model}
		if line > 0 {
			p.Pos = pipeline.Pos{Line: line, Col: 3}
		}
		return p
	}
	of := func(agent string, line int) func(*pipeline.Step) {
		return func(s *pipeline.Step) { s.Agent, s.Pos = agent, pipeline.Pos{Line: line, Col: 3} }
	}
	plan := &pipeline.Plan{File: "p.yaml", Agents: map[string]pipeline.Profile{
		"good": profile("good", "", 2), "bad": profile("bad", "refused", 3), "odd": profile("odd", "broken", 1), "builtin": profile("builtin", "refused", 0),
		"unknown": {Name: "unknown", Use: "nobody"},
	}, Steps: []pipeline.Step{
		ask("a", of("good", 10)), ask("b", of("bad", 11)), ask("c", of("bad", 12)), ask("d", of("odd", 13)),
		{ID: "g", Kind: pipeline.KindGroup, Steps: []pipeline.Step{ask("e", of("builtin", 15)), ask("f", of("builtin", 16))}},
		ask("h", of("unknown", 17)), script("i", "x"),
	}}
	var got []string
	for _, e := range Check(plan, map[string]agents.Adapter{"fake": fakeAgent{}}) {
		got = append(got, e.Error()+" | "+e.Hint)
	}
	want := []string{
		"p.yaml:1:3: agent odd (step d): no arguments for that | ",
		"p.yaml:3:3: agent bad (step b): it has no model refused | choose another",
		"p.yaml:15:3: agent builtin (step g.e): it has no model refused | choose another",
		"p.yaml:16:3: agent builtin (step g.f): it has no model refused | choose another",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPreflight(t *testing.T) {
	adapters := map[string]agents.Adapter{"fake": fakeAgent{}}
	plan := &pipeline.Plan{Agents: map[string]pipeline.Profile{
		"a": {Name: "a", Use: "fake"}, "b": {Name: "b", Use: "fake", Command: []string{"/no/such"}},
		"c": {Name: "c", Use: "future"}, "sh": {Name: "sh", Use: "fake", Command: []string{"sh", "-c"}},
	}}
	for _, name := range []string{"sh", "c", "b", "a", "a"} {
		plan.Steps = append(plan.Steps, ask(name, func(s *pipeline.Step) { s.Agent = name }))
	}
	_, err := Preflight(plan, adapters, ".")
	want := strings.Join([]string{
		`agent a cannot be started: exec: "no-such-agent": executable file not found in $PATH`,
		`hint: install it; or try the pipeline with --simulate`,
		`agent b cannot be started: exec: "/no/such": stat /no/such: no such file or directory`,
		"hint: check `command` of the agent's profile; or try the pipeline with --simulate",
		`agent c cannot be started: this flow does not have "future"`,
		`hint: use the version of flow that the pipeline was written for`,
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
	plan.Steps = plan.Steps[:1]
	if warnings, err := Preflight(plan, adapters, "."); err != nil || len(warnings) > 0 {
		t.Error(warnings, err)
	}
	// An agent that others can take the place of may be missing, and so may one of these.
	plan.Agents["sh"] = pipeline.Profile{Name: "sh", Use: "fake", Command: []string{"sh"}, Fallback: []string{"a"}}
	plan.Agents["b"] = pipeline.Profile{Name: "b", Use: "fake", Command: []string{"/no/such"}, Fallback: []string{"sh"}}
	plan.Steps[0].Agent = "b"
	warnings, err := Preflight(plan, adapters, ".")
	if err != nil || len(warnings) != 2 || !strings.HasPrefix(warnings[0], "agent a cannot be started") || !strings.HasPrefix(warnings[1], "agent b cannot be started") {
		t.Errorf("warnings %q, error %v", warnings, err)
	}
}

// A relative command of a profile is one of the workspace, whatever the cwd.
func TestCommandLine(t *testing.T) {
	w := newWorld(t)
	w.config.Workspace = "/repo"
	x := w.executor()
	for _, c := range []struct{ command, want []string }{
		{nil, []string{"no-such-agent"}},
		{[]string{"claude", "-x"}, []string{"claude", "-x"}},
		{[]string{"bin/claude", "-x"}, []string{"/repo/bin/claude", "-x"}},
		{[]string{"/bin/claude"}, []string{"/bin/claude"}},
	} {
		if diff := cmp.Diff(c.want, x.commandLine("fake", c.command)); diff != "" {
			t.Error(diff)
		}
	}
	x.Simulate = func(use string) []string { return []string{"flow", use} }
	if diff := cmp.Diff([]string{"flow", "fake"}, x.commandLine("fake", []string{"claude"})); diff != "" {
		t.Error(diff)
	}
}

// An event nested deeper than fastjson reads does not keep a run from its resume.
func TestRestoreDeepEvent(t *testing.T) {
	w := newWorld(t, ask("s"))
	deep := strings.Repeat(`[`, 1000) + strings.Repeat(`]`, 1000)
	w.store.add(entry{events: []byte(`{"id":"7","type":"unknown","seq":7,"raw":` + deep + "}\n")})
	w.play = says(0, "say hi", "answer ok")
	w.want(w.finish(), "s", dag.OK)
	if e := w.store.events(t); e[1].Seq != 8 {
		t.Errorf("the next event has number %d", e[1].Seq)
	}
}

// The page about agents lists what a process inherits, all of it and nothing else.
func TestInheritedAsDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "agents.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Environment\n")
	section, _, _ = strings.Cut(section, "\nEverything else ")
	documented := regexp.MustCompile(`[A-Z][A-Z_]+\*?`).FindAllString(strings.Join(regexp.MustCompile("`[^`]+`").FindAllString(section, -1), " "), -1)
	var inherited []string
	for _, name := range commonVariables {
		if name == strings.ToUpper(name) || !slices.Contains(commonVariables, strings.ToUpper(name)) {
			inherited = append(inherited, name)
		}
	}
	for _, prefix := range slices.Concat(commonPrefixes, vendorPrefixes, gitPrefixes) {
		inherited = append(inherited, prefix+"*")
	}
	slices.Sort(documented)
	slices.Sort(inherited)
	if diff := cmp.Diff(inherited, documented); diff != "" {
		t.Error(diff)
	}
}
