package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flow/state/disk"
)

// What a flow that the tests start reads of its environment: where to write a trace of its
// file operations, the directory to copy at every so manyth sync, beginning with which.
const (
	traceVariable = "FLOW_TEST_TRACE"
	traceEvery    = "FLOW_TEST_TRACE_EVERY"
	traceFirst    = "FLOW_TEST_TRACE_FIRST"
)

// traceDisk writes a trace if this process was started for that. After the chosen syncs it
// copies all that is there, before anything else is written: what a power failure at that
// moment would find at best.
func traceDisk() {
	dir := os.Getenv(traceVariable)
	if dir == "" {
		return
	}
	trace, err := os.OpenFile(dir+"-trace", os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	every, everyErr := strconv.Atoi(os.Getenv(traceEvery))
	first, firstErr := strconv.Atoi(os.Getenv(traceFirst))
	if err := errors.Join(err, everyErr, firstErr); err != nil {
		panic(err)
	}
	enc, syncs, lines := json.NewEncoder(trace), 0, 0
	disk.Observe(func(op disk.Op) {
		if op.Kind == disk.Reading || op.Kind == disk.Looking || op.Kind == disk.Listing {
			return
		}
		if err := enc.Encode(op); err != nil {
			panic(err)
		}
		lines++
		if op.Kind != disk.Syncing {
			return
		}
		if syncs++; syncs%every == first {
			// What vanishes meanwhile makes cp fail, and is none of the trace's files.
			_ = exec.Command("cp", "-a", dir, fmt.Sprintf("%s-at-%d", dir, lines)).Run()
		}
	})
}

// TestPowerLoss cuts the power at many moments of a run: what was synced is there, and what
// was not is there, is not, or is there in part, and so are new names in directories that
// were not synced. A resume then comes to what an undisturbed run comes to, with all records
// that were durable.
//
// The short form cuts at some moments, once each; -long at every sync, five times.
func TestPowerLoss(t *testing.T) {
	t.Parallel()
	const runs = 4
	every, times := 16, 1
	if *long {
		every, times = runs, 5
	}
	seed := uint64(time.Now().UnixNano())
	for i := range runs {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			t.Logf("seed %d", seed)
			p := tracedRun(t, fmt.Sprintf("power%d", i), every, i*every/runs)
			want := p.essence(t)
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			moments := p.moments(t)
			for _, at := range moments {
				for range times {
					p.cut(t, at, random, want)
				}
			}
			t.Logf("the power failed %d times at each of %d moments", times, len(moments))
		})
	}
}

// A powerRun is a run whose file operations were recorded.
type powerRun struct {
	diskRun
	base  string // of all that the run has: workspace, home, state
	trace []disk.Op
}

func tracedRun(t *testing.T, id string, every, first int) powerRun {
	t.Helper()
	p := powerRun{diskRun: newDiskRun(t, id)}
	p.base = filepath.Dir(p.dir)
	calm := p.env
	p.env = append(slices.Clone(calm), traceVariable+"="+p.base, fmt.Sprintf("%s=%d", traceEvery, every), fmt.Sprintf("%s=%d", traceFirst, first))
	p.finish(t, p.begin()...)
	p.env = calm
	file, err := os.Open(p.base + "-trace")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for d := json.NewDecoder(bufio.NewReader(file)); d.More(); {
		var op disk.Op
		if err := d.Decode(&op); err != nil {
			t.Fatal(err)
		}
		p.trace = append(p.trace, op)
	}
	return p
}

// moments are the lengths of the trace at which there is a copy.
func (p powerRun) moments(t *testing.T) (all []int) {
	t.Helper()
	copies, err := filepath.Glob(p.base + "-at-*")
	if err != nil || len(copies) == 0 {
		t.Fatalf("no copy was made: %v", err)
	}
	for _, dir := range copies {
		n, err := strconv.Atoi(dir[strings.LastIndex(dir, "-")+1:])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// essence is what a run must come to even if the power failed: a turn of an agent that was
// not recorded is made again, and may say something else.
func (p powerRun) essence(t *testing.T) map[string]any {
	t.Helper()
	var report struct {
		Status  string
		Outputs map[string]any
		Steps   map[string]struct{ Status string }
	}
	p.show(t, &report)
	return map[string]any{"status": report.Status, "outputs": report.Outputs, "steps": report.Steps}
}

// cut makes the disk what it may be after a power failure at that moment, and goes on.
func (p powerRun) cut(t *testing.T, at int, random *rand.Rand, want map[string]any) {
	t.Helper()
	if err := os.RemoveAll(p.base); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", fmt.Sprintf("%s-at-%d", p.base, at), p.base).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	m := newDiskModel()
	for _, op := range p.trace[:at] {
		m.apply(op)
	}
	durable, created := m.durableJournal(p.runDir())
	lost := m.lose(t, random)
	p.loseOutput(t, random, durable)
	if created && !p.recorded() {
		t.Fatalf("after %d operations the run was durable, and is gone; lost: %s", at, lost)
	}
	args := p.goOn()
	out, err := p.command(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("after %d operations, flow %s: %v\n%s\nlost: %s", at, args, err, out, lost)
	}
	sees(t, "03-power-loss", string(out))
	if got := readJournal(t, p.runDir()); created && !bytes.HasPrefix(got, durable) {
		t.Errorf("after %d operations, durable records are lost: of\n%s\nthere is\n%s\nlost: %s", at, durable, got, lost)
	}
	if diff := cmp.Diff(want, p.essence(t)); diff != "" {
		t.Errorf("after %d operations (-want +got):\n%s\nlost: %s", at, diff, lost)
	}
	p.invariants(t)
	if t.Failed() {
		t.Fatalf("after %d operations; lost: %s", at, lost)
	}
}

// loseOutput cuts, empties, overwrites or removes what agents that had not finished wrote
// themselves: nobody has synced it. What finished ones wrote was synced by flow.
func (p powerRun) loseOutput(t *testing.T, random *rand.Rand, journal []byte) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(p.runDir(), "attempts", "*.std*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		step, _, _ := strings.Cut(filepath.Base(file), ".1.1.std")
		if bytes.Contains(journal, []byte(`"kind":"succeeded","path":"`+step+`"`)) {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		switch keep := random.IntN(len(data) + 1); random.IntN(4) {
		case 0:
			err = os.Remove(file)
		case 1:
			err = os.WriteFile(file, data[:keep], 0o600)
		case 2:
			clear(data[keep:])
			err = os.WriteFile(file, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A diskModel knows what of a trace a power failure may undo.
type diskModel struct {
	files   map[uint64]*modelFile
	names   map[string]uint64
	pending []disk.Op // that made or moved names in directories which were not synced since
}

// A modelFile is what was written to a file, and what of it is durable.
type modelFile struct{ data, synced []byte }

func newDiskModel() *diskModel {
	return &diskModel{files: map[uint64]*modelFile{}, names: map[string]uint64{}}
}

func (m *diskModel) apply(op disk.Op) {
	f := m.files[op.Inode]
	switch op.Kind {
	case disk.Creating:
		m.files[op.Inode], m.names[op.Path] = &modelFile{}, op.Inode
		m.pending = append(m.pending, op)
	case disk.Mkdiring:
		m.pending = append(m.pending, op)
	case disk.Linking:
		m.names[op.To] = m.names[op.Path]
		m.pending = append(m.pending, op)
	case disk.Renaming:
		op.Data = m.durable(op.To)
		m.move(op.Path, op.To)
		m.pending = append(m.pending, op)
	case disk.Removing:
		m.remove(op.Path)
	case disk.Writing:
		if f != nil {
			f.data = slices.Concat(f.data[:min(op.Offset, int64(len(f.data)))], op.Data, f.data[min(op.Offset+int64(len(op.Data)), int64(len(f.data))):])
		}
	case disk.Cutting:
		if f != nil {
			f.data = f.data[:min(op.Offset, int64(len(f.data)))]
		}
	case disk.Syncing:
		if op.All {
			m.syncAll()
		}
		if f != nil {
			f.synced = slices.Clone(f.data)
		}
		m.pending = slices.DeleteFunc(m.pending, func(p disk.Op) bool { return filepath.Dir(nameMade(p)) == op.Path })
	default:
	}
}

// syncAll makes all durable: what these tests run on is one file system.
func (m *diskModel) syncAll() {
	for _, f := range m.files {
		f.synced = slices.Clone(f.data)
	}
	m.pending = nil
}

// nameMade is the name that an operation made.
func nameMade(op disk.Op) string {
	if op.To != "" {
		return op.To
	}
	return op.Path
}

// move gives all that is at from, or below, its new name.
func (m *diskModel) move(from, to string) {
	moved := func(path string) string {
		if path == from || strings.HasPrefix(path, from+"/") {
			return to + path[len(from):]
		}
		return path
	}
	names := map[string]uint64{}
	for path, inode := range m.names {
		if path != to {
			names[moved(path)] = inode
		}
	}
	if inode, ok := m.names[from]; ok {
		names[to] = inode
	}
	m.names = names
	for i := range m.pending {
		p := &m.pending[i]
		if p.To != "" {
			p.To = moved(p.To)
		} else {
			p.Path = moved(p.Path)
		}
	}
}

func (m *diskModel) remove(path string) {
	gone := func(name string) bool { return name == path || strings.HasPrefix(name, path+"/") }
	for name := range m.names {
		if gone(name) {
			delete(m.names, name)
		}
	}
	m.pending = slices.DeleteFunc(m.pending, func(p disk.Op) bool { return gone(nameMade(p)) })
}

// durableJournal is what of a run's journal no power failure can take, and whether it can
// take the run.
func (m *diskModel) durableJournal(run string) (records []byte, created bool) {
	f := m.files[m.names[filepath.Join(run, "journal.jsonl")]]
	for _, p := range m.pending {
		if made := nameMade(p); run == made || strings.HasPrefix(run, made+"/") {
			return nil, false
		}
	}
	if f == nil {
		return nil, false
	}
	return f.synced, true
}

// lose takes away what was not synced, as chance wants it: of each directory the newest
// names, of each file the end of what was appended. It says what.
func (m *diskModel) lose(t *testing.T, random *rand.Rand) string {
	t.Helper()
	var lost []string
	for _, path := range slices.Sorted(maps.Keys(m.names)) {
		f := m.files[m.names[path]]
		if f == nil || bytes.Equal(f.data, f.synced) {
			continue
		}
		data := f.synced
		if more, ok := bytes.CutPrefix(f.data, f.synced); ok {
			data = append(slices.Clone(data), more[:random.IntN(len(more)+1)]...)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		lost = append(lost, fmt.Sprintf("%d bytes of %s", len(f.data)-len(data), filepath.Base(path)))
	}
	keep := map[string]bool{} // directories of which this name and those before it are there
	for _, op := range slices.Backward(m.pending) {
		made := nameMade(op)
		dir := filepath.Dir(made)
		if keep[dir] = keep[dir] || random.IntN(2) == 0; keep[dir] {
			continue
		}
		if err := unmake(op); err != nil {
			t.Fatal(err)
		}
		lost = append(lost, string(op.Kind)+" "+made)
	}
	return strings.Join(lost, ", ")
}

// durable is what was synced of the file that has a name, nil if there is none.
func (m *diskModel) durable(path string) []byte {
	if f := m.files[m.names[path]]; f != nil {
		return append([]byte{}, f.synced...)
	}
	return nil
}

// unmake takes away the name that an operation made. What a rename replaced is there again.
func unmake(op disk.Op) error {
	if op.Kind != disk.Renaming {
		return os.RemoveAll(nameMade(op))
	}
	if err := os.MkdirAll(filepath.Dir(op.Path), 0o700); err != nil {
		return err
	}
	err := os.Rename(op.To, op.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it went with a directory around it
	}
	if err == nil && op.Data != nil {
		err = os.WriteFile(op.To, op.Data, 0o600)
	}
	return err
}
