package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/keyfile"
	"github.com/slipway-gitops/slipway/engine/openid"
)

// loginFlags say how a person logs in.
type loginFlags struct {
	browser  bool
	issuerCA string
}

func (f *loginFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.browser, "browser", false, "use a browser on this host, also where the issuer accepts a code typed into any browser")
	flags.StringVar(&f.issuerCA, "issuer-ca", "", "PEM `FILE` with the authority of the issuer's certificate, instead of those of this host")
}

func (f *loginFlags) isSet() bool { return f.browser || f.issuerCA != "" }

// addServer has a command name a context.
func addServer(cmd *cobra.Command, place *string) {
	cmd.Flags().Var((*serverValue)(place), "server", "`NAME or URL` of a daemon on another host, as slipway context has it (SLIPWAY_SERVER)")
	if name := os.Getenv("SLIPWAY_SERVER"); name != "" {
		*place = onServer + name
	}
}

// contextAt is the context that a command names.
func contextAt(place string) (serverContext, error) {
	name, isServer := strings.CutPrefix(place, onServer)
	if !isServer {
		return serverContext{}, usage("say where to log in or out with --server NAME, as `slipway context list` has it")
	}
	return contextOf(name)
}

func (a *app) loginCommand() *cobra.Command {
	var place string
	var f loginFlags
	cmd := &cobra.Command{
		Use: "login --server NAME", Short: "log in to a daemon on another host by OpenID Connect", Args: exactly(0),
		Long: "Logs you in at the issuer that the daemon names. You open the printed address in any\n" +
			"browser and confirm the code. With --browser, or where the issuer has no codes, it must be a\n" +
			"browser on this host. The context then shows the login in place of a certificate or token.\n" +
			"Commands renew the login by themselves for as long as the issuer lets them.\n" + exitHelp,
		Example: "  slipway login --server berlin\n  slipway login --server berlin --browser",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := contextAt(place)
			if err != nil {
				return err
			}
			if c.Cert+c.Token != "" {
				return fmt.Errorf("context %s shows %s, and needs no login: to log in instead, run `slipway context add %s --url %s --login`", c.Name, c.Cert+c.Token, c.Name, c.URL)
			}
			if before, err := (&loginFile{path: c.Login}).read(); err == nil && f.issuerCA == "" {
				f.issuerCA = before.Authority
			}
			if c.Login, err = a.logInByIssuer(cmd.Context(), c, f); err != nil {
				return err
			}
			return a.addContext(cmd, c)
		},
	}
	addServer(cmd, &place)
	f.add(cmd.Flags())
	return cmd
}

func (a *app) logoutCommand() *cobra.Command {
	var place string
	cmd := &cobra.Command{
		Use: "logout --server NAME", Short: "forget a login", Args: exactly(0),
		Long: "Removes the file with the login, and has the issuer take back what renews it. The context\n" +
			"stays. The last token counts until it expires, within minutes: remove the person from the\n" +
			"daemon's access file to end it at once.\n" + exitHelp,
		Example: "  slipway logout --server berlin",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := contextAt(place)
			if err != nil {
				return err
			}
			if c.Login == "" {
				return fmt.Errorf("context %s has no login: it shows %s", c.Name, c.Cert+c.Token)
			}
			file := &loginFile{path: c.Login, context: c.Name}
			kept, err := file.read()
			if err != nil {
				return err
			}
			var isRevoked bool
			if kept.Refresh != "" {
				isRevoked, err = kept.command().Revoke(cmd.Context(), kept.Refresh)
			}
			if gone := os.Remove(c.Login); gone != nil {
				return gone
			}
			switch {
			case a.output == "json":
				return a.out.JSON(map[string]any{"context": c.Name, "revoked": isRevoked})
			case err != nil:
				a.err.Printf("The issuer did not take back what renews the login: %v\n", err)
			case kept.Refresh != "" && !isRevoked:
				a.err.Printf("%s offers no way to take back what renews the login: end the session there.\n", kept.Issuer)
			}
			return a.out.Println("logged out of context " + c.Name)
		},
	}
	addServer(cmd, &place)
	return cmd
}

// logInByIssuer logs the person in at the issuer that a daemon names, and gives the file with what that gave.
func (a *app) logInByIssuer(ctx context.Context, c serverContext, f loginFlags) (path string, err error) {
	if f.issuerCA != "" {
		if f.issuerCA, err = filepath.Abs(f.issuerCA); err != nil {
			return "", err
		}
	}
	s, err := c.unnamed()
	if err != nil {
		return "", err
	}
	daemon, err := control.DialServer(s)
	if err != nil {
		return "", err
	}
	defer daemon.Close()
	is, err := daemon.HowToLogIn(ctx)
	if err != nil {
		return "", err
	}
	kept := keptLogin{Issuer: is.Issuers[0], Client: is.Client, Scopes: is.Scopes, Authority: f.issuerCA}
	command := kept.command()
	byDevice := false
	if !f.browser {
		if byDevice, err = command.HasDevice(ctx); err != nil {
			return "", err
		}
	}
	var got openid.Tokens
	if byDevice {
		got, err = command.ByDevice(ctx, func(address, code string) {
			a.err.Printf("Open %s in any browser, and confirm that it shows the code %s.\n", address, code)
		})
	} else {
		got, err = command.ByBrowser(ctx, func(address string) { a.err.Printf("Open this address in a browser on this host:\n  %s\n", address) })
	}
	if err != nil {
		return "", err
	}
	contexts, err := contextsFile()
	if err != nil {
		return "", err
	}
	if path, err = filepath.Abs(filepath.Join(filepath.Dir(contexts), "logins", c.Name)); err != nil {
		return "", err
	}
	kept.ID, kept.Refresh = got.ID, got.Refresh
	return path, (&loginFile{path: path}).write(kept)
}

// keptLogin is what the file of a login has.
type keptLogin struct {
	Issuer string   `json:"issuer"`
	Client string   `json:"client"`
	Scopes []string `json:"scopes"`
	// Authority is a file with the authority of the issuer's certificate; empty for those of this host.
	Authority string `json:"authority,omitempty"`
	ID        string `json:"idToken"`
	Refresh   string `json:"refreshToken,omitempty"`
}

func (k keptLogin) command() *openid.Command {
	return &openid.Command{Issuer: &openid.Issuer{URL: k.Issuer, Authority: k.Authority}, Client: k.Client, Scopes: k.Scopes}
}

// loginFile is the file of a login, which nobody else can read. Commands that run side by side renew it one after
// the other: an issuer may take what renews it once.
type loginFile struct {
	path, context string

	mu   sync.Mutex
	last string // the token of before
}

// mostLoginFile bounds the file, in bytes.
const mostLoginFile = 256 << 10

// renewBefore is how long before its end a token is renewed, so that it is valid when it arrives.
const renewBefore = 30 * time.Second

// token is one that is valid for some time.
func (f *loginFile) token(ctx context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if isFresh(f.last) {
		return f.last, nil
	}
	unlock, err := f.lock()
	if err != nil {
		return "", err
	}
	defer unlock()
	kept, err := f.read()
	if err != nil {
		return "", err
	}
	if !isFresh(kept.ID) {
		if err := f.renew(ctx, &kept); err != nil {
			return "", err
		}
	}
	f.last = kept.ID
	return f.last, nil
}

func isFresh(token string) bool { return time.Until(openid.EndOf(token)) > renewBefore }

// renew renews a login and keeps it.
func (f *loginFile) renew(ctx context.Context, kept *keptLogin) error {
	if kept.Refresh == "" {
		return fmt.Errorf("your login has expired: run `slipway login --server %s`", f.context)
	}
	got, err := kept.command().Renew(ctx, kept.Refresh)
	switch {
	case errors.Is(err, openid.ErrLogin), errors.Is(err, openid.ErrToken):
		return fmt.Errorf("your login has expired and cannot be renewed (%w): run `slipway login --server %s`", err, f.context)
	case err != nil:
		return err
	}
	kept.ID, kept.Refresh = got.ID, got.Refresh
	return f.write(*kept)
}

func (f *loginFile) read() (k keptLogin, err error) {
	text, err := keyfile.Read(f.path, mostLoginFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return k, fmt.Errorf("you are not logged in: run `slipway login --server %s`", f.context)
	case err != nil:
		return k, err
	}
	if err := json.Unmarshal(text, &k); err != nil {
		return k, fmt.Errorf("%s is not a login: run `slipway login --server %s`", f.path, f.context)
	}
	return k, nil
}

func (f *loginFile) write(k keptLogin) error {
	text, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return err
	}
	return replaceFile(f.path, append(text, '\n'), 0o600)
}

// lock keeps other commands of this user from renewing a login at the same time.
func (f *loginFile) lock() (unlock func(), err error) {
	dir, err := os.Open(filepath.Dir(f.path))
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil // and so there is no login
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir.Name(), err), dir.Close())
	}
	return func() { dir.Close() }, nil
}
