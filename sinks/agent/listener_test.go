package agent_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/run"
	"github.com/slipway-gitops/slipway/sinks/agent/start"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// desk is a listener on the loopback, and what it tells.
type desk struct {
	*agent.Listener
	t       *testing.T
	address string
	ca      []byte // the digest of its authority
	mu      sync.Mutex
	told    []string
	said    []string // by agents, of their work
	clock   time.Time
}

func (d *desk) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clock
}

func (d *desk) passes(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock = d.clock.Add(by)
}

func newDesk(t *testing.T) *desk {
	d := &desk{t: t, clock: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	authority, certificate := daemonCertificate(t, time.Now())
	digest := sha256.Sum256(authority)
	d.ca = digest[:]
	d.Listener = agent.NewListener(agent.ListenerOptions{Site: "lab", Certificate: certificate, Now: d.now, Tell: func(node, text string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.told = append(d.told, node+": "+text)
	}, Say: func(node, text string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.said = append(d.said, node+": "+text)
	}})
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d.address = on.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.Serve(ctx, on) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return d
}

// daemonCertificate is an authority's certificate, and one of 127.0.0.1 that is valid from a
// time on.
func daemonCertificate(t *testing.T, from time.Time) (authority []byte, daemon tls.Certificate) {
	t.Helper()
	make := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	ca, own := make(), make()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: from, NotAfter: from.Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	authority, err := x509.CreateCertificate(rand.Reader, root, root, ca.Public(), ca)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: from.Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, leaf, root, own.Public(), ca)
	if err != nil {
		t.Fatal(err)
	}
	return authority, tls.Certificate{Certificate: [][]byte{der, authority}, PrivateKey: own}
}

const (
	uuidOne = "0c5e1a52-93d4-4b6c-8f0e-7a2f9c31d5b8"
	uuidTwo = "1f5e1a52-93d4-4b6c-8f0e-7a2f9c31d5b8"
	macOne  = "52:54:00:00:00:01"
	macTwo  = "52:54:00:00:00:02"
)

// machineOne is a machine as its agent tells of it.
func machineOne() wire.Machine {
	up := true
	return wire.Machine{
		UUID: uuidOne, Serial: "S-1", Manufacturer: "Acme", Product: "Box\x1b[31m", MemoryBytes: 32 << 30,
		Ports: []wire.Port{{Name: "eth0", MAC: macTwo}, {Name: "eth1", MAC: strings.ToUpper(macOne), Driver: "ice", Carrier: &up, Mbps: 25000}},
		Disks: []item.Disk{{Name: "nvme0n1", Bytes: 1 << 40, Model: "Fast", Serial: "N1", Kind: "nvme"}, {Name: "sda", Bytes: 1 << 41, Kind: "hdd"}},
	}
}

func bootOne() agent.Boot {
	return agent.Boot{Node: "n1", Machine: site.Identity{UUID: uuidOne, Serial: "S-1", MAC: macOne}, MACs: []string{"52:54:00:00:00:09", macTwo}}
}

func (d *desk) expect(b agent.Boot) string {
	d.t.Helper()
	token, err := d.Expect(b)
	if err != nil {
		d.t.Fatal(err)
	}
	return token
}

// caller is an agent of its own boot.
func (d *desk) caller(token string, is wire.Machine) *start.Caller {
	d.t.Helper()
	c := &start.Caller{
		Settings: start.Settings{Daemon: d.address, CA: d.ca, Token: token}, Machine: func() wire.Machine { return is },
		Program: &run.Program{Host: inside.Real(d.t.TempDir(), false), Machine: func(context.Context, *inside.Host) wire.Machine { return is },
			Hardware: func(context.Context, *inside.Host, item.PCIProbe) (string, item.PCI) {
				return "Box", item.PCI{IDs: []string{"8086:1592", "no id"}}
			}},
		Welcomed: func(wire.Welcome) {},
	}
	if err := c.NewKey(); err != nil {
		d.t.Fatal(err)
	}
	return c
}

// stays has an agent call, and gives what ends its connection and the error of that.
func (d *desk) stays(c *start.Caller) (end context.CancelFunc, ended <-chan error) {
	d.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	d.t.Cleanup(cancel)
	welcomed, done := make(chan wire.Welcome, 1), make(chan error, 1)
	c.Welcomed = func(w wire.Welcome) { welcomed <- w }
	go func() { done <- c.Call(ctx, "") }()
	select {
	case w := <-welcomed:
		if w.Site != "lab" || w.Node != "n1" || w.Version != wire.Version {
			d.t.Errorf("welcomed with %+v", w)
		}
	case err := <-done:
		d.t.Fatal(err)
	}
	return cancel, done
}

// refuses holds an agent to be refused, with a sentence.
func (d *desk) refuses(c *start.Caller, says string) {
	d.t.Helper()
	var no *start.RefusedError
	if err := c.Call(context.Background(), ""); !errors.As(err, &no) || !strings.Contains(no.Text, says) {
		d.t.Errorf("got %v, want a refusal with %q", err, says)
	}
}

func (d *desk) agent(node string) driver.Machine {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	m, err := d.Agent(ctx, node)
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

// An agent with the right token on the right machine is the node's machine, which tells what it
// is made of and changes nothing.
func TestAgentInMemory(t *testing.T) {
	d := newDesk(t)
	token := d.expect(bootOne())
	d.stays(d.caller(token, machineOne()))
	m := d.agent("n1")
	seen, err := m.Observe(context.Background(), &site.Node{Name: "n1"}, []site.Facet{site.FacetBase})
	if err != nil || seen.Identity != (site.Identity{UUID: uuidOne, Serial: "S-1"}) || len(seen.Facets) != 0 || seen.Inventory.Model != "Box[31m" || seen.Inventory.MemoryGiB != 32 {
		t.Errorf("got %+v, %v", seen, err)
	}
	i, err := m.(driver.Inspector).Inspect(context.Background(), &site.Node{Name: "n1"})
	if err != nil || len(i.Drives) != 2 || i.Drives[0].Serial != "N1" || i.Drives[0].Protocol != "NVMe" || i.Drives[1].Media != "HDD" || i.NICs[1].Ports[0].Mbps != 25000 || i.NICs[0].Ports[0].Link != "" || len(i.Devices) != 1 || i.Devices[0].ID != "8086:1592" || len(i.Missing) > 0 {
		t.Errorf("got %+v, %v", i, err)
	}
	is, err := m.(driver.Identifier).Identify(context.Background(), site.Identity{MAC: macOne})
	if err != nil || is.MAC != macOne {
		t.Errorf("got %+v, %v", is, err)
	}
	if err := m.Apply(context.Background(), site.Step{Action: "install"}, &site.Node{Name: "n1"}, nil); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	if d.mu.Lock(); len(d.told) != 1 || !strings.Contains(d.told[0], uuidOne) || strings.Contains(d.told[0], token) {
		t.Errorf("told %q", d.told)
	}
	d.mu.Unlock()
}

// A connection that is lost is made again by the same agent, with the same token and its key.
func TestAgentCallsAgain(t *testing.T) {
	d := newDesk(t)
	c := d.caller(d.expect(bootOne()), machineOne())
	end, ended := d.stays(c)
	first := d.agent("n1")
	end()
	<-ended
	if _, err := first.Observe(context.Background(), &site.Node{Name: "n1"}, nil); !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("over a lost connection: %v", err)
	}
	d.stays(c)
	if _, err := d.agent("n1").Observe(context.Background(), &site.Node{Name: "n1"}, nil); err != nil {
		t.Error(err)
	}
	d.Forget("n1")
	d.refuses(c, "No boot waits for this token")
	if _, err := d.Agent(context.Background(), "n1"); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("of a node that is forgotten: %v", err)
	}
}

// Who is not the node's machine, or not the agent of its boot, is refused, and is told why.
func TestAgentsThatAreRefused(t *testing.T) {
	old := func(c *start.Caller, d *desk) error {
		return d.say(c, wire.Hello{Version: wire.Version - 1, Token: c.Settings.Token, Machine: c.Machine()})
	}
	changed := func(change func(m *wire.Machine)) wire.Machine {
		m := machineOne()
		change(&m)
		return m
	}
	for name, c := range map[string]struct {
		is    wire.Machine
		token func(d *desk, token string) string
		call  func(c *start.Caller, d *desk) error
		says  string
	}{
		"another UUID":        {is: changed(func(m *wire.Machine) { m.UUID = uuidTwo }), says: "this is another machine: its UUID is " + uuidTwo},
		"no UUID":             {is: changed(func(m *wire.Machine) { m.UUID = "" }), says: "its UUID is none, and that of n1 is " + uuidOne},
		"a placeholder":       {is: changed(func(m *wire.Machine) { m.UUID = "03000200-0400-0500-0006-000700080009" }), says: "its UUID is none"},
		"another serial":      {is: changed(func(m *wire.Machine) { m.Serial = "S-2" }), says: "its serial number is S-2, and that of n1 is S-1"},
		"another port":        {is: changed(func(m *wire.Machine) { m.Ports = m.Ports[:1] }), says: "no port with the MAC address " + macOne},
		"no designed port":    {is: changed(func(m *wire.Machine) { m.Ports = m.Ports[1:] }), says: "no port with one of the MAC addresses of n1"},
		"no token":            {token: func(*desk, string) string { return "" }, says: "No boot over the network waits for this machine"},
		"a token of nobody":   {token: func(_ *desk, token string) string { return token[1:] + "a" }, says: "No boot waits for this token"},
		"the token of before": {token: func(d *desk, token string) string { d.expect(bootOne()); return token }, says: "No boot waits for this token"},
		"a token that ended":  {token: func(d *desk, token string) string { d.passes(2 * time.Hour); return token }, says: "The token for n1 has ended at 2026-03-04T06:06:07Z"},
		"an old protocol":     {call: old, says: "The agent speaks version 2 of the protocol, and the daemon speaks 3."},
		"another node's token": {token: func(d *desk, _ string) string {
			return d.expect(agent.Boot{Node: "n2", Machine: site.Identity{UUID: uuidTwo}})
		}, says: "The token is for n2, and this machine is n1."},
		"a used token": {token: func(d *desk, token string) string { d.stays(d.caller(token, machineOne())); return token },
			says: "The token for n1 was used before, by another agent."},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			b := bootOne()
			b.Until = d.now().Add(time.Hour)
			token, is := d.expect(b), c.is
			if c.token != nil {
				token = c.token(d, token)
			}
			if c.is.Product == "" {
				is = machineOne()
			}
			caller := d.caller(token, is)
			if c.call == nil {
				d.refuses(caller, c.says)
			} else if err := c.call(caller, d); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if d.mu.Lock(); !slices.ContainsFunc(d.told, func(s string) bool { return strings.Contains(s, c.says) }) {
				t.Errorf("told %q", d.told)
			}
			d.mu.Unlock()
			// Nobody can ask it to install anything. Who used the token before stays connected.
			if d.Connected("n1") != nil != (name == "a used token") {
				t.Error("the agent of n1 is another one than before")
			}
		})
	}
}

// A machine that a design does not tell from others is never expected.
func TestNothingToKnowAMachineBy(t *testing.T) {
	d := newDesk(t)
	if _, err := d.Expect(agent.Boot{Node: "n1", Machine: site.Identity{Serial: "To be filled by O.E.M.", Slot: "1"}}); err == nil || !strings.Contains(err.Error(), "no UUID, serial number or MAC address") {
		t.Error(err)
	}
}

// raw is a connection of somebody who speaks TLS and then what he wants.
func (d *desk) raw(key bool) *tls.Conn {
	d.t.Helper()
	config := &tls.Config{InsecureSkipVerify: true}
	if key {
		_, own := daemonCertificate(d.t, time.Now())
		config.Certificates = []tls.Certificate{own}
	}
	conn, err := tls.Dial("tcp", d.address, config)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	return conn
}

func (d *desk) say(_ *start.Caller, h wire.Hello) error {
	conn := d.raw(true)
	if err := wire.Write(conn, h); err != nil {
		return err
	}
	var w wire.Welcome
	if err := wire.Read(conn, &w); err != nil {
		return err
	}
	return errors.New(w.Refused)
}

// What is no agent is cut off without an answer, and the next agent is served.
func TestStrangersAreCutOff(t *testing.T) {
	d := newDesk(t)
	token := d.expect(bootOne())
	for name, octets := range map[string]string{
		"a request of HTTP": "GET / HTTP/1.1\r\n\r\n", "a frame that is too large": "\x00\x10\x00\x00{}", "no JSON": "\x00\x00\x00\x02{]", "another kind": "\x00\x00\x00\x02[]",
	} {
		conn := d.raw(true)
		if _, err := conn.Write([]byte(octets)); err != nil {
			t.Fatal(err)
		}
		if answer, err := io.ReadAll(conn); len(answer) > 0 || err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: answered %q, %v", name, answer, err)
		}
	}
	if answer, err := io.ReadAll(d.raw(false)); len(answer) > 0 || err == nil {
		t.Errorf("without a key: answered %q, %v", answer, err)
	}
	d.stays(d.caller(token, machineOne()))
}

// An agent sends nothing to whoever has another authority, another name, or an old certificate;
// its own clock may be behind.
func TestAgentVerifiesTheDaemon(t *testing.T) {
	for name, c := range map[string]struct {
		from time.Time
		ca   func(d []byte) []byte
		host string
		says string
	}{
		"the right one":                {from: time.Now(), says: "the daemon did not answer"},
		"a clock that is years behind": {from: time.Now().AddDate(9, 0, 0), says: "the daemon did not answer"},
		"another authority":            {from: time.Now(), ca: func(d []byte) []byte { return append([]byte{d[0] + 1}, d[1:]...) }, says: "does not have its certificate"},
		"an expired certificate":       {from: time.Now().Add(-2 * time.Hour), says: "expired"},
		"another name":                 {from: time.Now(), host: "localhost", says: "wanted to match localhost"},
	} {
		t.Run(name, func(t *testing.T) {
			authority, certificate := daemonCertificate(t, c.from)
			on, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
			if err != nil {
				t.Fatal(err)
			}
			defer on.Close()
			got := make(chan int64, 1)
			go func() {
				conn, err := on.Accept()
				if err != nil {
					got <- -1
					return
				}
				defer conn.Close()
				var hello wire.Hello
				if wire.Read(conn, &hello) != nil {
					got <- 0
					return
				}
				got <- int64(len(hello.Token))
			}()
			digest := sha256.Sum256(authority)
			ca := digest[:]
			if c.ca != nil {
				ca = c.ca(ca)
			}
			address := on.Addr().String()
			if c.host != "" {
				_, port, _ := net.SplitHostPort(address)
				address = net.JoinHostPort(c.host, port)
			}
			d := &desk{t: t, address: address, ca: ca}
			err = d.caller("secret", machineOne()).Call(context.Background(), "")
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if n := <-got; (n > 0) != strings.Contains(c.says, "did not answer") {
				t.Errorf("a token of %d bytes was sent", n)
			}
		})
	}
}

// permitted permits, and counts how often it was asked.
type permitted struct{ asked int }

func (p *permitted) ask(context.Context) error { p.asked++; return nil }

// An agent that is asked to install is asked for exactly what was prepared, after permission was
// given; what it says came of it is held to that.
func TestAgentInstallsWhatWasPrepared(t *testing.T) {
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFPWpdVTB1pw77PbuCSIbtGfp/5U0O8L3tgZg87e64Sv"
	is := func(i *wire.Installed, err error) func(context.Context, *inside.Host, wire.Request) (*wire.Installed, error) {
		return func(context.Context, *inside.Host, wire.Request) (*wire.Installed, error) { return i, err }
	}
	step := site.Step{Action: site.ActionInstall, Facet: site.FacetImage, Impact: site.ImpactDestructive, Machine: site.Identity{UUID: uuidOne}, Image: &site.Image{Kind: site.KindRoot, SHA256: "d1"}}
	prepared := driver.Installation{Layout: item.Layout{Disks: []item.LayoutDisk{{Name: "os", Serial: "N1"}}}, SHA256: "d1", URL: "http://192.0.2.1/x.tar", Marker: `{"node":"n1"}`, Bytes: 5}
	framed := prepared
	framed.SHA256 = "f1"
	locked := prepared
	locked.Layout.Encrypted = []item.LayoutEncrypted{{Name: "luks-u", UUID: "u", Opens: item.OpenedByTPM}}
	encrypted := locked
	encrypted.Passphrase = secret.New("", "bcdefghijklnrtuvbcdefghijklnrtuv")
	whole := step
	whole.Image = &site.Image{Kind: site.KindDisk, Format: "raw", SHA256: "d1"}
	other := step
	other.Machine = site.Identity{UUID: uuidTwo}
	for name, c := range map[string]struct {
		step     site.Step
		prepared driver.Installation
		answers  func(context.Context, *inside.Host, wire.Request) (*wire.Installed, error)
		class    error // nil for success, and for a failure after which the disks may be erased
		says     string
		asks     int // for permission
	}{
		"it installs":             {step, prepared, is(&wire.Installed{SHA256: "d1", HostKeys: []string{key + " comment", "nonsense"}}, nil), nil, "", 1},
		"a whole disk":            {whole, framed, is(&wire.Installed{SHA256: "f1", HostKeys: []string{key}}, nil), nil, "", 1},
		"encrypted disks":         {step, encrypted, is(&wire.Installed{SHA256: "d1", HostKeys: []string{key}}, nil), nil, "", 1},
		"without a passphrase":    {step, locked, nil, driver.ErrRefused, "was not prepared", 0},
		"the image, not frames":   {whole, framed, is(&wire.Installed{SHA256: "d1", HostKeys: []string{key}}, nil), nil, "was asked for sha256:f1", 1},
		"another machine":         {other, prepared, is(&wire.Installed{SHA256: "d1", HostKeys: []string{key}}, nil), driver.ErrRefused, "another machine answers", 0},
		"no machine":              {site.Step{Action: site.ActionInstall, Impact: site.ImpactDestructive, Image: step.Image}, prepared, nil, driver.ErrRefused, "names no machine", 0},
		"nothing prepared":        {step, driver.Installation{}, nil, driver.ErrRefused, "was not prepared", 0},
		"it refuses":              {step, prepared, is(nil, &wire.Error{Class: wire.Refused, Text: "a disk is missing; nothing was written"}), driver.ErrRefused, "nothing was written", 1},
		"it fails":                {step, prepared, is(nil, &wire.Error{Class: wire.Failed, Text: "mkfs ended with 1"}), nil, "mkfs ended with 1", 1},
		"it says nothing":         {step, prepared, is(nil, nil), nil, "not what it has installed", 1},
		"another image":           {step, prepared, is(&wire.Installed{SHA256: "d2", HostKeys: []string{key}}, nil), nil, "was asked for sha256:d1", 1},
		"no key of an SSH server": {step, prepared, is(&wire.Installed{SHA256: "d1", HostKeys: []string{"nonsense"}}, nil), nil, "no SSH host key", 1},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			caller := d.caller(d.expect(bootOne()), machineOne())
			var asked *wire.Request
			caller.Program.Install = func(ctx context.Context, h *inside.Host, r wire.Request) (*wire.Installed, error) {
				asked = &r
				return c.answers(ctx, h, r)
			}
			d.stays(caller)
			m := d.agent("n1")
			m.(driver.Namer).Name("lab", 7)
			m.(driver.Installer).Prepare(c.prepared)
			p := &permitted{}
			err := m.Apply(t.Context(), c.step, &site.Node{Name: "n1"}, p.ask)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || c.class != nil && !errors.Is(err, c.class) || c.class == nil && errors.Is(err, driver.ErrRefused) {
				t.Errorf("got %v", err)
			}
			if p.asked != c.asks || (asked != nil) != (c.asks > 0) {
				t.Errorf("permission was asked %d times, and it was asked to install: %v", p.asked, asked != nil)
			}
			if err == nil && (asked.Term != 7 || asked.Install.UUID != uuidOne || asked.Install.Serial != "S-1" || asked.Install.Image.SHA256 != c.prepared.SHA256 || asked.Install.Image.Kind != c.step.Image.Kind || asked.Install.Boot != "uefi" ||
				asked.Install.Passphrase != c.prepared.Passphrase.Reveal() ||
				!slices.Equal(m.(driver.Installer).Installed().HostKeys, []string{key})) {
				t.Errorf("asked for %+v, got %+v", asked, m.(driver.Installer).Installed())
			}
		})
	}
}

// An agent in memory is known by less than a host key: it gets the hashes of passwords, and no
// secret of a file, nor is one asked for.
func TestAgentGetsNoSecretOfAFile(t *testing.T) {
	d := newDesk(t)
	caller := d.caller(d.expect(bootOne()), machineOne())
	var asked wire.Request
	caller.Program.Install = func(_ context.Context, _ *inside.Host, r wire.Request) (*wire.Installed, error) {
		asked = r
		return nil, &wire.Error{Class: wire.Refused, Text: "enough"}
	}
	d.stays(caller)
	m := d.agent("n1")
	m.(driver.Keyholder).Credentials(func(name string, use secret.Use) (secret.Value, error) {
		if use != secret.Account {
			t.Errorf("the credential %q was asked for %s", name, use)
		}
		return secret.New("", "canary-in-a-file"), nil
	})
	m.(driver.Installer).Prepare(driver.Installation{Layout: item.Layout{Disks: []item.LayoutDisk{{Name: "os", Serial: "N1"}}}, SHA256: "d1", URL: "http://192.0.2.1/x.tar", Marker: `{"node":"n1"}`,
		Bytes: 5, Facets: []site.Facet{site.FacetBase, site.FacetConfig}})
	text := "hello"
	n := &site.Node{Name: "n1", System: site.System{Users: map[string]site.User{"ops": {Password: "ops"}},
		Files: map[string]site.File{"/etc/key": {Credential: "app"}, "/etc/motd": {Content: &text}}}}
	n.References.Family = "debian"
	step := site.Step{Action: site.ActionInstall, Facet: site.FacetImage, Impact: site.ImpactDestructive, Machine: site.Identity{UUID: uuidOne}, Image: &site.Image{Kind: site.KindRoot, SHA256: "d1"}}
	if err := m.Apply(t.Context(), step, n, (&permitted{}).ask); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("got %v", err)
	}
	var keys []string
	for _, a := range asked.Install.Apply {
		keys = append(keys, item.Keys(a.Items)...)
	}
	if !slices.Contains(keys, "files./etc/motd") || !slices.Contains(keys, "users.ops") || slices.Contains(keys, "files./etc/key") {
		t.Errorf("it is to set %v", keys)
	}
	if sent, err := json.Marshal(asked); err != nil || bytes.Contains(sent, []byte("canary")) {
		t.Errorf("it was sent %s, %v", sent, err)
	}
}

// Nothing is sent to an agent whose installation is not permitted.
func TestAgentIsNotAskedWithoutPermission(t *testing.T) {
	d := newDesk(t)
	caller := d.caller(d.expect(bootOne()), machineOne())
	caller.Program.Install = func(context.Context, *inside.Host, wire.Request) (*wire.Installed, error) {
		t.Error("it was asked to install")
		return nil, nil
	}
	d.stays(caller)
	m := d.agent("n1")
	m.(driver.Installer).Prepare(driver.Installation{Layout: item.Layout{Disks: []item.LayoutDisk{{Name: "os"}}}, SHA256: "d1", URL: "http://192.0.2.1/x.tar", Marker: "{}"})
	step := site.Step{Action: site.ActionInstall, Impact: site.ImpactDestructive, Machine: site.Identity{UUID: uuidOne}, Image: &site.Image{Kind: site.KindRoot}}
	no := func(context.Context) error { return driver.ErrNotPermitted }
	for _, may := range []driver.Permit{nil, no} {
		if err := m.Apply(t.Context(), step, &site.Node{Name: "n1"}, may); !errors.Is(err, driver.ErrNotPermitted) {
			t.Error(err)
		}
	}
}

// Who answers what was not asked, or twice, is hung up on.
func TestAgentThatAnswersTwice(t *testing.T) {
	for name, answer := range map[string]func(r wire.Request) []wire.Frame{
		"twice": func(r wire.Request) []wire.Frame {
			f := wire.Frame{Result: &wire.Result{Echo: r.Echo, Machine: &wire.Machine{UUID: uuidOne}}}
			return []wire.Frame{f, f}
		},
		"something else": func(r wire.Request) []wire.Frame {
			return []wire.Frame{{Result: &wire.Result{Echo: "x" + r.Echo, Machine: &wire.Machine{UUID: uuidOne}}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			token := d.expect(bootOne())
			conn := d.raw(true)
			is := machineOne()
			if err := wire.Write(conn, wire.Hello{Version: wire.Version, Token: token, Machine: is}); err != nil {
				t.Fatal(err)
			}
			var w wire.Welcome
			if err := wire.Read(conn, &w); err != nil || w.Refused != "" {
				t.Fatal(w, err)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					var r wire.Request
					if wire.Read(conn, &r) != nil {
						return
					}
					for _, f := range answer(r) {
						if wire.Write(conn, f) != nil {
							return
						}
					}
				}
			}()
			m := d.agent("n1")
			var err error
			for range 3 { // the second answer may still be on its way
				if _, err = m.Observe(t.Context(), &site.Node{Name: "n1"}, nil); err != nil {
					break
				}
			}
			if !errors.Is(err, driver.ErrUnreachable) {
				t.Errorf("got %v", err)
			}
			<-done
		})
	}
}

// A daemon that was started again takes the same agent by what was recorded, and no other one.
func TestAgentIsRecalled(t *testing.T) {
	d := newDesk(t)
	token := d.expect(bootOne())
	c := d.caller(token, machineOne())
	end, ended := d.stays(c)
	d.agent("n1") // the daemon counts it a moment after its welcome
	key := d.Connected("n1").Key()
	end()
	<-ended
	next := newDesk(t)
	c.Settings.Daemon, c.Settings.CA = next.address, next.ca
	digest := sha256.Sum256([]byte(token))
	var of [sha256.Size]byte
	if _, err := hex.Decode(of[:], []byte(key)); err != nil {
		t.Fatal(err)
	}
	b := bootOne()
	b.Until = next.now().Add(-time.Hour) // a token that was used does not end
	next.Recall(b, digest, of)
	thief := next.caller(token, machineOne())
	next.refuses(thief, "was used before, by another agent")
	next.stays(c)
	next.agent("n1")
	next.Recall(b, digest, of) // changes nothing
	if next.Connected("n1") == nil {
		t.Error("the agent was hung up on")
	}
}
