package main

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

// top is the top of the module.
var top = filepath.Join("..", "..")

// releaseConfig is what counts in .goreleaser.yaml.
type releaseConfig struct {
	Version  int            `yaml:"version"`
	Builds   []releaseBuild `yaml:"builds"`
	Archives []struct {
		Files []struct {
			Src string `yaml:"src"`
		} `yaml:"files"`
	} `yaml:"archives"`
	SBOMs []struct {
		Artifacts string   `yaml:"artifacts"`
		Cmd       string   `yaml:"cmd"`
		Documents []string `yaml:"documents"`
	} `yaml:"sboms"`
	Checksum struct {
		Name      string `yaml:"name_template"`
		Algorithm string `yaml:"algorithm"`
	} `yaml:"checksum"`
	Release struct {
		Disable bool `yaml:"disable"`
	} `yaml:"release"`
}

type releaseBuild struct {
	Main    string   `yaml:"main"`
	Binary  string   `yaml:"binary"`
	Env     []string `yaml:"env"`
	Goos    []string `yaml:"goos"`
	Goarch  []string `yaml:"goarch"`
	Flags   []string `yaml:"flags"`
	Ldflags []string `yaml:"ldflags"`
}

func readRelease(t *testing.T) (c releaseConfig) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(top, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestReleaseConfig is that a release has what docs/decisions/0019-releases.md says, and
// goes nowhere by itself. goreleaser itself checks the file where it is installed; here are
// the fields without which a release would be another one.
func TestReleaseConfig(t *testing.T) {
	c := readRelease(t)
	if len(c.Builds) != 1 || len(c.Archives) != 1 || len(c.SBOMs) != 1 {
		t.Fatalf("%d builds, %d archives, %d SBOMs; want one of each", len(c.Builds), len(c.Archives), len(c.SBOMs))
	}
	want := releaseBuild{
		Main: "./cmd/flow", Binary: "flow", Env: []string{"CGO_ENABLED=0"}, Goos: []string{"linux"}, Goarch: []string{"amd64", "arm64"},
		Flags: []string{"-trimpath", "-buildvcs=false"}, Ldflags: []string{"-s -w -buildid= -X main.release={{ .Version }}"},
	}
	if diff := cmp.Diff(want, c.Builds[0]); diff != "" {
		t.Error(diff)
	}
	if s := c.SBOMs[0]; s.Artifacts != "archive" || s.Cmd != "syft" || len(s.Documents) != 1 {
		t.Errorf("the SBOM is %+v", s)
	}
	if c.Version != 2 || c.Checksum.Algorithm != "sha256" || c.Checksum.Name == "" || !c.Release.Disable {
		t.Errorf("version %d, checksum %+v, release %+v", c.Version, c.Checksum, c.Release)
	}
	var files []string
	for _, f := range c.Archives[0].Files {
		files = append(files, f.Src)
		if _, err := os.Stat(filepath.Join(top, strings.TrimSuffix(f.Src, "/**"))); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "docs/**"} {
		if !slices.Contains(files, name) {
			t.Errorf("%s is in no archive", name)
		}
	}
}

// TestToolsArePinned is that .ci/run installs exact versions only.
func TestToolsArePinned(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(top, ".ci", "run"))
	if err != nil {
		t.Fatal(err)
	}
	tools := regexp.MustCompile(`([\w./@-]+\w)@([^\s"]+)`).FindAllSubmatch(script, -1)
	if len(tools) < 4 {
		t.Fatalf("%d tools found: the expression is wrong", len(tools))
	}
	exact := regexp.MustCompile(`^v?\d+\.\d+\.\d+$`)
	for _, tool := range tools {
		if !exact.Match(tool[2]) {
			t.Errorf("%s is not pinned: %s", tool[1], tool[2])
		}
	}
}

// TestReleaseBuilds builds what .goreleaser.yaml says. For this machine's architecture it does
// so twice, in two directories, the second time with an empty cache: the bytes are the same.
// Nothing of the machine is in them.
func TestReleaseBuilds(t *testing.T) {
	if os.Getenv("FLOW_RELEASE_BUILDS") == "" {
		t.Skip("FLOW_RELEASE_BUILDS is not set: it compiles everything again, which takes minutes")
	}
	b := readRelease(t).Builds[0]
	source, again := copyOfSource(t), copyOfSource(t)
	for _, arch := range b.Goarch {
		t.Run(arch, func(t *testing.T) {
			binary := b.build(t, source, arch)
			data := readBinary(t, binary)
			for _, place := range []string{source, goVariable(t, "GOMODCACHE"), goVariable(t, "GOROOT")} {
				if bytes.Contains(data, []byte(place+"/")) {
					t.Errorf("the binary tells where it was built: %s", place)
				}
			}
			wantStatic(t, binary)
			wantBuildInfo(t, binary, arch)
			if arch != runtime.GOARCH {
				return
			}
			wantVersion(t, binary)
			if !bytes.Equal(data, readBinary(t, b.build(t, again, arch, "GOCACHE="+t.TempDir()))) {
				t.Error("two builds differ")
			}
		})
	}
}

const releaseVersion = "1.2.3"

// build compiles flow in a directory as goreleaser would, and returns the binary's name.
func (b releaseBuild) build(t *testing.T, dir, arch string, env ...string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), b.Binary)
	ldflags := strings.ReplaceAll(strings.Join(b.Ldflags, " "), "{{ .Version }}", releaseVersion)
	args := slices.Concat([]string{"build"}, b.Flags, []string{"-ldflags=" + ldflags, "-o", binary, b.Main})
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = slices.Concat(os.Environ(), []string{"GOFLAGS=", "GOOS=" + b.Goos[0], "GOARCH=" + arch}, b.Env, env)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// copyOfSource is a directory with what a build needs.
func copyOfSource(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(top, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"cmd", "pipeline", "steps", "agents", "state"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(top, name))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func readBinary(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func goVariable(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// wantStatic demands a program that no loader has to complete.
func wantStatic(t *testing.T, binary string) {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Error("the binary is not static")
	}
}

// wantBuildInfo demands that the binary says what it was made of, and nothing of a repository.
func wantBuildInfo(t *testing.T, binary, arch string) {
	t.Helper()
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	for key, want := range map[string]string{"-trimpath": "true", "CGO_ENABLED": "0", "GOARCH": arch, "vcs": "", "vcs.revision": "", "vcs.time": ""} {
		if settings[key] != want {
			t.Errorf("%s is %q, want %q", key, settings[key], want)
		}
	}
	for _, m := range info.Deps {
		if m.Sum == "" || m.Replace != nil {
			t.Errorf("%s %s is not what go.sum vouches for", m.Path, m.Version)
		}
	}
}

func wantVersion(t *testing.T, binary string) {
	t.Helper()
	out, err := exec.Command(binary, "version").Output()
	want := "flow " + releaseVersion + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"
	if string(out) != want || err != nil {
		t.Errorf("flow version says %q, %v; want %q", out, err, want)
	}
}
