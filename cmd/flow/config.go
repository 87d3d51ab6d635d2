package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"flow/pipeline"
)

const (
	projectFile    = ".flow.yaml"
	configVariable = "FLOW_CONFIG" // another file than the user's, or noConfig
	noConfig       = "none"
)

// options tells the language which agents there are, and which configurations hold for the
// pipeline at file: the project's, then the user's. The error has all mistakes in both.
func (a *app) options(file string) (pipeline.Options, []pipeline.Warning, error) {
	o := languageOptions()
	user, warnings, err := a.userConfig()
	if user != nil {
		o.Configs = []*pipeline.Config{user}
	}
	project, more, other := a.projectConfig(file, o)
	if project != nil {
		o.Configs = append([]*pipeline.Config{project}, o.Configs...)
	}
	return o, append(warnings, more...), bothMistakes(err, other)
}

// below are the options for a configuration: what holds beneath it.
func (a *app) below(owner pipeline.Owner) (pipeline.Options, error) {
	o := languageOptions()
	if owner == pipeline.UserConfig {
		return o, nil
	}
	user, _, err := a.userConfig()
	if user != nil {
		o.Configs = []*pipeline.Config{user}
	}
	return o, err
}

// bothMistakes joins the errors of two configurations, so that all mistakes are seen at once.
func bothMistakes(a, b error) error {
	x, isX := errors.AsType[pipeline.Errors](a)
	y, isY := errors.AsType[pipeline.Errors](b)
	if isX && isY {
		return append(x, y...)
	}
	return errors.Join(a, b)
}

// readsConfig reports whether configurations count at all.
func (a *app) readsConfig() bool { return !a.noConfig && a.getenv(configVariable) != noConfig }

// userConfig reads the user's configuration. It is nil if there is none. Nothing is kept: a
// server may live longer than what the file says.
func (a *app) userConfig() (*pipeline.Config, []pipeline.Warning, error) {
	file := a.userFile()
	if file == "" || !a.readsConfig() {
		return nil, nil, nil
	}
	c, warnings, err := pipeline.LoadConfig(file, pipeline.UserConfig, languageOptions())
	switch given := a.getenv(configVariable) != ""; {
	case !errors.Is(err, fs.ErrNotExist):
		return c, warnings, err
	case given:
		return nil, nil, usageError{fmt.Errorf("%s: %w\nhint: give a path, or %s for no configuration", configVariable, err, noConfig)}
	}
	return nil, nil, nil
}

// userFile is where the user's configuration is, "" if there is no place for one.
func (a *app) userFile() string {
	if file := a.getenv(configVariable); file != "" {
		return file
	}
	if dir := a.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) { // the XDG specification: ignore others
		return filepath.Join(dir, "flow", "config.yaml")
	}
	if home := a.getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".config", "flow", "config.yaml")
	}
	return ""
}

// projectConfig reads the configuration of the project that a pipeline belongs to. It is nil
// if there is none. o has the user's, which holds beneath it.
func (a *app) projectConfig(pipelineFile string, o pipeline.Options) (*pipeline.Config, []pipeline.Warning, error) {
	if !a.readsConfig() {
		return nil, nil, nil
	}
	file := findProject(filepath.Dir(pipelineFile))
	if file == "" {
		return nil, nil, nil
	}
	return pipeline.LoadConfig(file, pipeline.ProjectConfig, o)
}

// findProject looks for a project's configuration in the directory of a pipeline and those
// around it, up to the top of its git repository. Without a repository only the directory
// itself counts: what lies above may be anybody's. So may what lies in a directory of another
// user's, or one that everybody can write to, as /tmp is. It returns "" if there is none.
func findProject(dir string) string {
	if file := filepath.Join(dir, projectFile); exists(file) {
		return file
	}
	inner, err := filepath.EvalSymlinks(dir)
	if err == nil {
		inner, err = filepath.Abs(inner)
	}
	if err != nil {
		return "" // there is no pipeline either, which is reported where it is read
	}
	found := ""
	for up := inner; sameOwner(inner, up); up = filepath.Dir(up) {
		if file := filepath.Join(up, projectFile); found == "" && exists(file) {
			found = file
		}
		if exists(filepath.Join(up, ".git")) {
			return shortPath(found, dir)
		}
		if up == filepath.Dir(up) {
			break
		}
	}
	return ""
}

// sameOwner reports whether up belongs to the owner of inner, a directory in it, alone.
func sameOwner(inner, up string) bool {
	a, err := os.Stat(inner)
	b, other := os.Stat(up)
	if err != nil || other != nil {
		return false
	}
	x, isX := a.Sys().(*syscall.Stat_t)
	y, isY := b.Sys().(*syscall.Stat_t)
	return inner == up || isX && isY && x.Uid == y.Uid && b.Mode().Perm()&0o002 == 0
}

// shortPath is a path as messages have it: relative if the pipeline's directory is.
func shortPath(file, dir string) string {
	wd, err := os.Getwd()
	if err == nil {
		wd, err = filepath.EvalSymlinks(wd)
	}
	if file == "" || err != nil || filepath.IsAbs(dir) {
		return file
	}
	if rel, err := filepath.Rel(wd, file); err == nil {
		return rel
	}
	return file
}

// exists reports whether there is anything at path, be it a link that leads nowhere.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// program returns the value of a key about flow itself: of the command line (given), its
// variable, the user's configuration, or else given. origin says which, "" for the last.
func (a *app) program(key, given string) (value, origin string, err error) {
	if origin := a.origins[key]; origin != "" {
		return given, origin, nil
	}
	if value := a.getenv(variableOf(key)); value != "" {
		return value, variableOf(key), nil
	}
	c, _, err := a.userConfig()
	if c == nil || err != nil {
		return given, "", err
	}
	if value, origin = c.Program(key); origin == "" {
		return given, "", nil
	}
	return value, origin, nil
}

// ownerOf says whose configuration a file is by its name, "" for a pipeline.
func (a *app) ownerOf(file string) pipeline.Owner {
	if filepath.Base(file) == projectFile {
		return pipeline.ProjectConfig
	}
	abs, err := filepath.Abs(file)
	user, other := filepath.Abs(a.userFile())
	if err == nil && other == nil && abs == user {
		return pipeline.UserConfig
	}
	return ""
}
