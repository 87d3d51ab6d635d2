package scriptmodel

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// errGone is the end of a stream whose client went away.
var errGone = errors.New("the client is gone")

// stream writes an answer, as server-sent events (the WHATWG HTML standard,
// section 9.2) or as one JSON document. After the first error it writes no more.
type stream struct {
	w      http.ResponseWriter
	done   <-chan struct{} // closed when the client is gone
	pause  time.Duration
	events int
	err    error
}

// json answers with one document.
func (s *stream) json(v any) {
	if s.err == nil {
		writeJSON(s.w, http.StatusOK, v)
	}
}

// event sends v under a name; "" sends data without one.
func (s *stream) event(name string, v any) {
	if s.events == 0 {
		s.w.Header().Set("Content-Type", "text/event-stream")
	} else {
		s.wait(s.pause)
	}
	s.events++
	if s.err != nil {
		return
	}
	head := ""
	if name != "" {
		head = "event: " + name + "\n"
	}
	if _, err := fmt.Fprintf(s.w, "%sdata: %s\n\n", head, encode(v)); err != nil {
		s.err = err
		return
	}
	s.err = http.NewResponseController(s.w).Flush()
}

// wait lets d pass, or less when the client goes away.
func (s *stream) wait(d time.Duration) {
	if d <= 0 || s.err != nil {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.done:
		s.err = errGone
	}
}
