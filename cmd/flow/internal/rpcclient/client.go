// Package rpcclient is a client of flow rpc and flow serve.
package rpcclient

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/coder/websocket"

	"flow/cmd/flow/internal/rpc"
)

// A Client speaks with one server. Its methods may be called concurrently.
type Client struct {
	conn   conn
	notify func(method string, params json.RawMessage)
	ended  chan struct{} // closed when the server says nothing more
	turn   chan struct{} // holds a value while something is sent

	mu      sync.Mutex
	last    int64
	pending map[string]chan answer
	err     error // why the server says nothing more
}

// A conn carries messages.
type conn interface {
	read(ctx context.Context) ([]byte, error)
	write(ctx context.Context, text []byte) error
	close() error
}

// An answer is what the server says to a request.
type answer struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpc.Error      `json:"error"`
}

// Stream speaks over two streams, such as those of a process `flow rpc`. notify is called
// with each notification, one after the other, and must not wait for an answer; nil: they
// are dropped.
func Stream(in io.Reader, out io.WriteCloser, notify func(method string, params json.RawMessage)) *Client {
	scan := bufio.NewScanner(in)
	scan.Buffer(nil, 64<<20)
	return start(context.Background(), &stream{scan, out}, notify)
}

// Dial connects to the WebSocket of a `flow serve` at an address such as
// http://127.0.0.1:7777. notify is as for Stream.
func Dial(ctx context.Context, address, token string, notify func(method string, params json.RawMessage)) (*Client, error) {
	ws, _, err := websocket.Dial(ctx, address+"/ws", &websocket.DialOptions{Subprotocols: []string{rpc.Subprotocol, rpc.TokenSubprotocol + token}})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	ws.SetReadLimit(64 << 20)
	return start(context.WithoutCancel(ctx), &socket{ws}, notify), nil
}

func start(ctx context.Context, c conn, notify func(string, json.RawMessage)) *Client {
	client := &Client{conn: c, notify: notify, ended: make(chan struct{}), turn: make(chan struct{}, 1), pending: map[string]chan answer{}}
	go client.listen(ctx)
	return client
}

// listen takes what the server says, until it says no more.
func (c *Client) listen(ctx context.Context) {
	defer close(c.ended)
	for {
		text, err := c.conn.read(ctx)
		if err == nil {
			err = c.take(text)
		}
		if err != nil {
			c.mu.Lock()
			c.err = err
			c.mu.Unlock()
			return
		}
	}
}

func (c *Client) take(text []byte) error {
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("the server sent no message: %w", err)
	}
	if a.Method != "" {
		if c.notify != nil {
			c.notify(a.Method, a.Params)
		}
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if waiting := c.pending[string(a.ID)]; waiting != nil {
		waiting <- a // it has room for one
	}
	delete(c.pending, string(a.ID))
	return nil
}

// Call asks for a method and reads its result, unless result is nil. The error is a
// *rpc.Error if the server refused.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	id, waiting := c.expect()
	defer c.forget(id)
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "method": method, "params": params})
	if err != nil {
		return err
	}
	if err := c.send(ctx, text); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case a := <-waiting:
		return a.into(result)
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ended:
	}
	select {
	case a := <-waiting: // it was the last word
		return a.into(result)
	default:
		return fmt.Errorf("%s: %w", method, c.Err())
	}
}

func (a answer) into(result any) error {
	if a.Error != nil {
		return a.Error
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(a.Result, result)
}

func (c *Client) send(ctx context.Context, text []byte) error {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return c.conn.write(ctx, text)
}

// expect makes the id of a request, and the place for its answer.
func (c *Client) expect() (id string, waiting chan answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	id, waiting = strconv.FormatInt(c.last, 10), make(chan answer, 1)
	c.pending[id] = waiting
	return id, waiting
}

func (c *Client) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// Err is why the server says nothing more, io.EOF where it has just ended; nil while it may.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Ended is closed when the server says nothing more.
func (c *Client) Ended() <-chan struct{} { return c.ended }

// Close ends what the client says. A server on streams may still answer: see Ended.
func (c *Client) Close() error { return c.conn.close() }

type stream struct {
	in  *bufio.Scanner
	out io.WriteCloser
}

func (s *stream) read(context.Context) ([]byte, error) {
	if s.in.Scan() {
		return s.in.Bytes(), nil
	}
	if err := s.in.Err(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

func (s *stream) write(_ context.Context, text []byte) error {
	_, err := s.out.Write(append(text, '\n'))
	return err
}

func (s *stream) close() error { return s.out.Close() }

type socket struct{ *websocket.Conn }

func (s *socket) read(ctx context.Context) ([]byte, error) {
	_, text, err := s.Read(ctx)
	if e, ok := errors.AsType[websocket.CloseError](err); ok && (e.Code == websocket.StatusNormalClosure || e.Code == websocket.StatusGoingAway) {
		err = io.EOF
	}
	return text, err
}

func (s *socket) write(ctx context.Context, text []byte) error {
	return s.Write(ctx, websocket.MessageText, text)
}

func (s *socket) close() error { return s.Close(websocket.StatusNormalClosure, "") }
