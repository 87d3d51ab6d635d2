package rpc_test

import (
	"errors"
	"net"
	"testing"

	"flow/cmd/flow/internal/rpc"
)

// TestLimit: a further connection waits until one ends, and Close ends the wait.
func TestLimit(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := rpc.Limit(inner, 1)
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 1)
	accept := func() {
		_, err := l.Accept()
		accepted <- err
	}
	go accept()
	select {
	case err := <-accepted:
		t.Fatalf("a second connection is let in beside the first: %v", err)
	default:
	}
	if err := errors.Join(first.Close(), first.Close()); err == nil {
		t.Error("closing twice is no error of the connection")
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	go accept() // the second is open
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
