package workspace

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

const minVersion = "2.30"

// checkVersion refuses a git that is too old, once.
func (g *Git) checkVersion(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known {
		return nil
	}
	args := []string{"version"}
	out, err := g.run(ctx, "/", call{args: args}) // which is always there
	if err != nil {
		return err
	}
	if out.Code != 0 {
		return failure(args, out)
	}
	version := strings.TrimPrefix(strings.TrimSpace(string(out.Stdout)), "git version ")
	if older(version, minVersion) {
		return &Error{Msg: fmt.Sprintf("git %s is too old", version), Hint: "isolated steps need git " + minVersion + " or newer"}
	}
	g.known = true
	return nil
}

// older compares the first two numbers of two versions. What is no number is new.
func older(version, than string) bool {
	v, t := strings.Split(version, "."), strings.Split(than, ".")
	for i := range 2 {
		if i >= len(v) {
			return false
		}
		x, err := strconv.Atoi(v[i])
		y, _ := strconv.Atoi(t[i])
		if err != nil || x != y {
			return err == nil && x < y
		}
	}
	return false
}
