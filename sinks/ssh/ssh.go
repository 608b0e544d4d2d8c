// Package ssh is the driver for installed operating systems: it looks inside,
// over SSH, and changes nothing. One connection with one command tells which
// installation runs, since which boot, and what it is.
package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Scheme is what endpoint URLs of this driver begin with.
const Scheme = "ssh"

// The bounds of one look.
const (
	dialTimeout = 10 * time.Second
	lookTimeout = 30 * time.Second
	maxOutput   = 64 << 10
)

// Driver opens installed systems.
type Driver struct{}

// New makes a driver.
func New() *Driver { return &Driver{} }

// Facets lists what the driver sees.
func (*Driver) Facets() []site.Facet { return []site.Facet{site.FacetOS} }

// Open checks the endpoint, ssh://[USER@]HOST[:PORT]; every look makes its own
// connection. The credential's secret is a private key in PEM form, or else a
// password; its user name goes before the one in the URL.
func (*Driver) Open(_ context.Context, e site.Endpoint, s secret.Value) (driver.Machine, error) {
	u, err := url.Parse(e.URL)
	if err != nil || u.Scheme != Scheme || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
		return nil, refused("the endpoint %q is not of the form ssh://[USER@]HOST[:PORT]", e.URL)
	}
	if _, has := u.User.Password(); has {
		return nil, refused("the endpoint of %s holds a password, which does not belong into Git; name a credential instead", u.Host)
	}
	m := &machine{address: net.JoinHostPort(u.Hostname(), orDefault(u.Port(), "22"))}
	m.user = orDefault(s.Username(), u.User.Username())
	if m.user == "" {
		return nil, refused("no user to log in to %s as; name a credential that has one, or write ssh://USER@%s", u.Host, u.Host)
	}
	if m.auth, err = authBy(s); err != nil {
		return nil, err
	}
	m.pinned, err = pins(e.Trust.HostKeys, u.Host)
	return m, err
}

func orDefault(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}

// authBy makes the one way to log in; each look tries it once.
func authBy(s secret.Value) (gossh.AuthMethod, error) {
	if !strings.HasPrefix(strings.TrimSpace(s.Reveal()), "-----BEGIN ") {
		return gossh.Password(s.Reveal()), nil
	}
	signer, err := gossh.ParsePrivateKey([]byte(s.Reveal()))
	var locked *gossh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, fmt.Errorf("%w: the private key needs a passphrase; nobody is there to type it, store the key without one", driver.ErrDenied)
	case err != nil:
		return nil, fmt.Errorf("%w: the private key cannot be read; it must be in PEM form as ssh-keygen writes it", driver.ErrDenied)
	}
	return gossh.PublicKeys(signer), nil
}

func pins(lines []string, host string) ([]gossh.PublicKey, error) {
	var keys []gossh.PublicKey
	for i, line := range lines {
		key, _, _, _, err := gossh.ParseAuthorizedKey([]byte(line))
		if err != nil {
			return nil, refused("trust.hostKeys[%d] of %s is not a public key like `ssh-ed25519 AAAA…`", i, host)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// machine is a handle on one installed system.
type machine struct {
	address string
	user    string
	auth    gossh.AuthMethod
	pinned  []gossh.PublicKey
}

// Close has nothing to end: connections end with each look.
func (m *machine) Close() error { return nil }

// Apply takes no step: the driver only observes.
func (m *machine) Apply(_ context.Context, step site.Step, _ *site.Node, _ site.Observed) error {
	return fmt.Errorf("%s: systems are only observed over SSH: %w", step.Action, errors.ErrUnsupported)
}

// Observe looks inside once. SSH tells nothing of the machine's own identity,
// since an installed system can be moved to another machine with its disk.
func (m *machine) Observe(ctx context.Context, _ *site.Node, facets []site.Facet) (site.Observed, error) {
	if !slices.Contains(facets, site.FacetOS) {
		return site.Observed{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	output, err := m.run(ctx, command)
	if err != nil {
		return site.Observed{}, err
	}
	r, ok := parse(output)
	if !ok {
		return site.Observed{}, refused("the system at %s did not answer as a Linux shell does; it begins with %.80q", m.address, output)
	}
	have := site.Values{"bootID": r.bootID, "release": r.release, "kernel": r.kernel}
	return site.Observed{
		Facets: map[site.Facet]site.FacetState{site.FacetOS: {Have: have, Seen: time.Now(), Driver: Scheme}},
		Marker: r.marker,
	}, nil
}

// run runs one command on one connection. The context's end closes the
// connection, which ends whatever waits for it.
func (m *machine) run(ctx context.Context, command string) ([]byte, error) {
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", m.address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	client, err := m.handshake(conn)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	output, err := execute(client, command)
	if err == nil || errors.Is(err, driver.ErrRefused) {
		return output, err
	}
	return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, errors.Join(err, ctx.Err()))
}

func (m *machine) handshake(conn net.Conn) (*gossh.Client, error) {
	var untrusted error
	c, channels, requests, err := gossh.NewClientConn(conn, m.address, &gossh.ClientConfig{
		User:              m.user,
		Auth:              []gossh.AuthMethod{m.auth},
		HostKeyAlgorithms: algorithms(m.pinned),
		HostKeyCallback: func(_ string, _ net.Addr, key gossh.PublicKey) error {
			untrusted = m.check(key)
			return untrusted
		},
	})
	switch {
	case untrusted != nil:
		return nil, untrusted
	case err != nil && strings.Contains(err.Error(), "unable to authenticate"): // x/crypto has no type for it
		return nil, fmt.Errorf("%w: %s does not let %s in with this credential", driver.ErrDenied, m.address, m.user)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
	}
	return gossh.NewClient(c, channels, requests), nil
}

// check holds the host key against the pinned ones. It runs before the
// credential is sent.
func (m *machine) check(key gossh.PublicKey) error {
	for _, pin := range m.pinned {
		if string(pin.Marshal()) == string(key.Marshal()) {
			return nil
		}
	}
	line := strings.TrimSpace(string(gossh.MarshalAuthorizedKey(key)))
	if len(m.pinned) == 0 {
		return refused("no host key is pinned for %s; it shows %s; if that is its key, add `%s` to trust.hostKeys of the endpoint",
			m.address, gossh.FingerprintSHA256(key), line)
	}
	return refused("%s shows the host key %s, which is none of the pinned ones; if the system was installed anew put `%s` into trust.hostKeys of the endpoint, if not somebody may be in between",
		m.address, gossh.FingerprintSHA256(key), line)
}

// algorithms asks for the kinds of the pinned keys before all others, so that
// a host with several keys shows the one that is pinned.
func algorithms(pinned []gossh.PublicKey) []string {
	var first []string
	for _, key := range pinned {
		if key.Type() == gossh.KeyAlgoRSA {
			first = append(first, gossh.KeyAlgoRSASHA512, gossh.KeyAlgoRSASHA256)
			continue
		}
		first = append(first, key.Type())
	}
	others := slices.DeleteFunc(gossh.SupportedAlgorithms().HostKeys, func(a string) bool { return slices.Contains(first, a) })
	return append(first, others...)
}

// execute runs a command and returns what it printed. Its exit status says
// nothing: what could be read is in the output.
func execute(client *gossh.Client, command string) ([]byte, error) {
	session, err := client.NewSession()
	if err != nil {
		return nil, err
	}
	defer session.Close()
	stdout, err := session.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := session.Start(command); err != nil {
		return nil, err
	}
	output, err := io.ReadAll(io.LimitReader(stdout, maxOutput+1))
	if err != nil {
		return nil, err
	}
	if len(output) > maxOutput {
		return nil, refused("the system at %s answered with more than %d KiB", client.RemoteAddr(), maxOutput>>10)
	}
	var status *gossh.ExitError
	if err := session.Wait(); err != nil && !errors.As(err, &status) {
		return nil, err
	}
	return output, nil
}

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrRefused}, args...)...)
}
