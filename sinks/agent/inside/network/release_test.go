package network

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// An interface that was down before it was in the design is down again after it has left the design, unless somebody
// else uses it by then. The kernel gives it a link-local address again.
func TestAnInterfaceThatLeavesIsAsBefore(t *testing.T) {
	for _, c := range []struct {
		name         string
		flags, mode  string // before
		state, upper string // after
		down, mended bool
	}{
		{"down before", "0x1002", "0", "ADMIN_STATE=unmanaged\n", "", true, true},
		{"up before", "0x1003", "0", "ADMIN_STATE=unmanaged\n", "", false, true},
		{"down before, without link-local addresses", "0x1002", "1", "ADMIN_STATE=unmanaged\n", "", true, false},
		{"a file of others sets it up", "0x1002", "0", "ADMIN_STATE=configured\n", "", false, false},
		{"somebody put it into a bridge", "0x1002", "0", "ADMIN_STATE=unmanaged\n", "upper_virbr0", false, false},
		{"another manager", "0x1002", "0", "", "", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSystem(t)
				f, h := s.facet(), s.host()
				var ran []string
				mode, atDown := "/proc/sys/net/ipv6/conf/eth1/addr_gen_mode", ""
				h.Exec = func(_ context.Context, c inside.Command) (inside.Output, error) {
					ran = append(ran, c.Path+" "+strings.Join(c.Args, " "))
					atDown = inside.Text(h.Path(mode))
					return inside.Output{}, nil
				}
				put(t, s.root, "/sys/class/net/eth1/flags", c.flags+"\n", 0o644)
				put(t, s.root, mode, c.mode+"\n", 0o644)
				m, err := f.tables.look(h)
				if err != nil {
					t.Fatal(err)
				}
				one := links{"eth1": {Kind: "ethernet"}}
				if err := f.own(h, &plan{after: one}, m); err != nil {
					t.Fatal(err)
				}
				put(t, s.root, "/sys/class/net/eth1/flags", "0x1003\n", 0o644)
				put(t, s.root, mode, "1\n", 0o644)
				put(t, s.root, "/run/systemd/netif/links/3", c.state, 0o644)
				if c.upper != "" {
					put(t, s.root, "/sys/class/net/eth1/"+c.upper, "", 0o644)
				}
				a := activation{f: f, h: h, manager: Networkd}
				if err := a.release(t.Context(), &plan{before: one, after: links{}}); err != nil {
					t.Fatal(err)
				}
				if down := slices.Contains(ran, "ip link set dev eth1 down"); down != c.down {
					t.Errorf("down: %t, want %t (%q)", down, c.down, ran)
				}
				// The kernel gives an interface that is down an address, too, when this is set.
				if c.down && c.mended && atDown != addressFromMAC {
					t.Errorf("addr_gen_mode is %q when it is set down", atDown)
				}
				text, err := os.ReadFile(filepath.Join(s.root, mode))
				if err != nil || strings.HasPrefix(string(text), "0") != c.mended {
					t.Errorf("addr_gen_mode is %q, %v, want mended: %t", text, err, c.mended)
				}
			})
		})
	}
}

// An interface that an earlier version or an installation made is left as it is: nobody knows how it was.
func TestAnInterfaceOfWhichNothingIsKnownIsLeft(t *testing.T) {
	p := &plan{after: links{"eth0": {Kind: "ethernet"}}, aside: []string{"/etc/x"}}
	text, err := json.Marshal(p.priorOf(inside.Real(t.TempDir(), false), nil, "eth0"))
	if want := `{"files":["/etc/x"]}`; err != nil || string(text) != want {
		t.Errorf("it remembers %s, %v, want %s", text, err, want)
	}
}
