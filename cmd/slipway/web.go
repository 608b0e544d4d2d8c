package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/serve"
	"github.com/slipway-gitops/slipway/engine/web"
)

func (a *app) webCommand() *cobra.Command {
	var state, listen string
	cmd := &cobra.Command{
		Use: "web", Short: "open the page of a daemon on this host", Args: exactly(0),
		Long: "Serves the page of Slipway on loopback until interrupted, for one browser. The page shows and\n" +
			"does what the commands can: it asks the daemon as you, by its socket or with --server.\n" +
			"The printed link has a key that works once. Whoever opens it acts as you.\n\n" +
			"To use it from your desk, log in with `ssh -L 8480:127.0.0.1:8480 HOST` and\n" +
			"run `slipway web --listen 127.0.0.1:8480` there.\n" + exitHelp,
		Example: "  slipway web\n  slipway web --server berlin\n  slipway web --listen 127.0.0.1:8480",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.web(cmd.Context(), state, listen) },
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:0", "serve the page at `ADDRESS`, which must be of loopback; with port 0 a free one is chosen")
	addDaemon(cmd, &state)
	return cmd
}

func (a *app) web(ctx context.Context, state, listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return usage("--listen %q is not an address of loopback with a port: this page has no certificate, so it is for this host alone; use `slipway run --web` for others", listen)
	}
	daemon := daemonAt(state)
	defer daemon.Close()
	if _, err := daemon.WhoAmI(ctx); err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("--listen %s: %w", listen, err)
	}
	d := newDesk(daemon.Handler(), l.Addr().String())
	link := "http://" + l.Addr().String() + "/?key=" + d.key
	if a.output == "json" {
		if err := a.out.JSON(map[string]string{"url": link}); err != nil {
			return err
		}
	} else {
		a.out.Printf("Open this link. It works once, and whoever opens it acts as you:\n  %s\nInterrupt to end.\n", link)
	}
	srv := &http.Server{Handler: d, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	if err := serve.Until(ctx, srv, l); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// desk lets one browser of this host in: the one that has shown the key of the link. Everybody on the
// host can reach a port of loopback, and so can every page that a browser here has open.
type desk struct {
	pages   http.Handler
	reads   http.Handler // the API
	host    string       // what the browser calls this
	key     string       // of the link
	session string       // of the cookie
	once    chan struct{}
}

func newDesk(api http.Handler, host string) *desk {
	d := &desk{pages: web.New(api), reads: api, host: host, key: rand.Text(), session: rand.Text(), once: make(chan struct{}, 1)}
	d.once <- struct{}{}
	return d
}

// cookie is the name of the cookie. Cookies have no port, so it is in the name.
func (d *desk) cookie() string {
	_, port, _ := net.SplitHostPort(d.host)
	return "slipway-" + port
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Referrer-Policy", "same-origin") // with "no-referrer" a browser does not say where a form is from
	h.Set("Content-Security-Policy", control.PagePolicy)
	given := r.URL.Query().Get("key")
	switch {
	case !d.isOwnHost(r.Host): // a name that somebody has pointed here
		http.Error(w, "This page is at http://"+d.host+" and has no other name.", http.StatusMisdirectedRequest)
	case r.URL.RawPath != "" || path.Clean(r.URL.Path) != r.URL.Path:
		http.Error(w, "There is no such page.", http.StatusNotFound)
	case r.URL.Path == "/" && given != "":
		d.enter(w, given)
	case !d.knows(r):
		http.Error(w, "Open the link that `slipway web` has printed. If it was used already, run `slipway web` again.", http.StatusForbidden)
	case !isOfOwnPage(r):
		http.Error(w, "A page of another site has sent this request. Nothing was done.", http.StatusForbidden)
	case strings.HasPrefix(r.URL.Path, "/api/"):
		d.api(w, r)
	default:
		d.pages.ServeHTTP(w, r)
	}
}

// isOwnHost says whether a browser was sent here by the address of the link: with ssh -L the port on
// its side may be another one.
func (d *desk) isOwnHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		return false
	}
	ip := net.ParseIP(name)
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// enter gives the session to whoever shows the key first.
func (d *desk) enter(w http.ResponseWriter, given string) {
	if subtle.ConstantTimeCompare([]byte(given), []byte(d.key)) != 1 {
		http.Error(w, "This key is not the one of the link.", http.StatusForbidden)
		return
	}
	select {
	case <-d.once:
	default:
		http.Error(w, "This link was used already. If that was not you, end `slipway web` now. Otherwise run it again for another link.", http.StatusForbidden)
		return
	}
	http.SetCookie(w, &http.Cookie{Name: d.cookie(), Value: d.session, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// No redirection: a browser sends no strict cookie with one that began on another site.
	fmt.Fprint(w, `<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=/"><title>Slipway</title><link rel="icon" href="data:,"><p><a href="/">Go to the page</a></p>`)
}

func (d *desk) knows(r *http.Request) bool {
	c, err := r.Cookie(d.cookie())
	return err == nil && subtle.ConstantTimeCompare([]byte(c.Value), []byte(d.session)) == 1
}

// isOfOwnPage says whether a request is from a page here, or typed. A form always says where it is from.
func isOfOwnPage(r *http.Request) bool {
	from := r.Header.Get("Sec-Fetch-Site")
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return from == "" || from == "none" || from == "same-origin"
	}
	origin := r.Header.Get("Origin")
	return (from == "same-origin" || from == "" && origin != "") && (origin == "" || origin == "http://"+r.Host)
}

// api answers the links to JSON. Forms are the only way to act here.
func (d *desk) api(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		http.Error(w, "Only reads are passed on to the API here. Use the forms of the page.", http.StatusMethodNotAllowed)
		return
	}
	d.reads.ServeHTTP(w, r)
}
