package network

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// systemd-networkd takes an interface's addresses away and adds them again. A look before that, or in the middle,
// proves nothing.
func TestProofWaitsForNetworkd(t *testing.T) {
	const eth1 = "/run/systemd/netif/links/3"
	for _, c := range []struct {
		name      string
		manager   string
		states    []string // of eth1 at each look; the last one stays
		addresses []bool   // whether eth1 has its address then
		looks     int
		took      time.Duration
		fails     string
	}{
		{"at once", Networkd, []string{"configured"}, []bool{true}, 1, 0, ""},
		{"addresses of before, then none", Networkd, []string{"initialized", "configuring", "configuring", "configured"}, []bool{true, false, true, true}, 4, 300 * time.Millisecond, ""},
		{"by netplan", Netplan, []string{"pending", "configured"}, []bool{true, true}, 2, 100 * time.Millisecond, ""},
		{"no carrier: it never ends", Networkd, []string{"configuring"}, []bool{true}, 31, steady, ""},
		{"as designed anew", Networkd, []string{"configuring"}, []bool{true, true, false, true}, 34, steady + 300*time.Millisecond, ""},
		{"it failed, and is as designed", Networkd, []string{"failed"}, []bool{true}, 1, 0, ""},
		{"as designed late, and it never ends", Networkd, []string{"configuring"}, append(slices.Repeat([]bool{false}, 280), true), 312, 31050 * time.Millisecond, ""},
		{"it alternates to the end", Networkd, []string{"configuring"}, slices.Repeat([]bool{true, false}, 200), 0, 0, "did not become what was asked"},
		{"it alternates, and is then as designed", Networkd, []string{"configuring"}, append(slices.Repeat([]bool{false, true}, 148), true), 327, 32550 * time.Millisecond, ""},
		{"it never is as designed", Networkd, []string{"configuring"}, []bool{false}, 301, 30050 * time.Millisecond, "addresses"},
		{"of another manager", Ifupdown, []string{"configuring"}, []bool{true}, 1, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSystem(t)
			f := s.facet()
			f.Deadline = time.Minute + 100*time.Millisecond // half of it ends between two looks
			looks := 0
			at := func(n int) int { return min(looks, n) - 1 }
			read := f.tables.addresses
			f.tables.addresses = func() ([]kernelAddress, error) {
				looks++
				put(t, s.root, eth1, "ADMIN_STATE="+c.states[at(len(c.states))]+"\nOPER_STATE=routable\n", 0o644)
				if s.addresses["eth1"] = nil; c.addresses[at(len(c.addresses))] {
					s.addresses["eth1"] = []string{"10.2.0.11/24"}
				}
				return read()
			}
			before, err := s.facet().tables.look(s.host())
			if err != nil {
				t.Fatal(err)
			}
			after := links{"eth1": {Kind: "ethernet", Addresses: []string{"10.2.0.11/24"}}}
			p := &plan{manager: c.manager, after: after, all: after}
			looks = 0
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				if err := f.prove(t.Context(), s.host(), p, before, nil); err != nil && c.fails == "" || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
					t.Errorf("%v, want %q", err, c.fails)
				}
				if took := time.Since(began); c.looks > 0 && (looks != c.looks || took != c.took) {
					t.Errorf("%d looks in %s", looks, took)
				}
			})
		})
	}
}
