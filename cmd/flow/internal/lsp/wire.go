package lsp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxMessage bounds what is read at once: a document may be as large as a pipeline, with
// every character escaped.
const maxMessage = 64 << 20

var errHeader = errors.New("lsp: a message begins with Content-Length: N and a blank line")

// readMessage reads one message. io.EOF says that the editor has closed the stream
// between two of them.
func readMessage(r *bufio.Reader) (message, error) {
	if _, err := r.Peek(1); err != nil {
		return message{}, err
	}
	length, err := readHeader(r)
	if err != nil {
		return message{}, err
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return message{}, fmt.Errorf("lsp: the stream ends inside of a message: %w", io.ErrUnexpectedEOF)
	}
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return message{Error: &rpcError{codeParse, err.Error()}}, nil
	}
	return m, nil
}

// readHeader returns the length of the message that follows.
func readHeader(r *bufio.Reader) (int, error) {
	length := -1
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, errHeader
		}
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		if !strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			continue
		}
		if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
			return 0, errHeader
		}
	}
	if length < 0 || length > maxMessage {
		return 0, errHeader
	}
	return length, nil
}

func writeMessage(w io.Writer, m message) error {
	m.Version = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return err
}
