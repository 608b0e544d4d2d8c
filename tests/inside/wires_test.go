package inside_test

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ofPorts are the fields of networks, links and interfaces that a kernel without VLANs and
// bonds can have. Each has interfaces of its own: their names begin with its key.
func ofPorts() []tried {
	// lan is a network 10.NUMBER.0.0/24, and port an interface in it.
	lan := func(name string, number int, has string) string {
		return fmt.Sprintf("networks: %s: {cidr: \"10.%d.0.0/24\", %s}", name, number, has)
	}
	in := func(number int, names ...string) string {
		text := ""
		for i, name := range names {
			text += fmt.Sprintf("addresses: %s: \"10.%d.0.11\"\n", name, number+i)
		}
		return text
	}
	port := func(name, has string) string { return fmt.Sprintf("interfaces: %s: {%s}\n", name, has) }
	mtu := func(name string) string { return "cat /sys/class/net/" + name + "/mtu" }
	four := func(name string) string {
		return "ip -4 -o address show dev " + name + " scope global | tr -s ' ' | cut -d' ' -f4 | sort | tr '\\n' ' '"
	}
	routes := func(name string) string { return "ip -4 route show dev " + name + " | grep via | sed 's/ *$//'" }
	dns := func(name string) string {
		return "grep -E '^(DNS|DOMAINS)=.' /run/systemd/netif/links/$(cat /sys/class/net/" + name + "/ifindex) | tr '\\n' ' '"
	}
	// one is a field of a network that an interface is in.
	one := func(path, name string, number int, from, to, look, before, after string) tried {
		all := in(number, name) + port(name+"0", fmt.Sprintf("networks: [%q]", name))
		return tried{path: path, siteFrom: lan(name, number, from), siteTo: lan(name, number, to), from: all, to: all, look: look, before: before, after: after}
	}
	return []tried{
		one("#Network.mtu", "netmtu", 20, "mtu: 1400", "mtu: 1410", mtu("netmtu0"), "1400", "1410"),
		{path: "#Interface.mtu", siteFrom: lan("ifmtu", 21, ""), siteTo: lan("ifmtu", 21, ""), from: in(21, "ifmtu") + port("ifmtu0", `networks: ["ifmtu"], mtu: 1401`),
			to: in(21, "ifmtu") + port("ifmtu0", `networks: ["ifmtu"], mtu: 1411`), look: mtu("ifmtu0"), before: "1401", after: "1411"},
		{path: "#Link.mtu", siteFrom: lan("lmtu", 22, "") + "\nlinks: lmtu: {networks: [\"lmtu\"], mtu: 1402}", siteTo: lan("lmtu", 22, "") + "\nlinks: lmtu: {networks: [\"lmtu\"], mtu: 1412}",
			from: in(22, "lmtu") + port("lmtu0", `networks: ["lmtu"], link: "lmtu"`), to: in(22, "lmtu") + port("lmtu0", `networks: ["lmtu"], link: "lmtu"`), look: mtu("lmtu0"), before: "1402", after: "1412"},
		func() tried {
			both := "networks: {ila: cidr: \"10.23.1.0/24\", ilb: cidr: \"10.23.2.0/24\"}\nlinks: {ila: {networks: [\"ila\"], mtu: 1403}, ilb: {networks: [\"ilb\"], mtu: 1413}}"
			return tried{path: "#Interface.link", siteFrom: both, siteTo: both, from: port("ilink0", `link: "ila"`), to: port("ilink0", `link: "ilb"`), look: mtu("ilink0"), before: "1403", after: "1413"}
		}(),
		func() tried {
			both := lan("neta", 24, "") + "\n" + lan("netb", 25, "")
			return tried{path: "#Interface.networks", siteFrom: both, siteTo: both, from: in(24, "neta") + port("inet0", `networks: ["neta"]`),
				to: in(25, "netb") + port("inet0", `networks: ["netb"]`), look: four("inet0"), before: "10.24.0.11/24", after: "10.25.0.11/24"}
		}(),
		func() tried {
			site := func(bits string) string { return "networks: size: cidr: \"10.40.0.0/" + bits + "\"" }
			all := in(40, "size") + port("size0", `networks: ["size"]`)
			return tried{path: "#Network.cidr", siteFrom: site("24"), siteTo: site("25"), from: all, to: all, look: four("size0"), before: "10.40.0.11/24", after: "10.40.0.11/25"}
		}(),
		func() tried {
			both := lan("addr", 41, "")
			text := func(address string) string {
				return "addresses: addr: " + strconv.Quote(address) + "\n" + port("addr0", `networks: ["addr"]`)
			}
			return tried{path: "#Layer.addresses.NAME", siteFrom: both, siteTo: both, from: text("10.41.0.11"), to: text("10.41.0.12"), look: four("addr0"), before: "10.41.0.11/24", after: "10.41.0.12/24"}
		}(),
		// The node has a default route of each family: that of IPv6 is the one of #Network.gateway.
		func() tried {
			both := lan("pria", 42, `gateway: "10.42.0.1"`) + "\n" + lan("prib", 43, `gateway: "10.43.0.1"`)
			text := func(primary string) string {
				return in(42, "pria", "prib") + "primaryNetwork: " + strconv.Quote(primary) + "\n" + port("pria0", `networks: ["pria"]`) + port("prib0", `networks: ["prib"]`)
			}
			return tried{path: "#Layer.primaryNetwork", siteFrom: both, siteTo: both, from: text("pria"), to: text("prib"),
				look: "ip -4 route show default | cut -d' ' -f3", before: "10.42.0.1", after: "10.43.0.1"}
		}(),
		func() tried {
			both := lan("own", 44, "")
			text := func(to string) string {
				return in(44, "own") + port("own0", `networks: ["own"]`) + "routes: x: {to: " + strconv.Quote(to) + ", gateway: \"10.44.0.1\"}"
			}
			return tried{path: "#Layer.routes.NAME", siteFrom: both, siteTo: both, from: text("10.136.0.0/24"), to: text("10.137.0.0/24"), look: routes("own0") + " | cut -d' ' -f1", before: "10.136.0.0/24", after: "10.137.0.0/24"}
		}(),
		func() tried {
			both := lan("extra", 26, "")
			text := func(more string) string {
				return in(26, "extra") + port("extra0", `networks: ["extra"]`) + "extraAddresses: extra: [" + more + "]"
			}
			return tried{path: "#Layer.extraAddresses.NAME", siteFrom: both, siteTo: both, from: text(`"10.26.0.12"`), to: text(`"10.26.0.13", "10.26.0.14"`),
				look: four("extra0"), before: "10.26.0.11/24 10.26.0.12/24", after: "10.26.0.11/24 10.26.0.13/24 10.26.0.14/24"}
		}(),
		func() tried {
			site := func(gateway string) string {
				return "networks: gate: {cidr: \"fd00:27::/64\", gateway: " + strconv.Quote(gateway) + "}"
			}
			all := `addresses: gate: "fd00:27::11"` + "\n" + port("gate0", `networks: ["gate"]`)
			return tried{path: "#Network.gateway", siteFrom: site("fd00:27::1"), siteTo: site("fd00:27::2"), from: all, to: all, look: "ip -6 route show default dev gate0 | cut -d' ' -f3", before: "fd00:27::1", after: "fd00:27::2"}
		}(),
		one("#Route.to", "rto", 28, `routes: x: {to: "10.128.0.0/24", gateway: "10.28.0.1"}`, `routes: x: {to: "10.129.0.0/24", gateway: "10.28.0.1"}`, routes("rto0")+" | cut -d' ' -f1", "10.128.0.0/24", "10.129.0.0/24"),
		one("#Route.gateway", "rgate", 29, `routes: x: {to: "10.130.0.0/24", gateway: "10.29.0.1"}`, `routes: x: {to: "10.130.0.0/24", gateway: "10.29.0.2"}`, routes("rgate0")+" | cut -d' ' -f3", "10.29.0.1", "10.29.0.2"),
		one("#Route.metric", "rmet", 30, `routes: x: {to: "10.131.0.0/24", gateway: "10.30.0.1", metric: 70}`, `routes: x: {to: "10.131.0.0/24", gateway: "10.30.0.1", metric: 71}`, routes("rmet0")+" | grep -o 'metric .*'", "metric 70", "metric 71"),
		func() tried {
			site := func(domain string) string {
				return "routeDomains: {inner: {}, outer: {}}\n" + lan("rdom", 31, `routes: x: {domain: "`+domain+`", gateway: "10.31.0.1"}`) + "\nnetworks: rdin: {cidr: \"10.132.0.0/24\", routeDomain: \"inner\"}\nnetworks: rdout: {cidr: \"10.133.0.0/24\", routeDomain: \"outer\"}"
			}
			all := in(31, "rdom") + port("rdom0", `networks: ["rdom"]`)
			return tried{path: "#Route.domain", siteFrom: site("inner"), siteTo: site("outer"), from: all, to: all, look: routes("rdom0") + " | cut -d' ' -f1", before: "10.132.0.0/24", after: "10.133.0.0/24"}
		}(),
		func() tried {
			site := func(domain string) string {
				return "routeDomains: {far: {}, near: {}}\n" + lan("ndom", 32, `routes: x: {domain: "far", gateway: "10.32.0.1"}`) + "\nnetworks: nda: {cidr: \"10.134.0.0/24\", routeDomain: \"far\"}\nnetworks: ndb: {cidr: \"10.135.0.0/24\", routeDomain: \"" + domain + "\"}"
			}
			all := in(32, "ndom") + port("ndom0", `networks: ["ndom"]`)
			return tried{path: "#Network.routeDomain", siteFrom: site("near"), siteTo: site("far"), from: all, to: all, look: routes("ndom0") + " | cut -d' ' -f1 | sort | tr '\\n' ' '", before: "10.134.0.0/24", after: "10.134.0.0/24 10.135.0.0/24"}
		}(),
		one("#Network.dns.servers", "serv", 33, `dns: servers: ["10.33.0.1"]`, `dns: servers: ["10.33.0.2", "10.33.0.3"]`, dns("serv0"), "DNS=10.33.0.1", "DNS=10.33.0.2 10.33.0.3"),
		one("#Network.dns.domain", "doms", 34, `dns: domain: "one.example.org"`, `dns: domain: "two.example.org"`, dns("doms0"), "DOMAINS=one.example.org", "DOMAINS=two.example.org"),
		one("#SharedAddress.address", "shar", 35, `shared: vip: address: "10.35.0.5"`, `shared: vip: address: "10.35.0.6"`, four("shar0"), "10.35.0.11/24", "10.35.0.11/24 10.35.0.6/24").
			with("ip address add 10.35.0.6/24 dev shar0"),
		one("#SharedAddress.role", "role", 36, `shared: vip: {address: "10.36.0.5", role: "all"}, shared: more: {address: "10.36.0.6", role: "other"}`,
			`shared: vip: {address: "10.36.0.5", role: "other"}, shared: more: {address: "10.36.0.6", role: "all"}`, four("role0"), "10.36.0.11/24", "10.36.0.11/24 10.36.0.6/24").
			with("ip address add 10.36.0.6/24 dev role0"),
		func() tried {
			both := lan("bra", 37, "") + "\n" + lan("brb", 38, "")
			text := func(number int, network string) string {
				return in(number, network) + port("brn0", "") + fmt.Sprintf("bridges: brn: {members: [\"brn0\"], networks: [%q]}", network)
			}
			return tried{path: "#Bridge.networks", siteFrom: both, siteTo: both, from: text(37, "bra"), to: text(38, "brb"), look: four("brn"), before: "10.37.0.11/24", after: "10.38.0.11/24"}
		}(),
		bridgeOf("#Bridge.stp", "brs", "members: [\"brs0\"]", "stp: false", "stp: true", "cat /sys/class/net/brs/bridge/stp_state", "0", "1"),
		bridgeOf("#Bridge.mtu", "brt", "members: [\"brt0\"]", "mtu: 1404", "mtu: 1414", mtu("brt"), "1404", "1414"),
		bridgeOf("#Bridge.members", "brm", "", `members: ["brm0"]`, `members: ["brm0", "brm1"]`, "ls /sys/class/net/brm/brif | tr '\\n' ' '", "brm0", "brm0 brm1"),
		func() tried {
			site := func(yes string) string { return "networks: auto: {cidr: \"fd00:39::/64\", autoconfigure: " + yes + "}" }
			all := `addresses: auto: "fd00:39::11"` + "\n" + port("auto0", `networks: ["auto"]`)
			return tried{path: "#Network.autoconfigure", siteFrom: site("false"), siteTo: site("true"), from: all, to: all,
				look: "ip -6 -o address show dev auto0 scope global dynamic | grep -o fd00:39: || echo none", before: "none", after: "fd00:39:"}
		}(),
	}
}

// with is a field at whose change people have done something in between.
func (x tried) with(words string) tried {
	x.meanwhile = words
	return x
}

func bridgeOf(path, name, same, from, to, look, before, after string) tried {
	ports := fmt.Sprintf("interfaces: {%[1]s0: {}, %[1]s1: {}}\n", name)
	text := func(has string) string {
		return ports + "bridges: " + name + ": {" + strings.Trim(same+", "+has, ", ") + "}"
	}
	return tried{path: path, from: text(from), to: text(to), look: look, before: before, after: after}
}

// Every field of networks, links and interfaces that this kernel can have changes something
// on a machine.
func TestEveryFieldOfPortsActs(t *testing.T) {
	all := ofPorts()
	n := startWithPorts(t, namesOf(all)...)
	// A default gateway must answer.
	n.Does("for a in 1 2; do ip -n far address add fd00:27::$a/64 dev gate0 nodad; done; ip -n far address add 10.42.0.1/24 dev pria0; ip -n far address add 10.43.0.1/24 dev prib0")
	n.announces(t, "auto0")
	n.converges(evaluated(t, all, false))
	for _, x := range all {
		n.Says(x.look, x.before)
	}
	for _, x := range all {
		if x.meanwhile != "" {
			n.Does(x.meanwhile)
		}
	}
	n.converges(evaluated(t, all, true))
	for _, x := range all {
		if x.path == "#Network.autoconfigure" { // at the next announcement
			n.Comes(x.look, x.after)
			continue
		}
		n.Says(x.look, x.after)
	}
}

// aPort is an interface in a design's text, whose name ends in a digit.
var aPort = regexp.MustCompile(`\b([a-z]+[0-9]): \{`)

// namesOf are the interfaces that designs name.
func namesOf(all []tried) (names []string) {
	for _, x := range all {
		for _, found := range aPort.FindAllStringSubmatch(x.from+x.to, -1) {
			names = append(names, found[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// startWithPorts starts a node under systemd-networkd, with interfaces at whose other end
// there is a network of its own.
func startWithPorts(t *testing.T, names ...string) *node {
	n := start(t)
	n.Does("systemctl disable networking 2>/dev/null; systemctl enable --now systemd-networkd 2>/dev/null; ip netns add far; ip -n far link set lo up")
	for i, name := range names {
		n.Does(fmt.Sprintf("ip link add %[1]s address 02:00:00:00:01:%02[2]x type veth peer name %[1]s netns far; ip -n far link set %[1]s up", name, i))
	}
	return n
}

// loadsModules has modules loaded by a program that makes their folders in /sys/module, which a container
// does not see.
const loadsModules = `mount -o remount,rw /sys; mkdir -p /sys/module; mount -o remount,ro /sys; mount -t tmpfs modules /sys/module; rm -f /usr/sbin/modprobe
printf '#!/bin/sh\nfor last; do :; done\nmkdir -p /sys/module/$(echo $last | tr - _)\n' >/usr/sbin/modprobe; chmod 755 /usr/sbin/modprobe`

// startInNetwork starts a node with the interface eth1, which people have set up already, and with eth2.
// Some modules of designs are built into its kernel, and others are loaded.
func startInNetwork(t *testing.T) *node {
	n := startWithPorts(t, "eth1", "eth2")
	n.Does(loadsModules)
	n.Does("cp /srv/snap.asc /etc/apt/trusted.gpg.d/; mkdir -p /lib/modules/$(uname -r); for m in " + strings.Join(builtIn, " ") + "; do echo kernel/$m.ko; done >/lib/modules/$(uname -r)/modules.builtin")
	n.Does("printf '[Match]\\nName=eth1\\n[Network]\\nAddress=10.1.0.10/24\\nIPv6AcceptRA=no\\n' >/etc/systemd/network/20-people.network; networkctl reload; networkctl reconfigure eth1")
	n.Comes("ip -4 -o address show dev eth1", "10.1.0.10/24")
	return n
}

// announces has a router announce fd00:39::/64 at the other end of an interface, ten
// times a second until the test ends.
func (n *node) announces(t *testing.T, name string) {
	t.Helper()
	// RFC 4861, 4.2 and 4.6.2: hop limit 64, no default router, and a prefix for addresses
	// that is valid for an hour. The kernel fills in the checksum.
	words := []byte{134, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
		3, 4, 64, 0xc0, 0, 0, 14, 16, 0, 0, 14, 16, 0, 0, 0, 0, 0xfd, 0, 0, 0x39, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	var index int
	if _, err := fmt.Sscan(n.Does("ip netns exec far cat /sys/class/net/"+name+"/ifindex"), &index); err != nil {
		t.Fatal(err)
	}
	fd, err := n.socketFar()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var sends sync.WaitGroup
	sends.Go(func() {
		everyone := &unix.SockaddrInet6{Addr: [16]byte{0xff, 2, 15: 1}, ZoneId: uint32(index)}
		for again := time.NewTicker(100 * time.Millisecond); ; {
			_ = unix.Sendto(fd, words, 0, everyone) // its address may not be there yet
			select {
			case <-again.C:
			case <-ctx.Done():
				again.Stop()
				return
			}
		}
	})
	t.Cleanup(func() {
		stop()
		sends.Wait()
		_ = unix.Close(fd)
	})
}

// socketFar is a socket for ICMPv6 at the other end of the interfaces. Its packets are
// sent with a hop limit of 255, as neighbours want it.
func (n *node) socketFar() (fd int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never let go: the thread is in another network from now on
		var ns int
		if ns, err = unix.Open("/proc/"+n.Leader()+"/root/run/netns/far", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return
		}
		defer func() { _ = unix.Close(ns) }()
		if err = unix.Setns(ns, syscall.CLONE_NEWNET); err != nil {
			return
		}
		if fd, err = unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6); err == nil {
			err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255)
		}
	}()
	<-done
	return fd, err
}
