package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"github.com/spf13/pflag"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/web"
)

// Where the host says who may use the API, and keeps what it knows of tokens.
const (
	accessFile  = "/etc/slipway/access.conf"
	tokenFolder = "/etc/slipway/tokens.d"
)

// apiFlags say how the API is served on the network. Who may use it is in files of the host, and never
// in the design: a merged line must not give its author a right.
type apiFlags struct {
	web                         string // with pages; the same address as the API's
	address, cert, key, clients string
	access, tokens              string
}

func (f *apiFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.address, "api", "", "serve the API over HTTPS at `ADDRESS`, HOST:PORT or :PORT")
	flags.StringVar(&f.web, "web", "", "serve the page for browsers, and the API with it, over HTTPS at `ADDRESS`, HOST:PORT or :PORT")
	flags.StringVar(&f.cert, "api-cert", "", "PEM `FILE` with the certificate that --api shows, and its chain")
	flags.StringVar(&f.key, "api-key", "", "PEM `FILE` with the key of --api-cert")
	flags.StringVar(&f.clients, "api-clients", "", "PEM `FILE` with the authorities of certificates of persons; without it persons have to log in, if --api-access has lines about oidc")
	flags.StringVar(&f.access, "api-access", accessFile, "`FILE` that says who may do what by --api; it must belong to root")
	addTokens(flags, &f.tokens)
}

func addTokens(flags *pflag.FlagSet, folder *string) {
	flags.StringVar(folder, "tokens", tokenFolder, "`FOLDER` with one file for each token of a program, without the token; files must belong to root")
}

func (f *apiFlags) check() error {
	if f.web != "" {
		if f.address != "" && f.address != f.web {
			return usage("--web %s and --api %s differ: the page and the API have one address; leave --api out", f.web, f.address)
		}
		f.address = f.web
	}
	switch {
	case f.address == "" && (f.cert != "" || f.key != "" || f.clients != ""):
		return usage("--api-cert, --api-key and --api-clients need --api or --web")
	case f.address != "" && (f.cert == "" || f.key == ""):
		return usage("--api and --web need --api-cert and --api-key: they speak HTTPS only")
	case f.address != "":
		if _, _, err := net.SplitHostPort(f.address); err != nil {
			return usage("the address %q of --api or --web is not HOST:PORT or :PORT", f.address)
		}
	}
	return nil
}

// apiListener is the API on the network of a daemon; nil for none.
type apiListener struct {
	*control.Network
	listener net.Listener
	follows  *control.Listener // that answers since before the daemon leads; nil where it never follows
	ended    chan error        // of that
	end      func()
}

// open listens, so that wrong files and an address that cannot be had end the start.
func (f *apiFlags) open(ctx context.Context) (*apiListener, error) {
	if f.address == "" {
		return nil, nil
	}
	n := &control.Network{
		Address: f.address, Cert: f.cert, Key: f.key, Clients: f.clients,
		Access: &access.File{Path: f.access}, Tokens: access.Tokens{Folder: f.tokens}, Limits: control.NetworkLimits,
	}
	if f.web != "" {
		n.Pages = func(api http.Handler) control.Pages { return web.New(api) }
	}
	l, err := n.Listen(ctx)
	if err != nil {
		return nil, err
	}
	return &apiListener{Network: n, listener: l}, nil
}

func (s *apiListener) close() {
	if s == nil {
		return
	}
	if s.follows != nil {
		s.end()
	}
	s.listener.Close()
}

// follow answers from now on who leads, until run answers for the daemon itself.
func (s *apiListener) follow(ctx context.Context, elsewhere func() error, log *slog.Logger) {
	if s == nil {
		return
	}
	ctx, s.end = context.WithCancel(ctx)
	s.follows, s.ended = s.Listener(elsewhere, log), make(chan error, 1)
	go func() { s.ended <- s.follows.Run(ctx, s.listener) }()
}

func (s *apiListener) run(ctx context.Context, d control.Daemon, log *slog.Logger) error {
	if s.follows == nil {
		return s.Serve(ctx, s.listener, d, log)
	}
	s.follows.Lead(ctx, d)
	select {
	case err := <-s.ended:
		return err
	case <-ctx.Done():
		s.end()
		return <-s.ended
	}
}
