package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"flow/cmd/flow/internal/rpc"
	"flow/state/disk"
)

// The limits of the server.
const (
	maxConnections = 1024
	maxStreams     = 512 // WebSockets and streams of events
	shutdownWait   = 10 * time.Second
	tellWait       = 5 * time.Second // for clients to hear how their runs have ended
	tokenBytes     = 32
)

type serveFlags struct {
	listen      string
	allowRemote bool
	allowHosts  []string
	tokenFile   string
}

func (a *app) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Let programs drive flow over HTTP and WebSocket",
		Long: "serve offers the methods of flow rpc over HTTP: POST /rpc, the WebSocket /ws, and GET /events for those who only\n" +
			"listen. Standard output gets its address. Who calls needs the token, which is printed once on standard error and\n" +
			"kept in the state directory, in serve.token. SIGTERM stops the runs that were begun; they can be resumed.",
		Example: "  flow serve --listen 127.0.0.1:7777\n  curl -H \"Authorization: Bearer $(cat ~/.local/state/flow/serve.token)\" -H 'Content-Type: application/json' \\\n    -d '{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"run/list\"}' http://127.0.0.1:7777/rpc",
		Args:    noArguments,
		RunE:    func(*cobra.Command, []string) error { return a.serve(f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.listen, "listen", "127.0.0.1:0", "`address` to listen on; port 0 is any that is free")
	fl.BoolVar(&f.allowRemote, "allow-remote", false, "listen on an address that other machines reach; the connection is not encrypted")
	fl.StringArrayVar(&f.allowHosts, "allow-host", nil, "a `name` that the server may be called by, besides those of this machine (repeatable)")
	fl.StringVar(&f.tokenFile, "token-file", "", "`file` with the token, of mode 0600; one is made if it is not there")
	return cmd
}

// checkListen refuses an address that other machines reach, unless that is meant.
func (f serveFlags) checkListen() error {
	host, _, err := net.SplitHostPort(f.listen)
	if err != nil {
		return usageError{fmt.Errorf("--listen %s: %w\nhint: HOST:PORT, such as 127.0.0.1:7777", f.listen, err)}
	}
	ip, err := netip.ParseAddr(host)
	if loopback := host == "localhost" || err == nil && ip.IsLoopback(); !loopback && !f.allowRemote {
		return usageError{fmt.Errorf("--listen %s can be reached from other machines\nhint: 127.0.0.1 and a tunnel (ssh -L), or --allow-remote", f.listen)}
	}
	return nil
}

func (a *app) serve(f serveFlags) error {
	if err := f.checkListen(); err != nil {
		return err
	}
	token, file, err := a.serveToken(f.tokenFile)
	if err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	h := a.newHost(dir)
	ctx, stop := watchSignals(context.Background(), h.interrupted)
	defer stop()
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", f.listen)
	if err != nil {
		return usageError{fmt.Errorf("--listen: %w\nhint: another port, or 0 for any that is free", err)}
	}
	fmt.Fprintf(a.stderr, "token: %s\nhint: it is kept in %s\n", token, file)
	if _, err := fmt.Fprintf(a.stdout, "http://%s\n", l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	web := &rpc.Web{Server: h.server(), Token: token, Hosts: f.hosts(), Follow: h.streamEvents, MaxStreams: maxStreams}
	err = serveHTTP(ctx, rpc.Limit(l, maxConnections), web.Handler(), a.stderr, func() { h.end(ctx) })
	web.Wait()
	h.end(ctx)
	return err
}

// end stops the runs because ctx has ended, waits for them, and gives those who follow them
// some time to hear of it.
func (h *host) end(ctx context.Context) {
	h.stopAll(cmp.Or(context.Cause(ctx), errClientGone))
	h.work.Wait()
	told := make(chan struct{})
	go func() {
		h.tellings.Wait()
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(tellWait):
	}
}

// hosts are the names that clients may call the server by.
func (f serveFlags) hosts() []string {
	all := make([]string, 0, len(f.allowHosts)+1)
	for _, name := range f.allowHosts {
		all = append(all, strings.ToLower(name))
	}
	if host, _, err := net.SplitHostPort(f.listen); err == nil && host != "" {
		all = append(all, strings.ToLower(host))
	}
	return all
}

// serveHTTP answers requests until ctx ends. Then it calls ending, and answers those that
// were begun. What goes wrong with a connection is written to errs.
func serveHTTP(ctx context.Context, l net.Listener, handler http.Handler, errs io.Writer, ending func()) error {
	requests, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return requests },
		ErrorLog:    log.New(errs, "flow: ", 0),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ending()
	cancel() // those who stay are told to go
	late, done := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
	defer done()
	if server.Shutdown(late) != nil {
		return server.Close()
	}
	return nil
}

// serveToken returns the token that clients need, and the file that it is in. Without a file
// of the user's it is a new one.
func (a *app) serveToken(file string) (token, where string, err error) {
	if file != "" {
		token, err = readToken(file)
		if !errors.Is(err, fs.ErrNotExist) {
			return token, file, err
		}
	} else {
		s, err := a.store()
		if err != nil {
			return "", "", err
		}
		file = filepath.Join(s.Dir(), "serve.token")
	}
	secret := make([]byte, tokenBytes)
	rand.Read(secret) // never fails: crypto/rand ends the program instead
	token = hex.EncodeToString(secret)
	return token, file, writeToken(file, token)
}

// readToken reads a token from a file that nobody else can read.
func readToken(file string) (string, error) {
	f, err := disk.OpenFile(file, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return "", usageError{fmt.Errorf("--token-file %s can be read by others\nhint: chmod 600 %s", file, file)}
	}
	data, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if len(token) < tokenBytes || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' || r == ',' }) {
		return "", usageError{fmt.Errorf("--token-file %s has no token\nhint: remove it, and flow makes one; or put %d or more letters and digits into it", file, tokenBytes)}
	}
	return token, nil
}

// writeToken puts a token into a file, at once and as a whole.
func writeToken(file, token string) error {
	f, err := disk.CreateTemp(filepath.Dir(file), ".token-*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = disk.Remove(f.Name()) }()
	_, err = io.WriteString(f, token+"\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return disk.Rename(f.Name(), file)
}
