package network

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

// asks is a design with a name server, and a domain where one is given.
func asks(domain ...string) links {
	return links{"eth0": {Kind: "ethernet", Addresses: []string{"10.1.0.11/24"}, Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}}, Servers: []string{"10.1.0.53"}, Search: domain}}
}

func (s *system) read(path string) string {
	text, _ := os.ReadFile(filepath.Join(s.root, path))
	return string(text)
}

// Where nothing else on a system writes /etc/resolv.conf, Slipway does: it has the designed
// servers, and what the design does not name stays. A change of it is seen and undone. It goes
// back with a change that nobody confirmed, and when the design names nothing any more.
func TestResolvConf(t *testing.T) {
	const before = "# by hand\nsearch old.example.org\nnameserver 192.0.2.1\noptions rotate\n"
	const written = header + "nameserver 10.1.0.53\nsearch old.example.org\noptions rotate\n"
	s := newSystem(t)
	put(t, s.root, resolvFile, before, 0o640)
	f, ctx := s.facet(), t.Context()
	confirmed := func(all links, remove []string) {
		t.Helper()
		if err := f.Apply(ctx, s.host(), items(all), remove); err != nil {
			t.Fatal(err)
		}
		name, _ := f.Unconfirmed(s.host())
		if err := f.Confirm(ctx, s.host(), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Apply(ctx, s.host(), items(asks()), nil); err != nil || s.read(resolvFile) != written {
		t.Fatalf("%v, it has %q", err, s.read(resolvFile))
	}
	name, _ := f.Unconfirmed(s.host())
	if err := f.revert(ctx, s.host(), name); err != nil || s.read(resolvFile) != before || s.has(resolvBefore) {
		t.Fatalf("set back: %v, it has %q", err, s.read(resolvFile))
	}
	h := s.host()
	h.Again = true
	if err := f.Apply(ctx, h, items(asks()), nil); err != nil {
		t.Fatal(err)
	}
	name, _ = f.Unconfirmed(s.host())
	if err := f.Confirm(ctx, s.host(), name); err != nil {
		t.Fatal(err)
	}
	s.same(f, asks())

	put(t, s.root, resolvFile, "nameserver 192.0.2.9\n", 0o644)
	seen, err := f.Observe(ctx, s.host(), keysOf(asks()))
	if got, want := seen.Have["links.eth0.dns"], "192.0.2.9, as /etc/resolv.conf says"; err != nil || got != want {
		t.Errorf("%v, %q, want %q", err, got, want)
	}
	put(t, s.root, resolvFile, written, 0o644)
	confirmed(asks("example.org"), nil)
	if got := s.read(resolvFile); !strings.Contains(got, "search example.org\n") || strings.Contains(got, "old.") {
		t.Errorf("with a domain it has %q", got)
	}
	s.same(f, asks("example.org"))
	silent := asks()
	silent["eth0"] = item.Link{Kind: "ethernet", Addresses: silent["eth0"].Addresses, Routes: silent["eth0"].Routes}
	confirmed(silent, nil)
	if s.read(resolvFile) != before || s.has(resolvBefore) {
		t.Errorf("without servers it has %q", s.read(resolvFile))
	}
	confirmed(asks(), nil)
	confirmed(nil, keysOf(asks()))
	if s.read(resolvFile) != before || s.has(resolvBefore) {
		t.Errorf("out of the design it has %q", s.read(resolvFile))
	}
}

// A domain alone leaves the servers that are there, and a file that was not there goes again.
func TestResolvConfOfADomainAlone(t *testing.T) {
	s := newSystem(t)
	h := s.host()
	h.Live = false
	domain := links{"eth1": {Kind: "ethernet", Addresses: []string{"10.2.0.11/24"}, Search: []string{"example.org"}}}
	f := s.facet()
	if err := f.Apply(t.Context(), h, items(domain), nil); err != nil || s.read(resolvFile) != header+"search example.org\n" {
		t.Fatalf("%v, %q", err, s.read(resolvFile))
	}
	if err := f.Apply(t.Context(), h, nil, keysOf(domain)); err != nil || s.has(resolvFile) {
		t.Fatalf("%v, %q is still there", err, s.read(resolvFile))
	}
	put(t, s.root, resolvFile, "nameserver 192.0.2.1\n", 0o644)
	if err := f.Apply(t.Context(), h, items(domain), nil); err != nil || s.read(resolvFile) != header+"search example.org\nnameserver 192.0.2.1\n" {
		t.Fatalf("%v, %q", err, s.read(resolvFile))
	}
}

// Where something else writes /etc/resolv.conf, it is told whether the designed servers are
// asked, and what to do where they are not.
func TestWhoIsAskedForNames(t *testing.T) {
	for name, c := range map[string]struct {
		leads, file string // what /etc/resolv.conf leads to, and what is there
		has         map[string]string
		ours        bool   // the design has the file itself
		says        string // empty where nothing is missing
	}{
		"systemd-resolved has it":      {"../run/systemd/resolve/stub-resolv.conf", "nameserver 127.0.0.53\n", map[string]string{resolvedFile: "nameserver 10.1.0.53\nnameserver 10.9.0.1\n"}, false, ""},
		"systemd-resolved has another": {"../run/systemd/resolve/stub-resolv.conf", "nameserver 127.0.0.53\n", map[string]string{resolvedFile: "nameserver 10.9.0.1\n"}, false, "They ask 10.9.0.1: /etc/resolv.conf leads to systemd-resolved. Add the package"},
		"systemd-resolved is not there": {"../run/systemd/resolve/stub-resolv.conf", "", nil, false,
			"programs on this machine do not ask the name servers 10.1.0.53. They have none to ask: /etc/resolv.conf leads to systemd-resolved. Add the package systemd-resolved to the design where it is not there, and enable and start systemd-resolved.service"},
		"resolvconf":                    {"/run/resolvconf/resolv.conf", "nameserver 10.9.0.1\n", nil, false, "the package resolvconf writes /etc/resolv.conf, and systemd-networkd does not tell it any"},
		"openresolv":                    {"", "nameserver 10.9.0.1\n", map[string]string{"/sbin/resolvconf": "#!"}, false, "the package resolvconf writes"},
		"a link of nobody knows what":   {"/srv/resolv.conf", "nameserver 10.9.0.1\n", nil, false, "another program writes /etc/resolv.conf"},
		"the design has the file":       {"", "nameserver 10.9.0.1\n", nil, true, "system.files of the design has its own /etc/resolv.conf"},
		"the design has it, and agrees": {"", "nameserver 10.1.0.53\n", nil, true, ""},
		"a program of the machine":      {"", "nameserver 127.0.0.1\n", nil, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSystem(t)
			f, h := s.facet(), s.host()
			h.Live = false
			if err := f.Apply(t.Context(), h, items(links{"eth1": {Kind: "ethernet", Servers: []string{"10.1.0.53"}}}), nil); err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(s.root, resolvFile)
			if err := os.Remove(at); err != nil {
				t.Fatal(err)
			}
			file := resolvFile
			if c.leads != "" {
				if err := os.Symlink(c.leads, at); err != nil {
					t.Fatal(err)
				}
				file = filepath.Join("/etc", c.leads)
				if filepath.IsAbs(c.leads) {
					file = c.leads
				}
			}
			if c.file != "" {
				put(t, s.root, file, c.file, 0o644)
			}
			for path, text := range c.has {
				put(t, s.root, path, text, 0o755)
			}
			h = s.host()
			if c.ours {
				if err := h.Owned.Take("config", item.KindFiles+"."+resolvFile, []byte("{}")); err != nil {
					t.Fatal(err)
				}
			}
			seen, err := f.Observe(t.Context(), h, []string{"links.eth1"})
			if got := seen.Cannot["links.eth1.dns"]; err != nil || (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
				t.Errorf("%v, told %q, want %q", err, got, c.says)
			}
			if seen.Have["links.eth1.dns"] != "10.1.0.53" {
				t.Errorf("the settings are %q", seen.Have["links.eth1.dns"])
			}
		})
	}
}

// ifupdown needs a program that asks for an address. Without one it is told, and the interface
// stays as it is.
func TestNoClientForLeases(t *testing.T) {
	s := newSystem(t)
	if err := os.Remove(filepath.Join(s.root, "/etc/systemd/system/multi-user.target.wants/systemd-networkd.service")); err != nil {
		t.Fatal(err)
	}
	put(t, s.root, "/etc/systemd/system/multi-user.target.wants/networking.service", "", 0o644)
	f, h := s.facet(), s.host()
	leases := links{"eth1": {Kind: "ethernet", DHCP4: true}}
	told := func() string {
		t.Helper()
		h.Wants = item.Needing(items(leases))
		seen, err := f.Observe(t.Context(), h, keysOf(leases))
		if err != nil {
			t.Fatal(err)
		}
		return seen.Cannot["links.eth1.dhcp"]
	}
	const want = "ifupdown asks for IPv4 addresses by a DHCP client, and this system has none of dhclient, dhcpcd. Add the package isc-dhcp-client or dhcpcd-base to the design"
	if got := told(); got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	if err := f.Apply(t.Context(), h, items(leases), nil); err != nil || s.has(ifupdownFile) || len(h.Owned.Keys(name)) > 0 {
		t.Errorf("%v, it has %q", err, s.read(ifupdownFile))
	}
	put(t, s.root, "/sbin/dhclient", "", 0o755)
	if got := told(); got != "" {
		t.Errorf("with a client it is told %q", got)
	}
}

// A DHCP client of ifupdown writes /etc/resolv.conf whoever set up the interface that it asks for.
func TestClientsWriteResolvConf(t *testing.T) {
	s := newSystem(t)
	put(t, s.root, interfacesFile, "auto eth1\niface eth1 inet dhcp\n", 0o644)
	for all, want := range map[*links]resolver{
		{"eth0": {Kind: "ethernet"}}:                                          byLease,
		{"eth1": {Kind: "ethernet"}}:                                          byNobody, // its stanza goes aside
		{"eth1": {Kind: "ethernet"}, "eth0": {Kind: "ethernet", DHCP4: true}}: byLease,
	} {
		if got := resolverOf(s.host(), Ifupdown, *all); got != want {
			t.Errorf("%v: %q writes it, want %q", *all, got, want)
		}
		if got := resolverOf(s.host(), Networkd, *all); got != byNobody {
			t.Errorf("%v: with systemd-networkd %q writes it", *all, got)
		}
	}
}

// The routes that a DHCP client sets as a person would are of the lease; those of others are
// not.
func TestRoutesOfALease(t *testing.T) {
	way, other := item.Route{To: "0.0.0.0/0", Via: "10.1.0.1"}, item.Route{To: "10.9.0.0/16", Via: "10.1.0.2"}
	r := &real{Link: item.Link{Kind: "ethernet", Routes: []item.Route{way, other}}, byHand: []item.Route{way}}
	for _, c := range []struct {
		made item.Link
		want string
	}{
		{item.Link{DHCP4: true}, "10.9.0.0/16 via 10.1.0.2"},
		{item.Link{}, "0.0.0.0/0 via 10.1.0.1, 10.9.0.0/16 via 10.1.0.2"},
		{item.Link{DHCP4: true, Routes: []item.Route{way}}, "0.0.0.0/0 via 10.1.0.1, 10.9.0.0/16 via 10.1.0.2"},
	} {
		if got := r.as(c.made).Fields()["routes"]; got != c.want {
			t.Errorf("made as %+v it has the routes %q, want %q", c.made, got, c.want)
		}
	}
}
