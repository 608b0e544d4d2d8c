package libvirt_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"sync"
	"testing"

	golibvirt "github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"

	"github.com/slipway-gitops/slipway/tests/libvirt"
)

// TestHypervisor has two at a time: neither sees what the other has, and the
// log of each tells what was called.
func TestHypervisor(t *testing.T) {
	one, other := libvirt.Start(t), libvirt.Start(t)
	l := connect(t, one, golibvirt.QEMUSystem)
	define(t, l, "n1")
	if got := names(t, one, golibvirt.QEMUSystem); !slices.Equal(got, []string{"n1"}) {
		t.Errorf("the hypervisor with one guest has %v", got)
	}
	if got := names(t, other, golibvirt.QEMUSystem); len(got) != 0 {
		t.Errorf("the other hypervisor has %v", got)
	}
	if got := names(t, other, golibvirt.TestDefault); !slices.Equal(got, []string{"test"}) {
		t.Errorf("test:///default has %v", got)
	}
	if got := one.Writes(); !slices.Equal(got, []string{"DomainDefineXMLFlags"}) {
		t.Errorf("writes: %v", got)
	}
	if got := one.Calls(); !slices.Contains(got, "ConnectListAllDomains") {
		t.Errorf("calls: %v", got)
	}
	if got := other.Writes(); len(got) != 0 {
		t.Errorf("writes on the other hypervisor: %v", got)
	}
}

// A guest goes on while libvirtd is restarted, and ends with the hypervisor's
// power; only those that start by themselves are there afterwards.
func TestGuestsOutliveLibvirtd(t *testing.T) {
	h := libvirt.Start(t)
	l := connect(t, h, golibvirt.QEMUSystem)
	for _, name := range []string{"asked", "byitself"} {
		d := define(t, l, name)
		if err := l.DomainCreate(d); err != nil {
			t.Fatal(err)
		}
		if name == "byitself" {
			if err := l.DomainSetAutostart(d, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, again := range []struct {
		name    string
		do      func()
		running []string
	}{
		{"restart", h.Restart, []string{"asked", "byitself"}},
		{"kill", func() { h.Kill(); h.Continue() }, []string{"asked", "byitself"}},
		{"reboot", h.Reboot, []string{"byitself"}},
	} {
		again.do()
		if got := running(t, h); !slices.Equal(got, again.running) {
			t.Errorf("after a %s these run: %v", again.name, got)
		}
	}
}

func TestLibvirtOverTLS(t *testing.T) {
	h := libvirt.Start(t)
	pair, err := tls.X509KeyPair([]byte(h.TLS.Certificate), []byte(h.TLS.Key))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(h.TLS.Authority))
	c, err := tls.Dial("tcp", h.Forward(libvirt.Address+":16514"), &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	accepted := make([]byte, 1)
	if _, err := c.Read(accepted); err != nil || accepted[0] != 1 { // libvirt's word that it takes the certificate
		t.Fatalf("answered %v: %v", accepted, err)
	}
	l := golibvirt.NewWithDialer(already{c})
	if err := l.ConnectToURI(golibvirt.QEMUSystem); err != nil {
		t.Fatal(err)
	}
	if _, err := l.ConnectGetHostname(); err != nil {
		t.Error(err)
	}
	if err := l.Disconnect(); err != nil {
		t.Error(err)
	}
}

// Guests reach what the test serves, and the test what guests serve. Each
// hypervisor has a network of its own, with the same addresses.
func TestNetwork(t *testing.T) {
	h, other := libvirt.Start(t), libvirt.Start(t)
	l, err := h.Listen("tcp", libvirt.Address+":80")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := other.Dial(t.Context(), "tcp", libvirt.Address+":80"); err == nil {
		c.Close()
		t.Error("one network reaches into the other")
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, err = c.Write([]byte("hello"))
			if c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	defer served.Wait()
	defer l.Close()
	inside, err := h.Dial(t.Context(), "tcp", libvirt.Address+":80")
	if err != nil {
		t.Fatal(err)
	}
	outside, err := net.Dial("tcp", h.Forward(libvirt.Address+":80"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{inside, outside} {
		said := make([]byte, 5)
		if _, err := c.Read(said); err != nil || string(said) != "hello" {
			t.Errorf("%s said %q: %v", c.RemoteAddr(), said, err)
		}
		c.Close()
	}
}

// already is a connection that is there.
type already struct{ net.Conn }

func (a already) Dial() (net.Conn, error) { return a.Conn, nil }

func connect(t *testing.T, h *libvirt.Hypervisor, uri golibvirt.ConnectURI) *golibvirt.Libvirt {
	t.Helper()
	l := golibvirt.NewWithDialer(dialers.NewLocal(dialers.WithSocket(h.Socket)))
	if err := l.ConnectToURI(uri); err != nil {
		t.Fatal(err)
	}
	return l
}

func names(t *testing.T, h *libvirt.Hypervisor, uri golibvirt.ConnectURI) []string {
	return list(t, h, uri, golibvirt.ConnectListDomainsActive|golibvirt.ConnectListDomainsInactive)
}

func running(t *testing.T, h *libvirt.Hypervisor) []string {
	return list(t, h, golibvirt.QEMUSystem, golibvirt.ConnectListDomainsActive)
}

func list(t *testing.T, h *libvirt.Hypervisor, uri golibvirt.ConnectURI, which golibvirt.ConnectListAllDomainsFlags) (names []string) {
	t.Helper()
	l := connect(t, h, uri)
	domains, _, err := l.ConnectListAllDomains(1, which)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Disconnect(); err != nil {
		t.Error(err)
	}
	for _, d := range domains {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return names
}

// define defines a guest without disks.
func define(t *testing.T, l *golibvirt.Libvirt, name string) golibvirt.Domain {
	t.Helper()
	d, err := l.DomainDefineXMLFlags(`<domain type='qemu'><name>`+name+`</name><memory unit='MiB'>16</memory>
		<os><type arch='x86_64' machine='q35'>hvm</type></os>
		<devices><serial type='pty'><log file='/var/log/libvirt/`+name+`.log'/></serial></devices></domain>`, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
