package failpoint

import (
	"slices"
	"strings"
)

// Names returns the names of flow's points, in order. The tests of cmd/flow hold them to
// the source, a package a line, and write them: go test ./cmd/flow -run Failpoints -update
func Names() []string {
	names := strings.Fields(`
		exits-read exits-written guardian-bereaved guardian-closed guardian-closing guardian-spawned output-create output-open output-read process-fork process-reported stderr-hole stderr-trim
		report-printed run-concluded run-ready
		blob-renamed blob-written events-synced index-rebuilt index-written journal-synced journal-written lock-cleared lock-signed lock-taken run-copied run-filled run-finished run-moved-away run-renamed run-reserved tails-cut
		disk disk-change disk-chmod disk-create disk-grow disk-link disk-mkdir disk-open disk-read disk-readdir disk-remove disk-rename disk-stat disk-sync disk-truncate disk-write
		answer-linked answer-taken artifacts-stored attempt-masked cache-filled cache-stored changes-kept fact-made fact-stored launch-stored process-done process-starts result-stored scripts-done session-seen session-stored workspace-made
		branch-moved commit-made merge-files-written merge-index-written merge-progress record-renamed workspace-filled workspace-recorded
	`)
	slices.Sort(names)
	return names
}
