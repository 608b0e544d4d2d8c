package network

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// leaving is a machine whose ports leave the design. They were down before, with link-local addresses.
type leaving struct {
	*system
	f        *Facet
	h        *inside.Host
	manager  string
	units    map[string]string // the states of units that are not inactive
	uses     []kernelUse
	unread   error
	ran      []string
	atDown   string // the addr_gen_mode of eth1 when it is set down
	failDown bool
}

const (
	modeOfEth1  = "/proc/sys/net/ipv6/conf/eth1/addr_gen_mode"
	stateOfEth1 = "/run/systemd/netif/links/3"
	ownOfEth1   = "fe80::5054:ff:feaa:2"
)

// newLeaving has ports with these flags and this addr_gen_mode before they are in the design.
func newLeaving(t *testing.T, root, flags, mode string, ids ...string) *leaving {
	l := &leaving{system: newSystemIn(t, root), manager: Networkd, units: map[string]string{"systemd-networkd.service": "active"}}
	l.f, l.h = l.facet(), l.host()
	l.f.tables.uses = func() ([]kernelUse, error) { return l.uses, l.unread }
	l.h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
		if text := strings.Join(c.Args, " "); c.Path == "systemctl" {
			switch state := l.units[c.Args[len(c.Args)-1]]; state {
			case "":
				return inside.Output{Code: 3, Out: []byte("inactive\n")}, nil
			case "?":
				return inside.Output{Out: []byte("inactive\n")}, errors.New("no answer in time")
			default:
				return inside.Output{Out: []byte(state + "\n")}, nil
			}
		} else if l.ran = append(l.ran, c.Path+" "+text); strings.HasSuffix(text, "down") {
			l.atDown = inside.Text(l.h.Path(modeOfEth1))
			if l.failDown {
				return inside.Output{Code: 1}, nil
			}
		}
		return inside.Output{}, nil
	}
	for _, id := range ids {
		put(t, root, "/sys/class/net/"+id+"/flags", flags+"\n", 0o644)
		put(t, root, "/proc/sys/net/ipv6/conf/"+id+"/addr_gen_mode", mode+"\n", 0o644)
	}
	m, err := l.f.tables.look(l.h)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.f.own(l.h, &plan{after: ports(ids)}, m); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		put(t, root, "/sys/class/net/"+id+"/flags", "0x1003\n", 0o644)
		put(t, root, "/proc/sys/net/ipv6/conf/"+id+"/addr_gen_mode", "1\n", 0o644)
		put(t, root, "/run/systemd/netif/links/"+number(l.index(id)), "ADMIN_STATE=unmanaged\n", 0o644)
	}
	return l
}

func ports(ids []string) links {
	all := links{}
	for _, id := range ids {
		l := all[id]
		l.Kind = "ethernet"
		all[id] = l
	}
	return all
}

// leave takes the ports out of the design, and returns how long that took.
func (l *leaving) leave(ids ...string) time.Duration {
	l.t.Helper()
	began := time.Now()
	a := activation{f: l.f, h: l.h, manager: l.manager}
	if err := a.release(l.t.Context(), &plan{before: ports(ids), after: links{}}); err != nil {
		l.t.Fatal(err)
	}
	return time.Since(began)
}

func (l *leaving) isDown(id string) bool {
	return slices.Contains(l.ran, "ip link set dev "+id+" down")
}

// isMended reports whether the kernel gives eth1 link-local addresses.
func (l *leaving) isMended() bool {
	return strings.HasPrefix(inside.Text(l.h.Path(modeOfEth1)), addressFromMAC)
}

// An interface that was down before it was in the design is down again after it has left the design, and the kernel
// gives it a link-local address again.
func TestAnInterfaceThatLeavesIsAsBefore(t *testing.T) {
	for _, c := range []struct {
		name, flags, mode string
		down, mended      bool
	}{
		{"down before", "0x1002", "0", true, true},
		{"up before", "0x1003", "0", false, true},
		{"down before, without link-local addresses", "0x1002", "1", true, false},
		{"up before, without link-local addresses", "0x1003", "1", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLeaving(t, t.TempDir(), c.flags, c.mode, "eth1")
				if l.leave("eth1"); l.isDown("eth1") != c.down || l.isMended() != c.mended {
					t.Errorf("down: %t, mended: %t, ran %q", l.isDown("eth1"), l.isMended(), l.ran)
				}
				// The kernel gives an interface that is down an address, too, when this is set.
				if c.down && c.mended && l.atDown != addressFromMAC {
					t.Errorf("addr_gen_mode is %q when it is set down", l.atDown)
				}
			})
		})
	}
}

// Each of these alone leaves a port up, because somebody uses it or may.
func TestAPortInUseStaysUp(t *testing.T) {
	use := func(index int, prefix string) kernelUse {
		return kernelUse{index: index, prefix: netip.MustParsePrefix(prefix)}
	}
	route := func(index int, prefix string, kernel bool) kernelUse {
		return kernelUse{index, netip.MustParsePrefix(prefix), true, kernel}
	}
	uses := func(all ...kernelUse) func(*leaving) { return func(l *leaving) { l.uses = all } }
	text := func(path, text string) func(*leaving) {
		return func(l *leaving) { put(l.t, l.root, path, text, 0o644) }
	}
	const packets = "sk RefCnt Type Proto Iface R Rmem User Inode\n0000000000000000 3 3 0003 "
	const sockets = "sl local_address rem_address st\n 12: "
	none := strings.Repeat("0", 32)
	for _, c := range []struct {
		name string
		so   func(*leaving)
		down bool
	}{
		{"nothing", func(*leaving) {}, true},
		{"netplan, with systemd-networkd", func(l *leaving) { l.manager = Netplan }, true},
		{"what the kernel gives to every port", uses(use(3, ownOfEth1+"/64"), route(3, "fe80::/64", true), route(3, "fe80::/128", true), route(3, "ff00::/8", true), route(3, ownOfEth1+"/128", true)), true},
		{"uses of another port", uses(use(2, "10.1.0.7/24"), route(2, "0.0.0.0/0", false)), true},
		{"sockets of others", func(l *leaving) {
			text("/proc/net/packet", packets+"2 1 0 0 99\n")(l)
			text("/proc/net/udp", sockets+"0A00010A:0044 00000000:0000 07\n 13: 00000000:0043 00000000:0000 07\n")(l)
			text("/proc/net/udp6", sockets+none+":0223 "+none+":0000 07\n")(l)
		}, true},
		{"an address", uses(use(3, "10.1.0.7/24")), false},
		{"a host address", uses(use(3, "10.1.0.7/32")), false},
		{"a link-local address of IPv4", uses(use(3, "169.254.7.7/16")), false},
		{"a link-local address that is not the kernel's", uses(use(3, "fe80::1/64")), false},
		{"its link-local address as a host address", uses(use(3, ownOfEth1+"/128")), false},
		{"an address of another family", uses(kernelUse{index: 3}), false},
		{"a route", uses(route(3, "10.9.0.0/16", false)), false},
		{"a route of the kernel", uses(route(3, "10.9.0.0/16", true)), false},
		{"a link-local route that somebody set", uses(route(3, "fe80::/64", false)), false},
		{"a route by an unknown port", uses(route(0, "10.9.0.0/16", false)), false},
		{"uses cannot be read", func(l *leaving) { l.unread = errors.New("no buffer space available") }, false},
		{"virtual functions", text("/sys/class/net/eth1/device/sriov_numvfs", "2\n"), false},
		{"a bridge of somebody", text("/sys/class/net/eth1/upper_virbr0", ""), false},
		{"a file of others sets it up", text(stateOfEth1, "ADMIN_STATE=configured\n"), false},
		{"systemd-networkd does not know it", func(l *leaving) { _ = os.Remove(filepath.Join(l.root, stateOfEth1)) }, false},
		{"it is unplugged", func(l *leaving) { _ = os.RemoveAll(filepath.Join(l.root, "/sys/class/net/eth1")) }, false},
		{"no MAC address", text("/sys/class/net/eth1/address", "\n"), false},
		{"a MAC address of 8 bytes", text("/sys/class/net/eth1/address", "02:00:5e:10:00:00:00:01\n"), false},
		{"a packet socket", text("/proc/net/packet", packets+"3 1 0 0 99\n"), false},
		{"a packet socket of all ports", text("/proc/net/packet", packets+"0 1 0 0 99\n"), false},
		{"a DHCP client", text("/proc/net/udp", sockets+"00000000:0044 00000000:0000 07\n"), false},
		{"a DHCP client of both families", text("/proc/net/udp6", sockets+none+":0044 "+none+":0000 07\n"), false},
		{"a DHCPv6 client", text("/proc/net/udp6", sockets+none+":0222 "+none+":0000 07\n"), false},
		{"a DHCPv6 client of the port", text("/proc/net/udp6", sockets+"000080FE00000000FF0054500200AAFE:0222 "+none+":0000 07\n"), false},
		{"sockets cannot be read", func(l *leaving) { _ = os.MkdirAll(filepath.Join(l.root, "/proc/net/packet"), 0o755) }, false},
		{"the manager is NetworkManager", func(l *leaving) { l.manager = NetworkManager }, false},
		{"the manager is ifupdown", func(l *leaving) { l.manager = Ifupdown }, false},
		{"systemd-networkd does not run", func(l *leaving) { l.units = map[string]string{} }, false},
		{"NetworkManager runs too", func(l *leaving) { l.units["NetworkManager.service"] = "active" }, false},
		{"NetworkManager starts", func(l *leaving) { l.units["NetworkManager.service"] = "activating" }, false},
		{"ifupdown sets up the loopback", func(l *leaving) {
			l.units["networking.service"] = "active"
			text(interfacesFile, "# of Debian\nsource /etc/network/interfaces.d/*\n\nauto lo\niface lo inet loopback\n")(l)
			text(interfacesFolder+"/lo", "iface lo inet6 loopback\n")(l)
		}, true},
		{"ifupdown sets up a port", text(interfacesFile, "iface eth1 inet dhcp\n"), false},
		{"ifupdown sets up a port by another file", text(interfacesFolder+"/x", "allow-hotplug eth1\n"), false},
		{"ifupdown sets up the loopback and a port", text(interfacesFile, "auto lo eth1\n"), false},
		{"ifupdown has a file elsewhere", text(interfacesFile, "source /srv/interfaces\n"), false},
		{"ifupdown runs a command", text(interfacesFile, "iface lo inet loopback\n up ip link set eth1 up\n"), false},
		{"files of ifupdown cannot be read", func(l *leaving) { _ = os.MkdirAll(filepath.Join(l.root, interfacesFile), 0o755) }, false},
		{"dhcpcd runs too", func(l *leaving) { l.units["dhcpcd.service"] = "active" }, false},
		{"connman runs too", func(l *leaving) { l.units["connman.service"] = "active" }, false},
		{"the state of connman is unknown", func(l *leaving) { l.units["connman.service"] = "?" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLeaving(t, t.TempDir(), "0x1002", "0", "eth1")
				c.so(l)
				if l.leave("eth1"); l.isDown("eth1") != c.down || c.down != l.isMended() && l.has(modeOfEth1) {
					t.Errorf("down: %t, mended: %t, want %t (%q)", l.isDown("eth1"), l.isMended(), c.down, l.ran)
				}
			})
		})
	}
}

// The name of a root folder may be a pattern that has no meaning. Then nothing in it can be listed.
func TestAPortWhoseUppersAreUnreadStaysUp(t *testing.T) {
	l := newLeaving(t, filepath.Join(t.TempDir(), "["), "0x1002", "0", "eth1")
	if a := (activation{f: l.f, h: l.h, manager: l.manager}); a.isIdle("eth1") || onlyLoopback(l.h) {
		t.Error("it counts as idle")
	}
	l = newLeaving(t, t.TempDir(), "0x1002", "0", "eth1")
	if a := (activation{f: l.f, h: l.h, manager: l.manager}); !a.isIdle("eth1") || !onlyLoopback(l.h) {
		t.Error("it does not count as idle")
	}
}

// A port that is used for a moment while Slipway waits, and later no more, stays idle for the whole time after that.
func TestAPortIsIdleForTheWholeTime(t *testing.T) {
	used := []kernelUse{{index: 3, prefix: netip.MustParsePrefix("10.1.0.7/24")}}
	for _, c := range []struct {
		name string
		used []int // from and to, in milliseconds, in pairs
		down bool
	}{
		{"freed late", []int{0, 7500}, true},
		{"freed too late", []int{0, 8500}, false},
		{"used for a moment", []int{1500, 1700}, true},
		{"used for a moment, too late", []int{0, 7500, 8950, 9050}, false},
		{"used at the end", []int{1950, 10000}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, began := newLeaving(t, t.TempDir(), "0x1002", "0", "eth1"), time.Now()
				l.f.tables.uses = func() ([]kernelUse, error) {
					at := int(time.Since(began).Milliseconds())
					for during := range slices.Chunk(c.used, 2) {
						if at >= during[0] && at < during[1] {
							return used, nil
						}
					}
					return nil, nil
				}
				if l.leave("eth1"); l.isDown("eth1") != c.down || l.isMended() != c.down {
					t.Errorf("down: %t, want %t", l.isDown("eth1"), c.down)
				}
			})
		})
	}
}

// Somebody takes a port in the moment before it would be set down.
func TestAPortIsLookedAtOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaving(t, t.TempDir(), "0x1002", "0", "eth1")
		l.f.step = func(what string) {
			if strings.Contains(what, "link-local address") {
				l.uses = []kernelUse{{index: 3, prefix: netip.MustParsePrefix("10.1.0.7/24")}}
			}
		}
		if l.leave("eth1"); l.isDown("eth1") || !l.isMended() {
			t.Errorf("ran %q", l.ran)
		}
	})
}

// All ports that leave are waited for at once, and one that is in use does not keep the others up.
func TestPortsLeaveTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaving(t, t.TempDir(), "0x1002", "0", "eth0", "eth1")
		if took := l.leave("eth0", "eth1"); !l.isDown("eth0") || !l.isDown("eth1") || took != idleFor {
			t.Errorf("took %s, ran %q", took, l.ran)
		}
		l = newLeaving(t, t.TempDir(), "0x1002", "0", "eth0", "eth1")
		l.uses = []kernelUse{{index: 2, prefix: netip.MustParsePrefix("10.1.0.7/24")}}
		if took := l.leave("eth0", "eth1"); l.isDown("eth0") || !l.isDown("eth1") || took > letGo+idleFor {
			t.Errorf("took %s, ran %q", took, l.ran)
		}
	})
}

// A port that cannot be set down stays up, and the change goes on.
func TestAPortThatCannotBeSetDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLeaving(t, t.TempDir(), "0x1002", "0", "eth1")
		l.failDown = true
		if l.leave("eth1"); !l.isDown("eth1") {
			t.Errorf("ran %q", l.ran)
		}
	})
}

// An interface that an earlier version or an installation made is left as it is: nobody knows how it was.
func TestAnInterfaceOfWhichNothingIsKnownIsLeft(t *testing.T) {
	p := &plan{after: links{"eth0": {Kind: "ethernet"}}, aside: []string{"/etc/x"}}
	text, err := json.Marshal(p.priorOf(inside.Real(t.TempDir(), false), nil, "eth0"))
	if want := `{"files":["/etc/x"]}`; err != nil || string(text) != want {
		t.Errorf("it remembers %s, %v, want %s", text, err, want)
	}
}
