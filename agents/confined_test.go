package agents

import "testing"

func TestUnspoken(t *testing.T) {
	for _, tt := range []struct {
		rule string
		want Enforcement
	}{
		{"/etc/**", Sandboxed},
		{"/etc/passwd", Sandboxed},
		{"/repo-other/**", Sandboxed},
		{"/repo/secret/**", Detected},
		{"/repo", Detected},
		{"/rep*/**", Detected}, // matches /repo
		{"/**", Detected},
		{"/docs/a", Detected},
		{"secret/**", Detected},
		{"~/.ssh/**", Detected},
		{"", Detected},
	} {
		r := Request{Dir: "/repo", AddDirs: []string{"/docs"}, Confined: true}
		rule := Rule{Effect: "deny", Tool: "write_file", Pattern: tt.rule}
		if got, _ := r.Unspoken(&rule, "no words"); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.rule, got, tt.want)
		}
		r.Confined = false
		if got, why := r.Unspoken(&rule, "no words"); got != Detected || why != "no words" {
			t.Errorf("%q without a sandbox: %s", tt.rule, got)
		}
		read := Rule{Effect: "deny", Tool: "read_file", Pattern: tt.rule}
		if got, _ := r.Unspoken(&read, ""); got != Detected {
			t.Errorf("reading %q: %s", tt.rule, got)
		}
	}
}
