package member

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/serve"
)

// Socket is the path of the socket in a state directory. Only root and the user of the process can
// open it: who the members are is the host's affair, and no part of the API of a site.
func Socket(stateDir string) string { return filepath.Join(stateDir, "member.sock") }

// Change is a change of who the members are.
type Change struct {
	// Act is add, remove or replace.
	Act string `json:"act"`
	// Address is of the member that is added, removed or replaced.
	Address string `json:"address"`
	// By is the address of the one that replaces it, and may be the same.
	By string `json:"by,omitempty"`
}

const (
	Add     = "add"
	Remove  = "remove"
	Replace = "replace"
)

// Members is what the socket shows and changes. A record.Store is one.
type Members interface {
	// Members are the members as this one knows them.
	Members(ctx context.Context) ([]record.Member, error)
	// AddMember adds one that votes once it has caught up.
	AddMember(ctx context.Context, address string) error
	// RemoveMember removes one.
	RemoveMember(ctx context.Context, address string) error
	// ReplaceMember removes one and adds another, or the same anew.
	ReplaceMember(ctx context.Context, address, by string) error
}

const (
	maxChange     = 4 << 10 // bytes
	maxAnswer     = 1 << 20 // bytes
	readTimeout   = 10 * time.Second
	answerTimeout = time.Minute
)

// Serve answers on a socket until the context ends.
func Serve(ctx context.Context, l net.Listener, m Members, log *slog.Logger) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /members", func(w http.ResponseWriter, r *http.Request) {
		all, err := m.Members(r.Context())
		answer(w, all, err)
	})
	mux.HandleFunc("POST /members", func(w http.ResponseWriter, r *http.Request) {
		var c Change
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxChange)).Decode(&c)
		if err == nil {
			err = apply(r.Context(), m, c)
		}
		if err == nil {
			log.Info("the members were changed", "act", c.Act, "member", c.Address, "by", c.By)
		}
		answer(w, struct{}{}, err)
	})
	return serve.Until(ctx, &http.Server{
		Handler: mux, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: answerTimeout,
		ErrorLog:    slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}, l)
}

func apply(ctx context.Context, m Members, c Change) error {
	switch c.Act {
	case Add:
		return m.AddMember(ctx, c.Address)
	case Remove:
		return m.RemoveMember(ctx, c.Address)
	case Replace:
		return m.ReplaceMember(ctx, c.Address, c.By)
	}
	return fmt.Errorf("%q is not a change of members", c.Act)
}

type failure struct {
	Error string `json:"error"`
}

func answer(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusConflict)
		v = failure{err.Error()}
	}
	_ = json.NewEncoder(w).Encode(v) // the client has gone
}

// Client asks the process of a state directory.
type Client struct{ http *http.Client }

// ErrNoProcess is wrapped if no process with a member runs on a state directory.
var ErrNoProcess = errors.New("no daemon and no witness with a member answers")

// NewClient returns a client of a state directory.
func NewClient(stateDir string) *Client {
	socket := Socket(stateDir)
	return &Client{&http.Client{Timeout: answerTimeout, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
			if err != nil {
				return nil, fmt.Errorf("%w at %s: start it with --join, or name its state directory with --state: %w", ErrNoProcess, socket, err)
			}
			return c, nil
		},
	}}}
}

// List returns the members.
func (c *Client) List(ctx context.Context) (all []record.Member, err error) {
	return all, c.do(ctx, http.MethodGet, nil, &all)
}

// Change changes them.
func (c *Client) Change(ctx context.Context, change Change) error {
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	return c.do(ctx, http.MethodPost, text, &struct{}{})
}

func (c *Client) do(ctx context.Context, method string, body []byte, into any) error {
	defer c.http.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://member/members", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if none := errors.Unwrap(err); errors.Is(err, ErrNoProcess) && none != nil {
			return none // without the URL, which says nothing to people
		}
		return err
	}
	defer resp.Body.Close()
	dec := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode == http.StatusOK {
		return dec.Decode(into)
	}
	var f failure
	if err := dec.Decode(&f); err != nil || f.Error == "" {
		return fmt.Errorf("the member's socket answered %s", resp.Status)
	}
	return errors.New(f.Error)
}
