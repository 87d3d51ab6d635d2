package console_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flow/cmd/flow/internal/console"
)

const manyLines = 40_000 // of 100 bytes: more than waits

func line(i int) string { return fmt.Sprintf("%099d\n", i) }

// A slow reader gets everything, and the writer waits for it.
func TestQueueSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		q := console.NewQueue(w)
		got := make(chan string)
		go func() {
			var b strings.Builder
			in := bufio.NewReaderSize(r, 16<<10)
			for i := range manyLines {
				if i%100 == 0 {
					<-time.After(console.Patience / 2)
				}
				text, _ := in.ReadString('\n')
				b.WriteString(text)
			}
			got <- b.String()
		}()
		var want strings.Builder
		for i := range manyLines {
			want.WriteString(line(i))
			fmt.Fprint(q, line(i))
		}
		if got := <-got; got != want.String() {
			t.Errorf("%d bytes came, not the %d written", len(got), want.Len())
		}
		q.Drain()
	})
}

// A reader that stops costs patience once. When it reads again, it learns that lines are
// missing, and gets the last ones.
func TestQueueStoppedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		q := console.NewQueue(w)
		began := time.Now()
		for i := range manyLines {
			fmt.Fprint(q, line(i))
		}
		q.Drain()
		if took := time.Since(began); took != console.Patience {
			t.Errorf("the writer waited %s", took)
		}
		var got bytes.Buffer
		in := bufio.NewReader(r)
		for {
			text, err := in.ReadString('\n')
			got.WriteString(text)
			if err != nil {
				break
			}
			if text == line(manyLines-1) {
				go func() {
					fmt.Fprint(q, "again\n")
					q.Drain()
					w.Close()
				}()
			}
		}
		lines := strings.SplitAfter(got.String(), "\n")
		var left int
		if _, err := fmt.Sscanf(lines[1], "flow: %d lines are left out here", &left); err != nil || lines[0] != line(0) {
			t.Fatalf("the first lines are %q", lines[:2])
		}
		if lines[2] != line(1+left) || lines[len(lines)-2] != "again\n" || len(lines)-1 != 1+1+(manyLines-1-left)+1 {
			t.Errorf("%d lines, after the gap of %d %q, at the end %q", len(lines), left, lines[2], lines[len(lines)-2])
		}
	})
}

// Drain waits until everything is written.
func TestQueueDrain(t *testing.T) {
	var b bytes.Buffer
	q := console.NewQueue(&b)
	for round := range 3 {
		for i := range 1000 {
			fmt.Fprint(q, line(i))
		}
		q.Drain()
		if n := bytes.Count(b.Bytes(), []byte("\n")); n != 1000*(round+1) {
			t.Errorf("%d lines are written", n)
		}
	}
}
