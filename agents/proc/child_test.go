package proc

import (
	"bufio"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func flowChild([]string) {}
func orphanChild([]string) {}

// lineChild prints one line of so many MiB, and a short one.
func lineChild(args []string) {
	size, err := strconv.Atoi(args[0])
	check(err)
	chunk := make([]byte, 1<<20)
	for i := range chunk {
		chunk[i] = 'a'
	}
	for range size {
		_, err := os.Stdout.Write(chunk)
		check(err)
	}
	fmt.Print("\nnext\n")
}

// linesChild prints so many numbered lines of different lengths.
func linesChild(args []string) {
	count, err := strconv.Atoi(args[0])
	check(err)
	w := bufio.NewWriterSize(os.Stdout, 777) // lines are cut at odd places
	for i := range count {
		fmt.Fprintf(w, "%d %0*d\n", i, i*7%301, i)
	}
	check(w.Flush())
}

// rlimitChild prints its limits of open files, as a program in C sees them: Go
// raises its own.
func rlimitChild([]string) {
	var l unix.Rlimit
	check(unix.Getrlimit(unix.RLIMIT_NOFILE, &l))
	fmt.Println(l.Cur, l.Max)
}

// fdsChild prints its open descriptors.
func fdsChild([]string) {}
