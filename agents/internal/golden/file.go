package golden

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// File holds got against the file; with -update it writes it instead.
func File(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(read(t, file)), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); after a look, go test -update:\n%s", file, diff)
	}
}
