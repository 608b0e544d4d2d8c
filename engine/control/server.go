package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/serve"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Bounds on what a client may ask.
const (
	maxOrder     = 64 << 10 // bytes
	maxHeader    = 16 << 10 // bytes
	readTimeout  = 10 * time.Second
	orderTimeout = 30 * time.Second
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
	l, err := listen(ctx, socket)
	if err == nil && group != "" {
		if err = share(socket, group); err != nil {
			err = errors.Join(err, l.Close())
		}
	}
	if err != nil {
		return fmt.Errorf("serve control socket: %w", err)
	}
	srv := &http.Server{
		Handler:           handler(d),
		ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext:    func(net.Listener) context.Context { return ctx },
		ConnContext:    withCaller,
	}
	if err := serve.Until(ctx, srv, l); err != nil {
		return fmt.Errorf("serve control socket: %w", err)
	}
	return nil
}

// listen makes the socket, which has its mode from the first moment: Linux
// takes it over from the socket that is bound.
func listen(ctx context.Context, socket string) (net.Listener, error) {
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

func handler(d Daemon) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/report", func(w http.ResponseWriter, r *http.Request) {
		report, err := d.Report(siteName(r))
		answer(w, r, report, err)
	})
	mux.HandleFunc("GET /v1/known", func(w http.ResponseWriter, r *http.Request) {
		known, err := d.Known(siteName(r))
		answer(w, r, known, err)
	})
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		after, err := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
		if err != nil {
			answer(w, r, nil, &failure{Text: "the daemon cannot read this request: after is not a number", Kind: "refused"})
			return
		}
		events, err := d.Events(siteName(r), after)
		answer(w, r, events, err)
	})
	mux.HandleFunc("GET /v1/history", func(w http.ResponseWriter, r *http.Request) {
		events, err := d.History(r.Context(), siteName(r), r.URL.Query().Get("node"))
		answer(w, r, events, err)
	})
	mux.HandleFunc("GET /v1/node", func(w http.ResponseWriter, r *http.Request) {
		c, err := d.Closeup(r.Context(), siteName(r), r.URL.Query().Get("node"))
		answer(w, r, c, err)
	})
	mux.HandleFunc("GET /v1/file", func(w http.ResponseWriter, r *http.Request) {
		content, err := d.File(r.Context(), siteName(r), r.URL.Query().Get("node"), r.URL.Query().Get("key"))
		answer(w, r, content, err)
	})
	mux.HandleFunc("GET /v1/console", func(w http.ResponseWriter, r *http.Request) {
		text, err := d.Console(r.Context(), siteName(r), r.URL.Query().Get("node"))
		answer(w, r, text, err)
	})
	mux.HandleFunc("GET /v1/said", func(w http.ResponseWriter, r *http.Request) {
		lines, err := d.Said(r.Context(), siteName(r), r.URL.Query().Get("node"))
		answer(w, r, lines, err)
	})
	mux.HandleFunc("POST /v1/order", func(w http.ResponseWriter, r *http.Request) {
		sentence, err := order(w, r, d)
		answer(w, r, done{sentence}, err)
	})
	mux.HandleFunc("POST /v1/ssh", func(w http.ResponseWriter, r *http.Request) {
		var asked site.SSHRequest
		if err := read(w, r, "request", &asked); err != nil {
			answer(w, r, nil, err)
			return
		}
		asked.By = caller(r.Context())
		grant, err := d.CertifyLogin(r.Context(), siteName(r), asked)
		answer(w, r, grant, err)
	})
	serveState(mux, d)
	serveArtifacts(mux, d)
	return mux
}

func siteName(r *http.Request) string { return r.URL.Query().Get("site") }

// order reads an order, notes whose it is as the kernel says, and has it carried
// out. What a client says of itself is not believed.
func order(w http.ResponseWriter, r *http.Request, d Daemon) (string, error) {
	var o site.Order
	if err := read(w, r, "order", &o); err != nil {
		return "", err
	}
	o.By = caller(r.Context())
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	return d.Do(ctx, siteName(r), o)
}

// read reads what is asked for.
func read(w http.ResponseWriter, r *http.Request, what string, into any) error {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrder))
	dec.DisallowUnknownFields() // what is not understood is not half done
	if err := dec.Decode(into); err != nil {
		return &failure{Text: "the daemon cannot read this " + what + ": " + err.Error(), Kind: "refused"}
	}
	return nil
}

// answer writes a value with its tag, or nothing but that it is what the
// client has, or an error.
func answer(w http.ResponseWriter, r *http.Request, value any, err error) {
	var body []byte
	if err == nil {
		body, err = json.Marshal(value)
	}
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		fail(w, err)
		return
	}
	sum := sha256.Sum256(body)
	tag := strconv.Quote(hex.EncodeToString(sum[:16]))
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Write(body)
}

func fail(w http.ResponseWriter, err error) {
	f, status := failureOf(err)
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(f)
}

// failureOf is an error as it crosses the socket.
func failureOf(err error) (f failure, status int) {
	f, status = failure{Text: err.Error()}, http.StatusInternalServerError
	for _, k := range kinds {
		if errors.Is(err, k.is) {
			f.Kind, status = k.name, k.status
			break
		}
	}
	return f, status
}

// callerKey is the context's key for the user id at the other end.
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
	return context.WithValue(ctx, callerKey{}, cred.Uid)
}

// caller is the name of the user at the other end.
func caller(ctx context.Context) string {
	uid, ok := ctx.Value(callerKey{}).(uint32)
	if !ok {
		return "unknown user"
	}
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "user id " + id
}
