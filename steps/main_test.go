package steps

import (
	"os"
	"testing"

	"flow/steps/internal/inmemory"
)

func TestMain(m *testing.M) {
	inmemory.TempFiles()
	os.Exit(m.Run())
}
