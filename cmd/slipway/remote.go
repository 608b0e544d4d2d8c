package main

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/hostfile"
	"github.com/slipway-gitops/slipway/engine/keyfile"
)

// onServer begins the place of a daemon that is on another host; the rest is the name or the URL of a
// context. Any other place is a state directory on this host.
const onServer = "server:"

// addDaemon has a command find its daemon by --state or by --server. SLIPWAY_SERVER counts where neither
// is there.
func addDaemon(cmd *cobra.Command, place *string) {
	addState(cmd, place)
	cmd.Flags().Var((*serverValue)(place), "server", "`NAME or URL` of a daemon on another host, as slipway context has it, instead of --state (SLIPWAY_SERVER)")
	if name := os.Getenv("SLIPWAY_SERVER"); name != "" {
		*place = onServer + name
	}
}

// checkPlace refuses two places of a daemon.
func checkPlace(cmd *cobra.Command) error {
	if server := cmd.Flags().Lookup("server"); server != nil && server.Changed && cmd.Flags().Changed("state") {
		return usage("--server and --state name two daemons: pass one of them")
	}
	return nil
}

// serverValue is a place that is a server.
type serverValue string

func (v *serverValue) Set(name string) error {
	if name == "" {
		return errors.New("it is empty")
	}
	*v = serverValue(onServer + name)
	return nil
}

func (v *serverValue) String() string { return "" }

func (v *serverValue) Type() string { return "string" }

// daemonAt is a client of the daemon at a place. What is wrong with a context is said by what is asked
// first.
func daemonAt(place string) *control.Client {
	name, isServer := strings.CutPrefix(place, onServer)
	if !isServer {
		return control.Dial(control.Socket(place))
	}
	s, err := serverOf(name)
	if err != nil {
		return control.Broken(err)
	}
	c, err := control.DialServer(s)
	if err != nil {
		return control.Broken(err)
	}
	return c
}

// serverContext is a server, and what is shown there, as the file of contexts has it.
type serverContext struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// CA, Cert, Key, Token and Login are files. Login has what `slipway login` got.
	CA    string `json:"ca,omitempty"`
	Cert  string `json:"cert,omitempty"`
	Key   string `json:"key,omitempty"`
	Token string `json:"token,omitempty"`
	Login string `json:"login,omitempty"`
}

// contextsFile is where the contexts of the user are.
func contextsFile() (string, error) {
	if path := os.Getenv("SLIPWAY_CONTEXTS"); path != "" {
		return path, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the file of contexts: %w; set SLIPWAY_CONTEXTS", err)
	}
	return filepath.Join(dir, "slipway", "contexts"), nil
}

// readContexts reads the contexts of the user.
func readContexts() ([]serverContext, error) {
	path, err := contextsFile()
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := parseContexts(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return all, nil
}

func parseContexts(text string) (all []serverContext, err error) {
	err = hostfile.EachSetting(text, "context, url, ca, cert, key, token and login", func(key, value string, _ int) (bool, error) {
		if key == "context" {
			if !access.IsTokenName(value) {
				return true, fmt.Errorf("%q cannot be the name of a context: use lower case letters, digits and hyphens", value)
			}
			all = append(all, serverContext{Name: value})
			return true, nil
		}
		if len(all) == 0 {
			return true, errors.New("the first line is \"context: NAME\"")
		}
		last := &all[len(all)-1]
		into := map[string]*string{"url": &last.URL, "ca": &last.CA, "cert": &last.Cert, "key": &last.Key, "token": &last.Token, "login": &last.Login}[key]
		if into == nil {
			return false, nil
		}
		*into = value
		return true, nil
	})
	return all, err
}

// writeContexts puts contexts in the place of those before.
func writeContexts(all []serverContext) error {
	path, err := contextsFile()
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, c := range all {
		for _, l := range [][2]string{{"context", c.Name}, {"url", c.URL}, {"ca", c.CA}, {"cert", c.Cert}, {"key", c.Key}, {"token", c.Token}, {"login", c.Login}} {
			if l[1] != "" {
				fmt.Fprintf(&b, "%s: %s\n", l[0], l[1])
			}
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return replaceFile(path, []byte(b.String()), 0o600)
}

// contextOf is a context, by its name or its URL.
func contextOf(name string) (serverContext, error) {
	all, err := readContexts()
	if err != nil {
		return serverContext{}, err
	}
	i := slices.IndexFunc(all, func(c serverContext) bool { return c.Name == name || c.URL == name })
	if i < 0 {
		return serverContext{}, fmt.Errorf("there is no context %q: `slipway context list` shows those that there are, `slipway context add` makes one", name)
	}
	return all[i], nil
}

// serverOf is the server of a context, by its name or its URL.
func serverOf(name string) (control.Server, error) {
	c, err := contextOf(name)
	if err != nil {
		return control.Server{}, err
	}
	s, err := c.open()
	if err != nil {
		return s, fmt.Errorf("context %s: %w", c.Name, err)
	}
	return s, nil
}

const mostSecret = 64 << 10 // bytes of a key or token

// open reads the files of a context. Keys and tokens that others can read are refused.
func (c serverContext) open() (s control.Server, err error) {
	if s, err = c.unnamed(); err != nil {
		return s, err
	}
	ways := 0
	for _, is := range []bool{c.Cert != "" || c.Key != "", c.Token != "", c.Login != ""} {
		if is {
			ways++
		}
	}
	switch {
	case ways != 1, (c.Cert == "") != (c.Key == ""):
		return s, errors.New("it needs either a certificate with its key, a token, or a login")
	case c.Login != "":
		s.Login = (&loginFile{path: c.Login, context: c.Name}).token
		return s, nil
	case c.Token != "":
		text, err := keyfile.Read(c.Token, mostSecret)
		s.Token = strings.TrimSpace(string(text))
		return s, cmp.Or(err, checkToken(c.Token, s.Token))
	}
	cert, err := os.ReadFile(c.Cert)
	if err != nil {
		return s, err
	}
	key, err := keyfile.Read(c.Key, mostSecret)
	if err != nil {
		return s, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return s, fmt.Errorf("%s and %s: %w", c.Cert, c.Key, err)
	}
	s.Certificate = &pair
	return s, nil
}

// unnamed is the server of a context, to which nothing is shown.
func (c serverContext) unnamed() (s control.Server, err error) {
	s.URL = c.URL
	if c.CA == "" {
		return s, nil
	}
	text, err := os.ReadFile(c.CA)
	if err != nil {
		return s, err
	}
	if s.Authorities = x509.NewCertPool(); !s.Authorities.AppendCertsFromPEM(text) {
		return s, fmt.Errorf("there is no certificate in %s", c.CA)
	}
	return s, nil
}

func checkToken(file, text string) error {
	if !strings.HasPrefix(text, access.TokenPrefix) || strings.ContainsAny(text, " \r\n\t") {
		return fmt.Errorf("%s holds no token: one begins with %s", file, access.TokenPrefix)
	}
	return nil
}
