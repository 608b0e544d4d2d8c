package engine

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sshca"
)

// loginLife is how long a certificate is valid that the daemon logs in with.
const loginLife = 5 * time.Minute

// mostAccount bounds what is repeated of the name of an account, in bytes.
const mostAccount = 64

// loginAuthorityLocked is the authority that signs certificates for logins. Where the design
// names authorities the daemon's has to be one of them; the error says why none signs.
func (e *Engine) loginAuthorityLocked() (*sshca.Authority, error) {
	var designed site.SSHAuthorities
	if e.design != nil {
		designed = e.design.SSH
	}
	if e.Key == nil {
		return nil, errors.New("this daemon has no site key, and its SSH authority is derived from that key: restore the key with `slipway site import-key`")
	}
	a, err := sshca.Users(e.Key, e.Site, designed.Epoch)
	if err != nil {
		return nil, err
	}
	own := item.Fingerprint(a.Public())
	if len(designed.Users) > 0 && !slices.ContainsFunc(designed.Users, func(key string) bool { return item.Fingerprint(key) == own }) {
		return nil, fmt.Errorf("the design names other SSH authorities than this daemon's, %s: correct site.ssh (`slipway site ssh-authority` shows it), or put the right site key back", a.Public())
	}
	return a, nil
}

// authorityTroubleLocked says why nobody gets a certificate that the design has in mind; empty
// where it has none in mind, or all do.
func (e *Engine) authorityTroubleLocked() string {
	if e.design == nil {
		return ""
	}
	if _, err := e.tlsAuthorityLocked(); err != nil {
		return "Slipway signs no TLS certificates: " + err.Error()
	}
	if len(e.design.SSH.Users) == 0 {
		return ""
	}
	if _, err := e.loginAuthorityLocked(); err != nil {
		return "Slipway signs no SSH certificates: " + err.Error()
	}
	if _, err := e.hostAuthorityLocked(); err != nil {
		return "Slipway signs no certificates of SSH host keys: " + err.Error()
	}
	return ""
}

func (e *Engine) loginAuthority() (*sshca.Authority, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.loginAuthorityLocked()
}

// certificates are what the daemon logs in to a node's system with, to an account. Where the
// design no longer asks for them, and the system was seen to let them in, they come after the
// credential.
func (w *worker) certificates(n *site.Node, account string) driver.Certificates {
	seen := w.job().memory.Observed.Facets[site.FacetBase]
	accounts := n.SSHAccounts(seen.System)
	isAsked := slices.Contains(accounts, account)
	a, err := w.e.loginAuthority()
	switch {
	case !isAsked && len(accounts) > 0:
		return driver.Certificates{Why: fmt.Sprintf("the account %s of the credential is not in system.ssh.accounts", account)}
	case !isAsked && !slices.Contains(seen.Owned, item.KindSSH):
		return driver.Certificates{}
	case err != nil && isAsked:
		return driver.Certificates{Why: err.Error()}
	case err != nil:
		return driver.Certificates{}
	}
	// Not bound to an address: a forward on the way would have the node refuse it.
	return driver.Certificates{Last: !isAsked, Sign: func(key, account string) (string, error) {
		c, err := a.Certify(key, sshca.Login{Node: n.Name, Account: account, For: "daemon", Life: loginLife}, time.Now())
		return c.Line, err
	}}
}

// certify says what the machine logs in with from now on.
func (w *worker) certify(n *site.Node, kind site.EndpointKind, c *connection) {
	if proves, ok := driver.As[driver.HostCertified](c.machine); ok && kind == site.OS {
		proves.CertifyHost(w.hostCertificates(n))
	}
	if has, ok := driver.As[driver.TLSCertified](c.machine); ok && kind == site.OS {
		has.CertifyTLS(w.tlsCertificates(n))
	}
	able, ok := driver.As[driver.Certified](c.machine)
	if kind != site.OS || !ok {
		return
	}
	by := w.certificates(n, c.value.Username())
	c.certified = by.Sign != nil
	able.Certify(by)
}

// CertifyLogin signs a certificate by which a person logs in to a node's system, and records
// whose it is before it gives it. Its errors wrap site.ErrNotFound and site.ErrRefused.
func (e *Engine) CertifyLogin(ctx context.Context, r site.SSHRequest) (site.SSHGrant, error) {
	select {
	case <-e.ready:
	case <-ctx.Done():
		return site.SSHGrant{}, ctx.Err()
	}
	g, a, err := e.admitLogin(r)
	if err != nil {
		return site.SSHGrant{}, err
	}
	asked := g
	c, err := a.Certify(r.Key, sshca.Login{
		Node: g.Node, Account: g.Account, For: item.PersonalLogin(site.Printable(r.By)), Life: time.Duration(r.Life), Terminal: true,
	}, time.Now())
	if err != nil {
		return site.SSHGrant{}, fmt.Errorf("%w: %w", site.ErrRefused, err)
	}
	g.Certificate, g.Serial, g.Principal, g.Until = c.Line, c.Serial, strings.Join(c.Names, ", "), c.Until
	e.note(site.Event{Node: g.Node, Kind: site.EventOrder, By: r.By, Text: fmt.Sprintf("SSH certificate %d for %s, valid until %s",
		c.Serial, g.Principal, c.Until.Format(time.DateTime)+"Z")})
	if err := e.writeHistory(ctx); err != nil {
		return site.SSHGrant{}, fmt.Errorf("no certificate was signed, because it could not be recorded: %w", err)
	}
	// Check again: the node may have been quarantined meanwhile, or the design changed.
	switch now, by, err := e.admitLogin(r); {
	case err != nil:
		return site.SSHGrant{}, fmt.Errorf("certificate %d was not given: %w", c.Serial, err)
	case !reflect.DeepEqual(now, asked) || by.Public() != a.Public():
		return site.SSHGrant{}, fmt.Errorf("%w: certificate %d was not given, because the design of %s has changed meanwhile: ask again", site.ErrRefused, c.Serial, r.Node)
	}
	return g, nil
}

// admitLogin says where a person is to log in, or why they may not.
func (e *Engine) admitLogin(r site.SSHRequest) (site.SSHGrant, *sshca.Authority, error) {
	e.mu.Lock()
	w := e.workers[r.Node]
	barred := e.anchor.barred
	var revoked site.SSHRevoked
	if e.design != nil {
		revoked = e.design.SSH.Revoked
	}
	a, noAuthority := e.loginAuthorityLocked()
	var state site.NodeStatus
	var counting []site.HostCertificate
	var hosts []string
	if w != nil {
		state = w.status
		counting, hosts = w.identityLocked()
	}
	e.mu.Unlock()
	no := func(format string, args ...any) (site.SSHGrant, *sshca.Authority, error) {
		return site.SSHGrant{}, nil, fmt.Errorf("%w: "+format, append([]any{site.ErrRefused}, args...)...)
	}
	if w == nil {
		return site.SSHGrant{}, nil, fmt.Errorf("%w: site %s has no node %q", site.ErrNotFound, e.Site, r.Node)
	}
	j := w.job()
	accounts := j.node.SSHAccounts(j.memory.Observed.Facets[site.FacetBase].System)
	account := r.Account
	if account == "" && len(accounts) > 0 {
		account = accounts[0]
	}
	ep := e.trusted(j.node, site.OS, j.memory.Recorded)
	u, err := url.Parse(ep.URL)
	switch {
	case barred != "":
		return no("this daemon does not act for the site: %s", barred)
	case e.ObserveOnly:
		return no("this daemon only observes, and signs nothing")
	case slices.ContainsFunc(revoked.People, func(name string) bool { return item.StandsFor(name, r.By) }):
		return no("the design revokes the logins of %s: see site.ssh.revoked.people", r.By)
	case slices.ContainsFunc(revoked.Keys, func(key string) bool { return item.Fingerprint(key) == item.Fingerprint(r.Key) }):
		return no("the design revokes the key %s: see site.ssh.revoked.keys. Make another one with ssh-keygen", item.Fingerprint(r.Key))
	case err != nil || u.Hostname() == "":
		return no("%s has no endpoint os in the design, so Slipway does not know where to log in", r.Node)
	case j.leaving:
		return no("%s is no longer in the design, which says who may log in: put it back, or log in by the credential", r.Node)
	case len(accounts) == 0:
		return no("the design opens no account of %s to certificates: add system: ssh: accounts: [\"root\"] to the node or its profile, and an authority to site.ssh.users", r.Node)
	case !slices.Contains(accounts, account):
		return no("the design opens only these accounts of %s to certificates: %s. Add %s to system.ssh.accounts", r.Node, strings.Join(accounts, ", "), site.Printable(account[:min(len(account), mostAccount)]))
	case noAuthority != nil:
		return no("%w", noAuthority)
	case j.memory.Recorded.Quarantined != nil:
		return no("%s is under quarantine: %s. Slipway signs no certificate for it until you run `%s`", r.Node, j.memory.Recorded.Quarantined.Reason, j.memory.Recorded.Quarantined.Release(r.Node))
	case state.State == site.Foreign:
		return no("Slipway does not know the system on %s, so it signs no certificate for it: %s", r.Node, state.Reason)
	case len(ep.Trust.HostKeys) == 0 && len(counting) == 0:
		return no("Slipway knows no host key of %s, so nobody could tell whether somebody intercepts the login: add the key to endpoints.os.trust.hostKeys", r.Node)
	}
	g := site.SSHGrant{Node: r.Node, Account: account, Host: u.Hostname(), Port: 22, HostKeys: ep.Trust.HostKeys}
	if u.Port() != "" {
		fmt.Sscan(u.Port(), &g.Port)
	}
	if err := proveHost(&g, j.memory.Observed.Login, hosts, counting); err != nil {
		return no("%w", err)
	}
	return g, a, nil
}

// proveHost has a system prove itself to a person by its host certificates too, if the last login of the daemon was by one, or
// if no host key is known: a certificate that is not among those that count ends the login, although the key that it
// certifies is known. Certificates of the design's own authorities name the address, and not the node.
func proveHost(g *site.SSHGrant, last *site.Login, authorities []string, counting []site.HostCertificate) (err error) {
	isSigned := slices.ContainsFunc(g.HostKeys, func(line string) bool { return strings.HasPrefix(line, "@cert-authority ") })
	isShown := last != nil && last.Host == site.ByCertificate
	if len(counting) == 0 || isSigned || !isShown && len(g.HostKeys) > 0 {
		return nil
	}
	if g.RevokedHostKeys, err = item.HostKRL(authorities, serialsOf(counting)); err == nil {
		g.HostAuthorities = authorities
	}
	return err
}
