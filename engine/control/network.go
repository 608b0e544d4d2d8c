package control

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/openid"
	"github.com/slipway-gitops/slipway/engine/serve"
)

// Network is the API on the network: HTTPS, for callers that show a certificate or a token.
type Network struct {
	Address string // HOST:PORT or :PORT
	// Cert and Key are the PEM files of the certificate that the API shows. They are read again when
	// they have changed.
	Cert, Key string
	// Clients is a PEM file with the authorities of certificates of persons; empty where persons have
	// none. Access says what callers may do, and Tokens are those of programs.
	Clients string
	Access  *access.File
	Tokens  access.Tokens
	Limits  Limits
	// Pages makes what answers paths outside /api/, and gives it the API to ask; nil for no pages. A
	// page's request has its caller in the context, and the API finds it there again.
	Pages func(api http.Handler) Pages
	// Problem is told when the access file is found wrong, and with nil when it is right again; nil for
	// nobody.
	Problem func(error)
	// Now is the clock; nil is that of the host. Only for tests.
	Now func() time.Time
}

// Times of the listener on the network.
const (
	networkHeader = 5 * time.Second
	snapshotEvery = 250 * time.Millisecond // how often a storm of reads has the engine's lock taken
)

// Listen opens the address, and says what is wrong with the files now rather than when somebody calls.
func (n *Network) Listen(ctx context.Context) (net.Listener, error) {
	if _, err := (&serve.Certificate{Cert: n.Cert, Key: n.Key}).Get(nil); err != nil {
		return nil, fmt.Errorf("certificate of the API: %w: --api-cert and --api-key take PEM files that belong together", err)
	}
	if n.Clients != "" {
		if _, err := readAuthorities(n.Clients, n.Access.Owner); err != nil {
			return nil, fmt.Errorf("--api-clients: %w", err)
		}
	}
	p, err := n.Access.Policy()
	if err != nil {
		return nil, err
	}
	if i := p.Issuer(); n.Pages != nil && n.Clients == "" && (i == nil || i.Client == "") {
		return nil, fmt.Errorf("no person could open the page: give persons certificates with --api-clients, or have them log in with the lines \"oidc\" of %s", n.Access.Path)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", n.Address)
	if err != nil {
		return nil, fmt.Errorf("--api %s: %w; it takes HOST:PORT or :PORT, an address of this host and a port that nobody else has", n.Address, err)
	}
	return l, nil
}

// Serve answers on a listener until the context ends.
func (n *Network) Serve(ctx context.Context, l net.Listener, d Daemon, log *slog.Logger) error {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	a := newAPI(d, n.Access, n.Limits, snapshotEvery, log)
	a.problem, a.pages = n.Problem, n.Pages
	a.logins = &openid.Logins{Access: n.Access, Log: log, Now: n.Now}
	a.certificates = n.Clients != ""
	go a.tryIssuer(ctx)
	who := &identification{network: n, logins: a.logins, knows: a.knows, cert: &serve.Certificate{Cert: n.Cert, Key: n.Key, Log: log}, clients: &authorities{path: n.Clients, owner: n.Access.Owner, log: log}}
	// HTTP/1.1 alone: nothing here needs HTTP/2, which has more that can be abused.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	srv := &http.Server{
		Handler:           a.guarded(who.of),
		Protocols:         &protocols,
		ReadHeaderTimeout: networkHeader, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,                                              // it would answer to nobody in particular
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug), // anybody can make it speak
		BaseContext:                  func(net.Listener) context.Context { return ctx },
	}
	log.Info("the API listens", "address", l.Addr().String())
	if err := serve.Until(ctx, srv, tls.NewListener(bounded(l, n.Limits), who.tls())); err != nil {
		return fmt.Errorf("serve the API: %w", err)
	}
	return nil
}

// guarded lets in who is known, and hands on who that is.
func (a *api) guarded(identify identifier) http.Handler {
	mux := a.mux()
	var pages Pages
	if a.pages != nil {
		pages = a.pages(onSocket(mux))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if err := checkPathOf(r); err != nil {
			fail(w, err)
			return
		}
		ofPages := pages != nil && isPage(r)
		if ofPages {
			w.Header().Set("Content-Security-Policy", PagePolicy)
			w.Header().Set("Referrer-Policy", "same-origin") // with "no-referrer" a browser does not say where a form is from
			w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		}
		// A browser shows a certificate for any page that asks: only pages of this very host may.
		if isOfAnotherSite(r) && !(ofPages && isArrival(r)) {
			fail(w, fmt.Errorf("%w: a page of another site has sent this request", access.ErrDenied))
			return
		}
		if a.answerNobody(w, r, pages) {
			return
		}
		caller, err := identify(r)
		if ofPages && (errors.Is(err, errNothing) || errors.Is(err, errEnded)) && a.askToLogIn(w, r, pages, http.StatusUnauthorized, "") {
			return
		}
		if err != nil {
			if limited := a.limits.unknown(addressOf(r)); limited != nil {
				err = limited
			} else if why := access.WhyUnreadable(err); why != nil {
				a.log.Warn("the file of a token cannot be used", "err", why)
			}
			a.log.Debug("not authenticated", "from", caller.From, "err", err)
			a.deniedNobody(r, caller, err)
			w.Header().Set("Connection", "close") // or it keeps its place
			fail(w, err)
			return
		}
		ctx := context.WithValue(r.Context(), callerKey{}, caller)
		if ofPages { // what it asks of the API is identified by the page's own request
			own := func(*http.Request) (access.Caller, error) { return identify(r) }
			pages.ServeHTTP(w, r.WithContext(context.WithValue(ctx, identifierKey{}, identifier(own))))
			return
		}
		mux.ServeHTTP(w, r.WithContext(context.WithValue(ctx, identifierKey{}, identify)))
	})
}

// isOfAnotherSite says whether a browser sends a request for a page of another site. Reads have effects as
// well: they are counted, and some ask machines.
func isOfAnotherSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin": // no browser, its user's own address, or a page of this host
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Scheme != "https" || u.Host != r.Host
}

func addressOf(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.IPv4Unspecified()
	}
	return a.Addr().Unmap()
}

// identification says who asks.
type identification struct {
	network *Network
	cert    *serve.Certificate
	clients *authorities
	logins  *openid.Logins
	knows   func(access.Caller) bool // says whether there is anything for a person
	proven  proven
}

func (i *identification) now() time.Time {
	if i.network.Now != nil {
		return i.network.Now()
	}
	return time.Now()
}

// tls is how connections are made. Sessions are not resumed, so that each connection proves the
// certificate against the authorities of now.
func (i *identification) tls() *tls.Config {
	return &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := &tls.Config{
			MinVersion: tls.VersionTLS12, GetCertificate: i.cert.Get, NextProtos: []string{"http/1.1"},
			SessionTicketsDisabled: true, Time: i.network.Now,
		}
		if i.network.Clients != "" {
			c.ClientAuth, c.ClientCAs = tls.VerifyClientCertIfGiven, i.clients.pool()
		}
		return c, nil
	}}
}

// of says who has sent a request. A certificate is verified for each request: it may have expired, or
// its authority have been taken away, since the connection was made.
func (i *identification) of(r *http.Request) (access.Caller, error) {
	c := access.Caller{Kind: access.Nobody, From: addressOf(r).String()}
	var shown []*x509.Certificate
	if r.TLS != nil {
		shown = r.TLS.PeerCertificates
	}
	tokens := r.Header.Values("Authorization")
	switch {
	case len(tokens) == 0 && len(shown) == 0:
		return i.browser(r, c)
	case len(tokens) > 0 && len(shown) > 0:
		return c, fmt.Errorf("%w: a certificate and a token were shown: show one of them", ErrWhoAreYou)
	case len(tokens) > 1:
		return c, fmt.Errorf("%w: more than one token was shown", ErrWhoAreYou)
	case len(tokens) == 1:
		token, isBearer := cutBearer(tokens[0])
		if !isBearer {
			return c, fmt.Errorf("%w: only \"Authorization: Bearer TOKEN\" is known", ErrWhoAreYou)
		}
		if !strings.HasPrefix(token, access.TokenPrefix) && strings.Count(token, ".") == 2 {
			return i.loggedIn(r, token, c)
		}
		issued, err := i.network.Tokens.Check(token, i.now())
		if err != nil {
			return c, fmt.Errorf("%w: %w", ErrWhoAreYou, err)
		}
		c.Kind, c.Name = access.Token, issued.Name
		return c, nil
	}
	name, err := i.person(shown)
	if err != nil {
		return c, fmt.Errorf("%w: the certificate was not accepted: %w", ErrWhoAreYou, err)
	}
	c.Kind, c.Name = access.Person, name
	return c, nil
}

func cutBearer(header string) (token string, ok bool) {
	const scheme = "Bearer "
	if len(header) < len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return "", false
	}
	return header[len(scheme):], true
}

// person is whose certificate it is: the one e-mail address among its alternative names, or without any
// its common name. An e-mail address is what an authority verifies of a person. A common name with an
// @ is refused, so that nobody gets the name of somebody else that way.
func (i *identification) person(shown []*x509.Certificate) (string, error) {
	own := shown[0]
	if err := i.proven.verify(shown, i.clients.pool(), i.now()); err != nil {
		return "", err
	}
	switch len(own.EmailAddresses) {
	case 1:
		if !isAddress(own.EmailAddresses[0]) {
			return "", errors.New("its e-mail address is none, and could be the common name of somebody else")
		}
		return own.EmailAddresses[0], access.CheckName(own.EmailAddresses[0])
	case 0:
		if commonNames(own) > 1 {
			return "", errors.New("it has more than one common name, and must name one person")
		}
		if strings.Contains(own.Subject.CommonName, "@") {
			return "", errors.New("its common name looks like an e-mail address, which belongs among the alternative names")
		}
		return own.Subject.CommonName, access.CheckName(own.Subject.CommonName)
	}
	return "", fmt.Errorf("it names %d e-mail addresses, and must name one person", len(own.EmailAddresses))
}
