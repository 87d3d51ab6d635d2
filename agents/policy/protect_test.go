package policy_test

import (
	"strings"
	"testing"

	"flow/agents"
	"flow/agents/policy"
)

// However a protected file is spelt, and whatever stars allow, it is asked about.
func TestProtectedFiles(t *testing.T) {
	protected := []string{
		".git/hooks/pre-commit", ".git/config", ".git", "sub/.git/config", ".github/workflows/ci.yml", ".github/workflows", ".github", ".gitlab-ci.yml", ".claude/settings.json", ".claude", "a/b/.claude/x",
		".codex/config.toml", ".gemini/settings.json", ".opencode/x", ".mcp.json", "AGENTS.md", "CLAUDE.md", "GEMINI.md", "docs/AGENTS.md", ".vscode/tasks.json", ".envrc", ".flow.yaml",
		"./.claude/x", ".//.claude//x", "a/../.claude/x", "/w/.claude/x", "/w/./a/../.claude/x", ".CLAUDE/x", ".Git/hooks/x", "agents.MD", ".cl\u200baude/x", "\u202e.claude/x",
		"/home/u/.claude/settings.json", "~/.claude/settings.json", "~/.bashrc", "../.git/config", "/home/u/.ssh/authorized_keys",
		"deploy", "deploy/prod.yaml", "/w/deploy/x", "Deploy/x", "a/main.tf", "main.tf", "secret", "secret/x", "/srv/app/x",
	}
	for _, p := range []*policy.Policy{
		policy.New(nil, "allow", "/w", "deploy/**", "**/*.tf", "secret", "/srv/app"),
		policy.New(rules("allow *"), "", "/w", "deploy/", "**/*.tf", "./secret", "/srv/**"),
		policy.New(rules("allow write_file", "allow edit_file(**)", "allow write_file(/**)", "allow write_file(~/**)", "allow edit_file(**/*)", "allow edit_file(.g*/**)"), "allow", "/w", "deploy", "**/*.tf", "secret/**", "/srv"),
	} {
		for _, file := range protected {
			for _, tool := range []agents.Tool{agents.ToolWriteFile, agents.ToolEditFile} {
				call := policy.Call{Tool: tool, Target: file}
				if d := p.Judge(call); d.Effect != policy.Ask || d.Rule != nil || d.Risk != agents.RiskHigh || !strings.Contains(d.Why, "protected") {
					t.Errorf("%s %q: %+v", tool, file, d)
				}
			}
			if d := p.Judge(policy.Call{Tool: agents.ToolReadFile, Target: file}); d.Effect != policy.Allow {
				t.Errorf("to read %q: %+v", file, d)
			}
		}
		for _, file := range []string{"a", ".gitignore", ".gitattributes", "claude/x", "AGENTS.mdx", "my.claude/x", ".github/ISSUE_TEMPLATE.md", "git/hooks/x", "hooks", "x.tf.md", "deployed", "secrets"} {
			if d := p.Judge(policy.Call{Tool: agents.ToolWriteFile, Target: file}); d.Effect != policy.Allow || d.Risk != agents.RiskMedium {
				t.Errorf("%q: %+v", file, d)
			}
		}
	}
}

// Where the workspace lies protects nothing that is in it.
func TestProtectedAround(t *testing.T) {
	p := policy.New(nil, "allow", "/home/u/.claude/worktrees/x")
	if d := p.Judge(file(agents.ToolWriteFile, "main.go")); d.Effect != policy.Allow {
		t.Errorf("%+v", d)
	}
	if d := p.Judge(file(agents.ToolWriteFile, "/home/u/.claude/worktrees/x/.claude/y")); d.Effect != policy.Ask {
		t.Errorf("%+v", d)
	}
}

// A rule allows to write what is protected by its name; deny and ask hold as ever.
func TestProtectedByName(t *testing.T) {
	cases := []struct {
		rule, file string
		want       policy.Effect
	}{
		{"allow write_file(AGENTS.md)", "AGENTS.md", policy.Allow},
		{"allow write_file(**/AGENTS.md)", "docs/AGENTS.md", policy.Allow},
		{"allow edit_file(.claude/commands/**)", ".claude/commands/x.md", policy.Allow},
		{"allow edit_file(.claude/commands/**)", ".claude/settings.json", policy.Deny},
		{"allow edit_file(.github/workflows/*.yml)", ".github/workflows/ci.yml", policy.Allow},
		{"allow edit_file(.github/**)", ".github/workflows/ci.yml", policy.Ask},
		{"allow edit_file(/w/.claude/**)", ".claude/x", policy.Allow},
		{"allow edit_file(*.md)", "AGENTS.md", policy.Ask},
		{"allow edit_file(deploy/**)", "deploy/x", policy.Allow},
		{"deny edit_file(AGENTS.md)", "AGENTS.md", policy.Deny},
		{"ask edit_file(**)", "AGENTS.md", policy.Ask},
	}
	for _, c := range cases {
		d := policy.New(rules(c.rule), "deny", "/w", "deploy").Judge(file(agents.ToolEditFile, c.file))
		if d.Effect != c.want || (d.Rule == nil) != (d.Effect == policy.Deny && !strings.HasPrefix(c.rule, "deny") || strings.Contains(d.Why, "protected")) {
			t.Errorf("%s on %s: %+v", c.rule, c.file, d)
		}
	}
	both := policy.New(rules("allow edit_file(**)", "allow edit_file(AGENTS.md)"), "", "/w")
	if d := both.Judge(file(agents.ToolEditFile, "AGENTS.md")); d.Effect != policy.Allow {
		t.Errorf("beside a wider rule: %+v", d)
	}
}

// What commands show of the files that they write is protected as well.
func TestProtectedFromCommands(t *testing.T) {
	for _, script := range []string{
		"echo x > .git/hooks/pre-commit", "echo x >> AGENTS.md", "echo x > ./.github/workflows/ci.yml", "echo x > .git/hooks/$n", "cd sub && echo x > .envrc", "cat > CLAUDE.md <<E\nx\nE", "echo x &> .mcp.json",
		"tee .claude/settings.json", "echo x | tee -a AGENTS.md", "cp x .git/hooks/pre-commit", "cp x .GIT/hooks/y", "mv AGENTS.md x", "rm -rf .git", "rm .claude/*", "rm *.md", "ln -sf x .envrc", "install -m 755 x .git/hooks/y", "touch .git/hooks/x",
		"chmod +x .git/hooks/x", "sed -i s/a/b/ AGENTS.md", "sed -n 'w AGENTS.md' a", "python3 -c 'open(\".envrc\", \"w\")'", "awk '{print > \"AGENTS.md\"}' a", "dd of=.envrc", "sort -o AGENTS.md a", "uniq a AGENTS.md", "xxd -r a .envrc", "git config core.hooksPath x", "git -C . config alias.x '!y'", "git config --global core.editor x", "git mv a AGENTS.md", "git checkout x -- .github/workflows",
		"timeout 5 rm .envrc", "sudo rm .envrc", "env X=1 rm .envrc", "sh -c 'rm .envrc'", "find .git -name x -delete", "find . -exec cp {} .git/hooks \\;", "xargs rm .envrc", "cd .git && rm x", "cd .git/hooks", "pushd .claude", "rm -- .envrc", "cp --target-directory=.git/hooks x", "tar -C .git/hooks -xf x", "rm deploy/x", "rm \"$HOME\"/.claude/x", "echo x > ~/.bashrc", "truncate -s 0 'AGENTS.md'",
	} {
		for name, p := range map[string]*policy.Policy{
			"default": policy.New(nil, "allow", "/w", "deploy"), "shell": policy.New(rules("allow shell"), "deny", "/w", "deploy"),
			"everything": policy.New(rules("allow *"), "", "/w", "deploy"), "patterns": policy.New(rules("allow shell(*)"), "allow", "/w", "deploy"),
		} {
			if d := p.Judge(shell(script)); d.Effect != policy.Ask && name != "patterns" || d.Effect == policy.Allow {
				t.Errorf("%s: %q is %q: %s", name, script, d.Effect, d.Why)
			}
		}
	}
	p := policy.New(rules("allow shell"), "deny", "/w", "deploy")
	for _, script := range []string{
		"cat AGENTS.md", "ls -la .git .github", "grep -r x .github/workflows", "git status", "git diff AGENTS.md", "git add AGENTS.md .github/workflows/ci.yml", "git commit -m 'AGENTS.md'", "git config --get core.hooksPath", "git log -- .claude", "head .envrc > out", "wc -l < CLAUDE.md",
		"timeout 5 cat AGENTS.md", "find .github -name '*.yml'", "sed -n 1p AGENTS.md", "sort AGENTS.md", "diff AGENTS.md CLAUDE.md", "echo .claude", "rm x", "rm *.o", "cp a b", "go test ./...", "if then", "$x", "cd sub && ls", "test -f AGENTS.md",
	} {
		if d := p.Judge(shell(script)); d.Effect != policy.Allow {
			t.Errorf("%q is %q: %s", script, d.Effect, d.Why)
		}
	}
	named := policy.New(rules("allow shell", "allow shell(rm .envrc)", "allow write_file(AGENTS.md)", "allow shell(git config *)"), "deny", "/w")
	for script, want := range map[string]policy.Effect{"rm .envrc": policy.Allow, "echo x > AGENTS.md": policy.Allow, "sed -i s/a/b/ AGENTS.md": policy.Allow, "git config user.name x": policy.Allow, "rm .envrc .mcp.json": policy.Ask} {
		if d := named.Judge(shell(script)); d.Effect != want {
			t.Errorf("%q is %q: %s", script, d.Effect, d.Why)
		}
	}
}
