// Command chatty stands for an agent that talks without pause: lines in the shape
// of codex's, 500 bytes each, $CHATTY_RATE a second (0: as fast as it can), and for
// every tenth of them one on standard error.
//
// It makes the file ready.PID in the directory $CHATTY, waits for the file go there,
// prints $CHATTY_LINES lines, makes done.PID, waits for end, and ends its turn.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := chat(os.Getenv("CHATTY"), os.Getenv("CHATTY_LINES"), os.Getenv("CHATTY_RATE")); err != nil {
		fmt.Fprintln(os.Stderr, "chatty:", err)
		os.Exit(1)
	}
}

func chat(dir, count, perSecond string) error {
	lines, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	rate, err := strconv.Atoi(perSecond)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	fmt.Println(`{"type":"thread.started","thread_id":"01a1fb4c-4556-7083-87aa-513795a5eb62"}`)
	fmt.Println(`{"type":"turn.started"}`)
	if err := meet(dir, "ready", "go"); err != nil {
		return err
	}
	if err := talk(lines, rate); err != nil {
		return err
	}
	if err := meet(dir, "done", "end"); err != nil {
		return err
	}
	fmt.Println(`{"type":"item.completed","item":{"id":"item_last","type":"agent_message","text":"done"}}`)
	_, err = fmt.Println(`{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":0,"output_tokens":5,"reasoning_output_tokens":0}}`)
	return err
}

// talk prints lines, which are numbered from 0.
func talk(lines, rate int) error {
	tick := make(<-chan time.Time)
	if rate > 0 {
		tick = time.Tick(time.Second / time.Duration(rate))
	} else {
		closed := make(chan time.Time)
		close(closed)
		tick = closed
	}
	var b bytes.Buffer
	for i := range lines {
		<-tick
		b.Reset()
		fmt.Fprintf(&b, `{"type":"item.completed","item":{"id":"item_%d","type":"reasoning","text":"%d %s"}}`+"\n", i, i, strings.Repeat("thinking ", 46))
		if _, err := os.Stdout.Write(b.Bytes()); err != nil {
			return err
		}
		if i%10 == 0 {
			if _, err := fmt.Fprintln(os.Stderr, "log line", i); err != nil {
				return err
			}
		}
	}
	return nil
}

// meet says that this process has come to here, and waits until all may go on.
func meet(dir, here, on string) error {
	if err := os.WriteFile(filepath.Join(dir, here+"."+strconv.Itoa(os.Getpid())), nil, 0o600); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, on)); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}
