package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"path"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/serve"
)

// Bounds on what a client may ask.
const (
	maxHeader    = 16 << 10 // bytes
	readTimeout  = 10 * time.Second
	writeTimeout = time.Minute // from the request's header to the answer's end
	idleTimeout  = time.Minute
)

// Serve answers for a daemon on a socket until the context ends. The members of
// a group can open it as the daemon's own user and root can; without a name there
// is no such group. A socket that a dead daemon left is replaced; one that a
// daemon answers on is an error.
func Serve(ctx context.Context, socket, group string, d Daemon, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := serveOn(ctx, socket, group, onSocket(newAPI(d, nil, Limits{}, 0, log).mux()), log); err != nil {
		return fmt.Errorf("serve control socket: %w", err)
	}
	return nil
}

// serveOn answers on a socket until the context ends, with who is at the other end in the context of each request.
func serveOn(ctx context.Context, socket, group string, h http.Handler, log *slog.Logger) error {
	l, err := Listen(ctx, socket)
	if err == nil && group != "" {
		if err = share(socket, group); err != nil {
			err = errors.Join(err, l.Close())
		}
	}
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ConnContext:    withCaller,
	}
	return serve.Until(ctx, srv, l)
}

// onSocket refuses what no client of the socket sends.
func onSocket(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := checkPathOf(r); err != nil {
			fail(w, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// checkPathOf refuses a path that could be read in two ways: nothing in this API needs escapes, dots or
// empty parts.
func checkPathOf(r *http.Request) error {
	if r.URL.RawPath != "" || r.URL.IsAbs() || path.Clean(r.URL.Path) != r.URL.Path {
		return fmt.Errorf("%w: the path has escapes, empty parts or dots", ErrBadRequest)
	}
	return nil
}

// Listen makes the socket, which has its mode from the first moment: Linux
// takes it over from the socket that is bound.
func Listen(ctx context.Context, socket string) (net.Listener, error) {
	if err := checkPath(socket); err != nil {
		return nil, err
	}
	if err := clear(ctx, socket); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }), err)
	}}
	return lc.Listen(ctx, "unix", socket)
}

// share gives a socket to a group. Until then it is the daemon's alone.
func share(socket, group string) error {
	g, err := user.LookupGroup(group)
	if err != nil {
		return fmt.Errorf("%w: make the group, or start without --socket-group", err)
	}
	id, err := strconv.Atoi(g.Gid)
	if err != nil {
		return fmt.Errorf("group %s has the id %q: %w", group, g.Gid, err)
	}
	if err := os.Lchown(socket, -1, id); err != nil {
		return fmt.Errorf("%w: the daemon's user must be a member of group %s", err, group)
	}
	return os.Chmod(socket, 0o660)
}

// maxPath is the longest path of a socket, in bytes (unix(7), sun_path).
const maxPath = 107

func checkPath(socket string) error {
	if len(socket) > maxPath {
		return fmt.Errorf("the path %s has %d bytes, and that of a socket has at most %d: choose a state directory with a shorter path", socket, len(socket), maxPath)
	}
	return nil
}

// clear removes what a dead daemon left in the socket's place.
func clear(ctx context.Context, socket string) error {
	info, err := os.Lstat(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket: move it, or choose another state directory", socket)
	}
	c, err := (&net.Dialer{Timeout: readTimeout}).DialContext(ctx, "unix", socket)
	if err == nil {
		c.Close()
		return fmt.Errorf("another slipway answers on %s: stop it first, or give this one a state directory of its own", socket)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(socket)
}

// callerKey is the context's key for who is at the other end.
type callerKey struct{}

// withCaller notes whose process is at the other end, as the kernel says.
func withCaller(ctx context.Context, c net.Conn) context.Context {
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return ctx
	}
	var cred *unix.Ucred
	if raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }) != nil || err != nil {
		return ctx
	}
	return context.WithValue(ctx, callerKey{}, access.Caller{Kind: access.User, Name: userName(cred.Uid)})
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "user id " + id
}

// callerOf is who is at the other end.
func callerOf(ctx context.Context) access.Caller {
	if c, ok := ctx.Value(callerKey{}).(access.Caller); ok {
		return c
	}
	return access.Caller{Kind: access.Nobody}
}
