package sshclient_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	gossh "golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient"
	"github.com/slipway-gitops/slipway/engine/driver/sshclient/sshdtest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// entry logs in, has the host say a word, and returns how it logged in and the host keys.
func entry(t *testing.T, e site.Endpoint, s secret.Value, by driver.HostCertificates) (sshclient.Entry, []string, error) {
	t.Helper()
	c, err := sshclient.Open(e, s)
	if err != nil {
		t.Fatal(err)
	}
	c.CertifyHost(by)
	client, is, err := c.Login(t.Context())
	if err != nil {
		return is, nil, err
	}
	defer client.Close()
	session, err := client.NewSession()
	if err != nil {
		return is, nil, err
	}
	defer session.Close()
	keys, err := is.HostKeys()
	return is, keys, err
}

// A real sshd proves all its host keys on the connection, whichever of them is pinned.
func TestHostKeysAreProven(t *testing.T) {
	h := start(t, "ed25519")
	config, want := "", []string{}
	for _, kind := range []string{"rsa", "ecdsa", "ed25519"} {
		want = append(want, sshdtest.Key(t, h.file("host-"+kind), kind))
		config += "HostKey " + h.file("host-"+kind) + "\n"
	}
	h.address = sshdtest.Serve(t, config+"AuthorizedKeysFile "+h.file("authorized")+"\n")
	for _, pinned := range want {
		is, keys, err := entry(t, h.endpoint(pinned), h.key(t, "user", ""), driver.HostCertificates{})
		slices.Sort(keys)
		slices.Sort(want)
		if err != nil || !slices.Equal(keys, want) || is.Host != site.ByKey {
			t.Errorf("%.20s: by %q: %q, %v", pinned, is.Host, keys, err)
		}
	}
}

// A certificate of the site counts for its node by its serial number, and a pinned key without.
func TestHostsProveThemselvesByCertificatesOfTheSite(t *testing.T) {
	h := start(t, "ed25519")
	other := sshdtest.Key(t, h.file("other"), "ed25519")
	user := h.key(t, "user", "")
	serve := func(name string, args ...string) (address, key string) {
		key = sshdtest.Key(t, h.file(name), "ed25519")
		lines := "HostKey " + h.file(name) + "\nAuthorizedKeysFile " + h.file("authorized") + "\n"
		if len(args) > 0 {
			sshdtest.Sign(t, h.file(args[0]), h.file(name), append([]string{"-h", "-z", "7"}, args[1:]...)...)
			lines += "HostCertificate " + h.file(name) + "-cert.pub\n"
		}
		return sshdtest.Serve(t, lines), key
	}
	good := driver.HostCertificates{Node: "n1", Authorities: []string{h.hostCA}, Serials: []uint64{6, 7}}
	both := driver.HostCertificates{Node: "n1", Authorities: []string{other, h.hostCA}, Serials: []uint64{7}}
	revoked := driver.HostCertificates{Node: "n1", Authorities: []string{h.hostCA}, Serials: []uint64{8}}
	for name, c := range map[string]struct {
		by     driver.HostCertificates
		sign   []string
		pinned bool
		is     string
		says   string
	}{
		"its certificate":                      {good, []string{"hostca", "-n", "n1,10.0.0.1"}, false, site.ByCertificate, ""},
		"of one of two authorities":            {both, []string{"hostca", "-n", "n1"}, false, site.ByCertificate, ""},
		"of another node":                      {good, []string{"hostca", "-n", "n2,127.0.0.1"}, false, "", "does not count for this node|had a host certificate"},
		"without names":                        {good, []string{"hostca"}, false, "", "had a host certificate"},
		"a revoked one":                        {revoked, []string{"hostca", "-n", "n1"}, false, "", "had a host certificate"},
		"of another authority":                 {good, []string{"other", "-n", "n1"}, false, "", "had a host certificate"},
		"that is over":                         {good, []string{"hostca", "-n", "n1", "-V", "20200101Z:20200102Z"}, false, "", "had a host certificate"},
		"of a user":                            {good, nil, false, "", "had a host certificate"},
		"an unknown key":                       {good, nil, false, "", "had a host certificate of this site, and now shows the host key SHA256:"},
		"no certificate, and the pinned key":   {good, nil, true, site.ByKey, ""},
		"revoked, and the pinned key":          {revoked, []string{"hostca", "-n", "n1"}, true, site.ByKey, ""},
		"of another, and the pinned key":       {good, []string{"other", "-n", "n1"}, true, site.ByKey, ""},
		"nothing signed, and the pinned key":   {driver.HostCertificates{}, []string{"hostca", "-n", "n1"}, true, site.ByKey, ""},
		"nothing signed, and an unpinned key":  {driver.HostCertificates{}, []string{"hostca", "-n", "n1"}, false, "", "not one of the pinned ones"},
		"a certificate for nobody":             {driver.HostCertificates{Authorities: good.Authorities, Serials: good.Serials}, []string{"hostca", "-n", "n1"}, false, "", "had a host certificate"},
		"an authority that cannot be read":     {driver.HostCertificates{Node: "n1", Authorities: []string{"x"}, Serials: []uint64{7}}, []string{"hostca", "-n", "n1"}, false, "", "had a host certificate"},
		"in another letter case than its node": {good, []string{"hostca", "-n", "N1"}, false, "", "had a host certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			sub := h
			var key string
			sub.address, key = serve(strings.ReplaceAll(name, " ", "-"), c.sign...)
			pinned := []string{other}
			if c.pinned {
				pinned = append(pinned, key)
			}
			is, _, err := entry(t, sub.endpoint(pinned...), user, c.by)
			says := strings.Split(c.says, "|")
			isSaid := slices.ContainsFunc(says, func(s string) bool { return err != nil && strings.Contains(err.Error(), s) })
			if is.Host != c.is || (c.says == "") != (err == nil) || err != nil && (!errors.Is(err, driver.ErrRefused) || !isSaid) {
				t.Errorf("by %q, %v", is.Host, err)
			}
		})
	}
}

// A certificate of somebody else for another of its keys than the pinned one locks nobody out.
func TestForeignCertificateOfAnotherKey(t *testing.T) {
	h := start(t, "ed25519")
	for _, kind := range []string{"ecdsa", "rsa"} {
		sshdtest.Key(t, h.file(kind), kind)
	}
	sshdtest.Sign(t, h.file("userca"), h.file("ecdsa"), "-h", "-n", "n1")
	h.address = sshdtest.Serve(t, fmt.Sprintf("HostKey %[1]s/host\nHostKey %[1]s/ecdsa\nHostCertificate %[1]s/ecdsa-cert.pub\nAuthorizedKeysFile %[1]s/authorized\n", h.dir))
	is, _, err := entry(t, h.endpoint(h.hostKey), h.key(t, "user", ""), driver.HostCertificates{Node: "n1", Authorities: []string{h.hostCA}, Serials: []uint64{7}})
	if err != nil || is.Host != site.ByKey {
		t.Errorf("by %q, %v", is.Host, err)
	}
}

// A host of an authority in trust.hostKeys that shows a certificate of somebody else for one of its keys is known by
// the pinned one, and what is wrong with the certificate is said where it is not.
func TestForeignCertificateBesideAnAuthority(t *testing.T) {
	h := start(t, "ed25519")
	other := sshdtest.Key(t, h.file("other"), "ed25519")
	sshdtest.Key(t, h.file("rsa"), "rsa")
	sshdtest.Sign(t, h.file("userca"), h.file("rsa"), "-h", "-n", "n1")
	h.address = sshdtest.Serve(t, fmt.Sprintf("HostKey %[1]s/host\nHostKey %[1]s/rsa\nHostCertificate %[1]s/rsa-cert.pub\nAuthorizedKeysFile %[1]s/authorized\n", h.dir))
	counts := driver.HostCertificates{Node: "n1", Authorities: []string{h.hostCA}, Serials: []uint64{7}}
	for name, by := range map[string]driver.HostCertificates{"nothing signed": {}, "others count": counts} {
		is, _, err := entry(t, h.endpoint("@cert-authority "+other, h.hostKey), h.key(t, "user", ""), by)
		if err != nil || is.Host != site.ByKey {
			t.Errorf("%s: by %q, %v", name, is.Host, err)
		}
		_, _, err = entry(t, h.endpoint("@cert-authority "+other, other), h.key(t, "user", ""), by)
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "a host certificate that proves nothing: ") {
			t.Errorf("%s, and another key is pinned: %v", name, err)
		}
	}
}

// serveTelling is a host that tells of host keys and answers how it proves them as a test says.
func serveTelling(t *testing.T, tell []byte, prove func(session, asked []byte) (bool, []byte)) (address, key string) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := gossh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	config := &gossh.ServerConfig{NoClientAuth: true, PublicKeyCallback: func(gossh.ConnMetadata, gossh.PublicKey) (*gossh.Permissions, error) { return nil, nil }}
	config.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				conn, channels, requests, err := gossh.NewServerConn(raw, config)
				if err != nil {
					return
				}
				defer conn.Close()
				conn.SendRequest("hostkeys-00@openssh.com", false, tell)
				go func() {
					for r := range requests {
						ok, answer := prove(conn.SessionID(), r.Payload)
						r.Reply(ok, answer)
					}
				}()
				for c := range channels {
					if ch, in, err := c.Accept(); err == nil {
						go func() {
							defer ch.Close()
							gossh.DiscardRequests(in)
						}()
					}
				}
			}()
		}
	}()
	return l.Addr().String(), strings.TrimSpace(string(gossh.MarshalAuthorizedKey(signer.PublicKey())))
}

// A host gets no key counted that it does not prove to have: another node's, one that was signed for on
// another connection, or nonsense.
func TestForeignHostKeysAreNotProven(t *testing.T) {
	h := start(t, "ed25519")
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := gossh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	str := func(b []byte) []byte { return gossh.Marshal(struct{ S string }{string(b)}) }
	blob := signer.PublicKey().Marshal()
	signs := func(what string, session []byte) []byte {
		s, err := signer.Sign(rand.Reader, gossh.Marshal(struct{ A, B, C string }{what, string(session), string(blob)}))
		if err != nil {
			t.Error(err)
			return nil
		}
		return str(gossh.Marshal(s))
	}
	const proves = "hostkeys-prove-00@openssh.com"
	for name, c := range map[string]struct {
		tell  []byte
		prove func(session, asked []byte) (bool, []byte)
		says  string
		keys  int
	}{
		"its own key":           {str(blob), func(session, _ []byte) (bool, []byte) { return true, signs(proves, session) }, "", 1},
		"another node's key":    {str(blob), func(_, _ []byte) (bool, []byte) { return false, nil }, "does not prove that it has", 0},
		"of another session":    {str(blob), func(_, _ []byte) (bool, []byte) { return true, signs(proves, []byte("another")) }, "does not prove that it has the host key SHA256:", 0},
		"signed for else":       {str(blob), func(session, _ []byte) (bool, []byte) { return true, signs("else", session) }, "does not prove", 0},
		"no signature":          {str(blob), func(_, _ []byte) (bool, []byte) { return true, nil }, "does not prove", 0},
		"a cut off signature":   {str(blob), func(session, _ []byte) (bool, []byte) { return true, signs(proves, session)[:20] }, "does not prove", 0},
		"nothing":               {nil, nil, "", 0},
		"no list":               {[]byte{0, 0, 0, 200, 1}, nil, "cannot be read", 0},
		"no keys":               {str([]byte("\x1b[2J")), nil, "", 0},
		"a key of 200 KiB":      {str(gossh.Marshal(struct{ A, B string }{"ssh-ed25519", strings.Repeat("x", 200<<10)})), nil, "", 0},
		"the same key 99 times": {[]byte(strings.Repeat(string(str(blob)), 99)), func(session, _ []byte) (bool, []byte) { return true, signs(proves, session) }, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			sub := h
			var pinned string
			sub.address, pinned = serveTelling(t, c.tell, c.prove)
			_, keys, err := entry(t, sub.endpoint(pinned), h.key(t, "user", ""), driver.HostCertificates{})
			if len(keys) != c.keys || (c.says == "") != (err == nil) || err != nil && (!errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %q, %v", keys, err)
			}
		})
	}
}
