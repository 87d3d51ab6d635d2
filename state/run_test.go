package state

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"flow/state/disk"
)

func TestCreateAndReadBack(t *testing.T) {
	s := openStore(t)
	created := time.Date(2026, 11, 21, 13, 0, 0, 0, time.UTC)
	h := Header{ID: "r1", Name: "demo", File: "demo.yaml", Workspace: "/w", FlowVersion: "1.2.3", Created: created, Steps: 3}
	files := map[string][]byte{"pipeline.yaml": []byte("steps: []\n"), "plan.json": []byte("{}")}
	r, err := s.Create(h, files)
	must(t, err)
	must(t, r.Append(t.Context(), "fact", json.RawMessage("{\n\"a\": \"<b>\"}"), false))
	must(t, r.AppendEvents([]byte("{\"e\":1}\n{\"e\":2}\n")))
	must(t, r.Finish("succeeded"))
	must(t, r.Close())

	v, err := s.Read("r1")
	must(t, err)
	h.Format = Format
	if v.Header() != h {
		t.Errorf("header %+v", v.Header())
	}
	if got := typesOf(v.Records()); got != "created fact finished" {
		t.Errorf("records: %s", got)
	}
	if got := string(v.Records()[1].Data); got != `{"a":"<b>"}` {
		t.Errorf("data: %s", got)
	}
	for name, want := range files {
		if got, err := v.File(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if got := eventsOf(t, v); !slices.Equal(got, []string{`{"e":1}`, `{"e":2}`}) {
		t.Errorf("events: %q", got)
	}
	sum := v.Summary()
	if sum.Status != "succeeded" || sum.Ended.IsZero() || sum.Steps != 3 {
		t.Errorf("summary: %+v", sum)
	}
}

func typesOf(recs []Record) string {
	var types []string
	for i, r := range recs {
		if r.Seq != int64(i+1) {
			return fmt.Sprintf("record %d has seq %d", i+1, r.Seq)
		}
		types = append(types, r.Type)
	}
	return strings.Join(types, " ")
}

func eventsOf(t *testing.T, v *View) []string {
	t.Helper()
	var lines []string
	must(t, v.Events(func(line []byte) error {
		lines = append(lines, string(line))
		return nil
	}))
	return lines
}

func TestCreateRefuses(t *testing.T) {
	s := openStore(t)
	r := createRun(t, s, "taken")
	closeRun(t, r)
	before := mustRead(t, filepath.Join(r.Dir(), journalFile))
	if _, err := s.Create(Header{ID: "taken"}, nil); !errors.Is(err, ErrExists) {
		t.Errorf("%v", err)
	}
	if !bytes.Equal(before, mustRead(t, filepath.Join(r.Dir(), journalFile))) {
		t.Error("the existing run was changed")
	}
	for _, id := range []string{"", "../x", "last"} {
		if _, err := s.Create(Header{ID: id}, nil); err == nil {
			t.Errorf("id %q was accepted", id)
		}
	}
	for _, name := range []string{"", "../x", "a/b", "lock", "run.json", "journal.jsonl", "attempts"} {
		if _, err := s.Create(Header{ID: "x"}, map[string][]byte{name: nil}); err == nil {
			t.Errorf("file %q was accepted", name)
		}
	}
	if left := withPrefix(s.path(tempDir), ""); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

func TestConcurrentCreateOfOneID(t *testing.T) {
	s := openStore(t)
	var mu sync.Mutex
	var won []*Run
	var g errgroup.Group
	for i := range 20 {
		g.Go(func() error {
			r, err := s.Create(Header{ID: "same", Name: fmt.Sprint(i)}, nil)
			if errors.Is(err, ErrExists) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			won = append(won, r)
			return err
		})
	}
	must(t, g.Wait())
	if len(won) != 1 {
		t.Fatalf("%d were created", len(won))
	}
	list, err := s.Runs(0)
	if err != nil || len(list) != 1 || list[0].Name != won[0].Header().Name || list[0].Status != StatusRunning {
		t.Errorf("%+v, %v", list, err)
	}
	closeRun(t, won[0])
}

func TestConcurrentAppends(t *testing.T) {
	s := openStore(t)
	r := createRun(t, s, "a")
	var g errgroup.Group
	for w := range 8 {
		g.Go(func() error {
			for i := range 50 {
				if err := r.Append(t.Context(), "fact", [2]int{w, i}, i%2 == 0); err != nil {
					return err
				}
				if err := r.AppendEvents(fmt.Appendf(nil, "[%d,%d]\n", w, i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	must(t, g.Wait())
	closeRun(t, r)
	v, err := s.Read("a")
	must(t, err)
	next := map[int]int{}
	for _, rec := range v.Records()[1:] {
		var wi [2]int
		must(t, json.Unmarshal(rec.Data, &wi))
		if wi[1] != next[wi[0]] {
			t.Fatalf("writer %d: %d comes after %d", wi[0], wi[1], next[wi[0]]-1)
		}
		next[wi[0]]++
	}
	if len(v.Records()) != 401 || len(eventsOf(t, v)) != 400 {
		t.Errorf("%d records, %d events", len(v.Records()), len(eventsOf(t, v)))
	}
}

func TestAppendRefuses(t *testing.T) {
	r := createRun(t, openStore(t), "a")
	for _, typ := range []string{"", "created", "finished", "a\"b", "a b"} {
		if r.Append(t.Context(), typ, 1, false) == nil {
			t.Errorf("type %q was accepted", typ)
		}
	}
	if r.Append(t.Context(), "x", make(chan int), false) == nil {
		t.Error("a channel was accepted")
	}
	if r.AppendEvents([]byte("no newline")) == nil {
		t.Error("half a line was accepted")
	}
	for _, status := range []string{"", "running", "interrupted", "a\"b"} {
		if r.Finish(status) == nil {
			t.Errorf("status %q was accepted", status)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Append(ctx, "fact", 1, false); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	closeRun(t, r)
	closeRun(t, r)
	for _, err := range []error{r.Append(t.Context(), "fact", 1, true), r.AppendEvents([]byte("\n")), r.Finish("ok")} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
	if v, err := r.store.Read("a"); err != nil || typesOf(v.Records()) != "created" {
		t.Errorf("%v", err)
	}
}

// While one fdatasync runs, all who come share the next.
func TestGroupCommit(t *testing.T) {
	s := openStore(t)
	synctest.Test(t, func(t *testing.T) {
		r, err := s.Create(Header{ID: "a"}, nil)
		must(t, err)
		release, syncs := make(chan bool), 0
		r.journal.fdatasync = func(*disk.File) error {
			syncs++
			<-release
			return nil
		}
		var g errgroup.Group
		for i := range 64 {
			g.Go(func() error { return r.Append(t.Context(), "fact", i, true) })
		}
		synctest.Wait()
		release <- true
		synctest.Wait()
		release <- true
		must(t, g.Wait())
		if syncs != 2 {
			t.Errorf("%d syncs", syncs)
		}
		must(t, r.Close())
	})
}

func TestAppendStopsWaitingWithItsContext(t *testing.T) {
	s := openStore(t)
	synctest.Test(t, func(t *testing.T) {
		r, err := s.Create(Header{ID: "a"}, nil)
		must(t, err)
		release := make(chan bool)
		r.journal.fdatasync = func(*disk.File) error { <-release; return nil }
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var g errgroup.Group
		for range 2 { // one waits for the disk, one for its turn
			g.Go(func() error { return r.Append(ctx, "fact", 1, true) })
		}
		if err := g.Wait(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		close(release)
		must(t, r.Close())
	})
	if v, err := s.Read("a"); err != nil || len(v.Records()) != 3 {
		t.Errorf("%v", err)
	}
}

func TestFailedSyncPoisonsTheJournal(t *testing.T) {
	s := openStore(t)
	r := createRun(t, s, "a")
	appendFacts(t, r, 2, true)
	good := len(mustRead(t, filepath.Join(r.Dir(), journalFile)))
	fails := true
	r.journal.fdatasync = func(*disk.File) error {
		if fails {
			return syscall.EIO
		}
		return nil
	}
	err := r.Append(t.Context(), "fact", "lost", true)
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("%v", err)
	}
	fails = false
	for _, sync := range []bool{true, false} {
		if again := r.Append(t.Context(), "fact", "x", sync); !errors.Is(again, e) {
			t.Errorf("later: %v", again)
		}
	}
	if size := len(mustRead(t, filepath.Join(r.Dir(), journalFile))); size != good {
		t.Errorf("%d bytes, want %d", size, good)
	}
	if r.Finish("ok") == nil {
		t.Error("a poisoned run was finished")
	}
	_ = r.Close()
	if r = openRun(t, s, "a"); len(r.Records()) != 3 {
		t.Errorf("%d records", len(r.Records()))
	}
}

func TestFailedEventSyncIsNoAcknowledgement(t *testing.T) {
	r := createRun(t, openStore(t), "a")
	must(t, r.AppendEvents([]byte("{}\n")))
	r.journal.fdatasync = func(f *disk.File) error {
		if f == r.journal.events.log.f {
			return syscall.EIO
		}
		return nil
	}
	if err := r.Append(t.Context(), "fact", 1, true); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v", err)
	}
}

func TestAppendFileOnAFullDevice(t *testing.T) {
	f, err := disk.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	a := appendFile{f: f, size: 10}
	first := a.write([]byte("x\n"))
	if !errors.Is(first, syscall.ENOSPC) || !errors.Is(a.write([]byte("y\n")), first) || a.size != 10 {
		t.Errorf("%v", first)
	}
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, "size=1m")
	s := openStoreIn(t, filepath.Join(dir, "state"))
	r := createRun(t, s, "a")
	acked := 1
	var err error
	for text := strings.Repeat("x", 3000); err == nil; acked++ {
		err = r.Append(t.Context(), "fact", text, true)
	}
	acked--
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(e.Hint, "resume") {
		t.Fatalf("%v", err)
	}
	if err := r.Append(t.Context(), "fact", 1, false); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("later: %v", err)
	}
	if _, err := r.PutBlob(make([]byte, 100_000)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("blob: %v", err)
	}
	if _, err := s.Create(Header{ID: "b"}, map[string][]byte{"plan.json": make([]byte, 100_000)}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("create: %v", err)
	}
	_ = r.Close()
	must(t, unix.Mount("", dir, "", unix.MS_REMOUNT, "size=2m"))
	r = openRun(t, s, "a")
	if len(r.Records()) != acked {
		t.Errorf("%d records, %d acknowledged", len(r.Records()), acked)
	}
	appendFacts(t, r, 3, true)
	must(t, r.Finish("succeeded"))
	list, err := s.Runs(0)
	if err != nil || len(list) != 1 || list[0].Status != "succeeded" {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestEventsOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	mount(t, dir, "size=1m")
	r := createRun(t, openStoreIn(t, filepath.Join(dir, "state")), "a")
	line := append(bytes.Repeat([]byte("e"), 2999), '\n')
	n := 0
	for r.AppendEvents(line) == nil {
		n++
	}
	if err := r.AppendEvents([]byte("{}\n")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("later: %v", err)
	}
	if got := mustRead(t, filepath.Join(r.Dir(), eventsFile)); len(got) != n*3000 {
		t.Errorf("%d bytes of %d lines", len(got), n)
	}
}

func TestOpenRunCutsTornTails(t *testing.T) {
	s := openStore(t)
	r := createRun(t, s, "a")
	appendFacts(t, r, 2, true)
	must(t, r.AppendEvents([]byte("{\"e\":1}\n")))
	closeRun(t, r)
	journal, events := filepath.Join(r.Dir(), journalFile), filepath.Join(r.Dir(), eventsFile)
	whole := mustRead(t, journal)
	last := len(whole) - bytes.LastIndexByte(whole[:len(whole)-1], '\n') - 1
	mustWrite(t, journal, whole[:len(whole)-last/2])
	mustWrite(t, events, []byte("{\"e\":1}\n{\"e\":"))
	temp := filepath.Join(r.Dir(), blobsDir, blobTemp+"x")
	mustWrite(t, temp, nil)

	v, err := s.Read("a")
	must(t, err)
	if len(v.Records()) != 2 || len(eventsOf(t, v)) != 1 {
		t.Errorf("read: %d records, events %q", len(v.Records()), eventsOf(t, v))
	}
	if len(mustRead(t, journal)) != len(whole)-last/2 {
		t.Error("a reader changed the journal")
	}
	r = openRun(t, s, "a")
	appendFacts(t, r, 1, true)
	must(t, r.AppendEvents([]byte("{\"e\":2}\n")))
	closeRun(t, r)
	v, err = s.Read("a")
	must(t, err)
	if got := typesOf(v.Records()); got != "created fact fact" {
		t.Error(got)
	}
	if got := eventsOf(t, v); !slices.Equal(got, []string{`{"e":1}`, `{"e":2}`}) {
		t.Errorf("events: %q", got)
	}
	if exists(temp) {
		t.Error("a temporary file is left")
	}
}

func TestDamagedRunsAreNotTouched(t *testing.T) {
	tests := []struct {
		name, file string
		damage     func([]byte) []byte
	}{
		{"garbage in the journal", journalFile, func(b []byte) []byte { return slices.Concat(b[:200], []byte("garbage\n"), b[200:]) }},
		{"zeros in the journal", journalFile, func(b []byte) []byte { clear(b[150:250]); return b }},
		{"a flipped bit", journalFile, func(b []byte) []byte { b[180] ^= 4; return b }},
		{"0-byte journal", journalFile, func([]byte) []byte { return nil }},
		{"no journal", journalFile, nil},
		{"0-byte header", headerFile, func([]byte) []byte { return nil }},
		{"cut header", headerFile, func(b []byte) []byte { return b[:len(b)/2] }},
		{"garbage header", headerFile, func([]byte) []byte { return []byte("\x00\xff garbage") }},
		{"no header", headerFile, nil},
		{"the journal of another run", journalFile, func([]byte) []byte {
			return seal(`{"seq":1,"time":"2026-01-01T00:00:00Z","type":"created","data":{"id":"b","format":1}`)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := openStore(t)
			r := createRun(t, s, "a")
			appendFacts(t, r, 5, true)
			closeRun(t, r)
			name := filepath.Join(r.Dir(), tt.file)
			if tt.damage == nil {
				must(t, os.Remove(name))
			} else {
				mustWrite(t, name, tt.damage(mustRead(t, name)))
			}
			before := snapshot(t, r.Dir())
			_, readErr := s.Read("a")
			_, openErr := s.OpenRun(t.Context(), "a")
			for _, err := range []error{readErr, openErr} {
				var e *Error
				var bad *CorruptError
				if !errors.As(err, &e) || !errors.As(err, &bad) || e.Path != name || e.Hint == "" {
					t.Errorf("%v", err)
				}
			}
			if after := snapshot(t, r.Dir()); after != before {
				t.Errorf("changed:\n%s\n%s", before, after)
			}
		})
	}
}

// snapshot describes every file in dir and its contents.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		must(t, err)
		if !d.IsDir() {
			fmt.Fprintf(&b, "%s %s\n", path, blobRef(mustRead(t, path)))
		}
		return nil
	}))
	return b.String()
}

func TestNewerFormat(t *testing.T) {
	s := openStore(t)
	r := createRun(t, s, "a")
	closeRun(t, r)
	name := filepath.Join(r.Dir(), headerFile)
	for _, header := range []string{
		`{"format":9,"id":"a","flowVersion":"9.1"}`,
		`{"format":9,"flowVersion":"9.1","name":{"en":"fields need not keep their types"}}`,
	} {
		mustWrite(t, name, []byte(header))
		_, readErr := s.Read("a")
		_, openErr := s.OpenRun(t.Context(), "a")
		for _, err := range []error{readErr, openErr} {
			if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "written by flow ≥ 9.1 (format 9 > 1)") {
				t.Errorf("%v", err)
			}
		}
	}
}

func TestRenamedDirectory(t *testing.T) {
	s := openStore(t)
	r := createRun(t, s, "a")
	closeRun(t, r)
	must(t, os.Rename(r.Dir(), s.path(runsDir, "b")))
	if _, err := s.Read("b"); err == nil || !strings.Contains(err.Error(), "run a") {
		t.Errorf("%v", err)
	}
	if _, err := s.OpenRun(t.Context(), "b"); err == nil {
		t.Error("opened under another name")
	}
	if v, err := ReadRun(s.path(runsDir, "b")); err != nil || v.Header().ID != "a" {
		t.Errorf("a copy: %v", err)
	}
}

func TestLinksAndPipesAreRefused(t *testing.T) {
	s := openStore(t)
	r := createRun(t, s, "a")
	closeRun(t, r)
	events, secret := filepath.Join(r.Dir(), eventsFile), filepath.Join(t.TempDir(), "secret")
	mustWrite(t, secret, []byte("secret\n"))
	v, err := s.Read("a")
	must(t, err)
	for _, plant := range []func() error{
		func() error { return os.Symlink(secret, events) },
		func() error { return unix.Mkfifo(events, 0o600) },
	} {
		must(t, os.Remove(events))
		must(t, plant())
		if err := v.Events(func([]byte) error { return nil }); err == nil {
			t.Error("events were read")
		}
		if _, err := s.OpenRun(t.Context(), "a"); err == nil {
			t.Error("the run was opened")
		}
	}
	must(t, os.Symlink(secret, filepath.Join(r.Dir(), "link")))
	for _, name := range []string{"link", "../../index.jsonl", secret, "events.jsonl", "attempts"} {
		if data, err := v.File(name); err == nil {
			t.Errorf("%s: %q", name, data)
		}
	}
	if _, err := v.File("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestAttemptPath(t *testing.T) {
	v := &View{}
	tests := [][2]string{
		{"fix.edit.1", "attempts/fix.edit.1.out"},
		{"../../x", "attempts/=2e.=2f..=2fx.out"},
		{"a/b=c é\n", "attempts/a=2fb=3dc=20=c3=a9=0a.out"},
		{"", "attempts/.out"},
		{strings.Repeat("y", 201), "attempts/" + strings.Repeat("y", 150) + "==9646bc459c4ca614.out"},
	}
	for _, tt := range tests {
		if got := v.AttemptPath(tt[0], "out"); got != tt[1] {
			t.Errorf("%q: %q, want %q", tt[0], got, tt[1])
		}
	}
}

func TestBlobs(t *testing.T) {
	s := openStore(t)
	r := createRun(t, s, "a")
	ref, err := r.PutBlob([]byte("abc"))
	must(t, err)
	const want = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if ref != want {
		t.Errorf("%q", ref)
	}
	var g errgroup.Group
	for range 8 {
		g.Go(func() error {
			again, err := r.PutBlob([]byte("abc"))
			if err == nil && again != ref {
				err = errors.New(again)
			}
			return err
		})
	}
	must(t, g.Wait())
	if got, err := r.Blob(ref); err != nil || string(got) != "abc" {
		t.Errorf("%q, %v", got, err)
	}
	if empty, err := r.PutBlob(nil); err != nil {
		t.Error(err)
	} else if got, err := r.Blob(empty); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
	name := filepath.Join(r.Dir(), "blobs/sha256/ba", want[len("sha256:ba"):])
	mustWrite(t, name, []byte("abd"))
	var bad *CorruptError
	if _, err := r.Blob(ref); !errors.As(err, &bad) {
		t.Errorf("damaged: %v", err)
	}
	mustWrite(t, name, []byte("ab"))
	if _, err := r.PutBlob([]byte("abc")); err != nil {
		t.Error(err)
	} else if got, err := r.Blob(ref); err != nil || string(got) != "abc" {
		t.Errorf("a cut blob was not replaced: %q, %v", got, err)
	}
	for _, ref := range []string{"", "sha256:", "sha256:../x", "md5:00", strings.ToUpper(want), want + "0"} {
		if _, err := r.Blob(ref); err == nil {
			t.Errorf("%q was accepted", ref)
		}
	}
	if left := withPrefix(filepath.Join(r.Dir(), blobsDir), blobTemp); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestBlobStreams(t *testing.T) {
	r := createRun(t, openStore(t), "a")
	want, err := r.PutBlob([]byte("abc"))
	must(t, err)
	ref, size, err := r.PutBlobFrom(strings.NewReader("abc"))
	if must(t, err); ref != want || size != 3 {
		t.Errorf("%q of %d bytes, want %q", ref, size, want)
	}
	var got strings.Builder
	if err := r.CopyBlob(&got, ref); err != nil || got.String() != "abc" {
		t.Errorf("%q, %v", got.String(), err)
	}
	if _, _, err := r.PutBlobFrom(iotest.ErrReader(errors.New("gone"))); err == nil {
		t.Error("what could not be read was stored")
	}
	mustWrite(t, filepath.Join(r.Dir(), "blobs/sha256/ba", ref[len("sha256:ba"):]), []byte("abd"))
	var bad *CorruptError
	if err := r.CopyBlob(&got, ref); !errors.As(err, &bad) {
		t.Errorf("damaged: %v", err)
	}
	if err := r.CopyBlob(&got, "../x"); err == nil {
		t.Error("a path passes for a reference")
	}
	if left := withPrefix(filepath.Join(r.Dir(), blobsDir), blobTemp); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
