package pipeline

import (
	"maps"
	"slices"
	"strings"
)

// lint warns of what is allowed and most likely not meant.
func (l *loader) lint() {
	for _, kind := range []string{"inputs", "secrets", "agents"} {
		for _, name := range slices.Sorted(maps.Keys(l.places[kind])) {
			if !l.used[kind][name] {
				l.warn(l.places[kind][name], "remove it", "%s `%s` is not used", strings.TrimSuffix(kind, "s"), name)
			}
		}
	}
	l.lintSteps(l.root)
	l.lintNever(l.root)
	l.lintPermissions()
	l.lintWriters(l.root)
	l.lintLiterals()
}

func (l *loader) lintSteps(sc *scope) {
	for _, nd := range sc.steps {
		st := nd.step
		if st.Kind == KindPrompt && !nd.timed {
			l.warn(st.Pos, "add timeout: 30m", "agent step `%s` has no `timeout`", st.ID)
		}
		if st.Kind == KindAsk && !nd.timed {
			l.warn(st.Pos, "add timeout: 12h", "the question of step `%s` waits for ever: it has no `timeout`", st.ID)
		}
		if st.AllowRaw && nd.raws == 0 {
			l.warn(nd.keys["allow-raw"], "remove it", "step `%s` allows `raw` and does not use it", st.ID)
		}
		if nd.inner != nil {
			l.lintSteps(nd.inner)
		}
	}
}

const minSecret = 20 // letters behind the prefix of a key

// lintLiterals warns of keys of well-known services that stand in the file.
func (l *loader) lintLiterals() {
	src := string(l.src)
	for _, prefix := range []string{"sk-", "ghp_", "gho_", "github_pat_", "AIza", "AKIA", "xoxb-", "glpat-"} {
		for at := 0; ; {
			i := strings.Index(src[at:], prefix)
			if i < 0 {
				break
			}
			at += i + len(prefix)
			if keyLen(src[at:]) >= minSecret {
				hint := "declare it in `secrets` and pass it by `env`"
				if l.config != nil {
					hint = "export it before flow is started: what stands here is kept with every run"
				}
				l.warn(l.posAt(at-len(prefix)), hint, "this looks like a key (%s…)", prefix)
			}
		}
	}
}

func keyLen(s string) int {
	return len(s) - len(strings.TrimLeft(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"))
}
