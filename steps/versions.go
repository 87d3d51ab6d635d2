package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"flow/agents/proc"
	"flow/state/disk"
)

// versions asks agents for their versions, each once.
type versions struct {
	mu    sync.Mutex
	known map[string]string // by command line
}

// of is what the agent of the attempt prints as its version.
func (v *versions) of(ctx context.Context, a *attempt) (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	profile := a.profile()
	line := a.x.commandLine(profile.Use, profile.Command)
	if known, ok := v.known[fmt.Sprintf("%q", line)]; ok {
		return known, nil
	}
	file := a.x.file("version-"+profile.Name, "stdout")
	if err := disk.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	res, err := a.x.Launcher.Run(ctx, proc.Spec{
		Label: "version-" + profile.Name, Path: line[0], Args: append(line[1:], a.adapter().Info().VersionArgs...),
		Env: a.env, Dir: a.dir, Settled: a.pinned, Stdout: file,
	}, proc.Sink{})
	if err = errors.Join(err, res.Err); err != nil {
		return "", err
	}
	text, _, err := readHead(file, 1<<10)
	if err = errors.Join(err, a.x.sealProcess(ctx, "version-"+profile.Name)); err == nil {
		v.known[fmt.Sprintf("%q", line)] = text
	}
	return text, err
}
