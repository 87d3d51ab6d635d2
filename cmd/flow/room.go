package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"flow/pipeline"
	"flow/pipeline/dag"
	"flow/steps"
)

const (
	// What a run needs of open files at most: measured are 15 for flow itself, and 5 for an
	// agent that is spoken with (both outputs, two ends of a pipe, the record of what was said).
	ownFiles  = 40
	stepFiles = 6
	// ownTasks is what flow and its guardian need of threads: measured are 20 to 30. The Go
	// runtime ends a program that cannot have another one.
	ownTasks = 48
	// manyTasks is a limit below which it is worth counting what the user has.
	manyTasks = 4096
)

// enoughRoom refuses a plan for which the limits of the process are too low. A run that
// meets them loses nothing, but stops half way.
func enoughRoom(plan *pipeline.Plan) error {
	var files, tasks unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil { // the hard limit: Go raises its own
		return fmt.Errorf("cannot read the limit of open files: %w", err)
	}
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &tasks); err != nil {
		return fmt.Errorf("cannot read the limit of processes: %w", err)
	}
	err := enoughFiles(uint64(cmp.Or(max(plan.Limit, 0), dag.DefaultLimit)), files.Cur)
	if err == nil && tasks.Cur < manyTasks && os.Getuid() != 0 { // root has no such limit
		err = enoughTasks(tasksOf(os.Getuid()), tasks.Cur)
	}
	return err
}

// enoughFiles is an error unless so many steps at once get along with so many open files.
func enoughFiles(atOnce, limit uint64) error {
	need := ownFiles + atOnce*stepFiles
	if limit >= need {
		return nil
	}
	hint := fmt.Sprintf("raise the limit: ulimit -n %d", max(1024, need))
	if limit >= ownFiles+stepFiles {
		hint += fmt.Sprintf("; or have fewer at once: `concurrency: %d`", (limit-ownFiles)/stepFiles)
	}
	return tooLittle("%d steps at once may need %d open files, and this process may have %d\nhint: %s", atOnce, need, limit, hint)
}

// enoughTasks is an error unless flow itself gets along with what is left of so many
// processes and threads. Steps for which there is no room wait, and then fail.
func enoughTasks(used, limit uint64) error {
	if used+ownTasks <= limit {
		return nil
	}
	return tooLittle("the user may have %d processes and threads, and %d are there: flow needs %d for itself\nhint: raise the limit: ulimit -u %d",
		limit, used, ownTasks, manyTasks)
}

func tooLittle(format string, args ...any) error {
	return &steps.PreflightError{Problems: []string{fmt.Sprintf(format, args...)}}
}

// tasksOf counts the threads of a user's processes, as the kernel does for its limit.
func tasksOf(uid int) (count uint64) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0
	}
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != uid {
			continue
		}
		if threads, err := os.ReadDir(filepath.Join(dir, "task")); err == nil {
			count += uint64(len(threads))
		}
	}
	return count
}
