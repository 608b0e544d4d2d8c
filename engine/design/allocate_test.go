package design

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/site"
)

// poolSite is a site with one network of a static range and nodes with the
// given addresses.
func poolSite(from, to string, addresses map[string]string) *site.Site {
	s := &site.Site{
		Networks: map[string]*site.Network{"mgmt": {
			CIDR: "10.1.0.0/24", Gateway: "10.1.0.1",
			Ranges: map[string]site.Range{"nodes": {From: from, To: to, Use: site.RangeStatic}},
		}},
		Allocations: map[string]map[string]string{},
		Nodes:       map[string]*site.Node{},
	}
	for name, a := range addresses {
		s.Nodes[name] = &site.Node{Name: name, Addresses: map[string]string{"mgmt": a}}
	}
	return s
}

func allocate(t *testing.T, s *site.Site) map[string]string {
	t.Helper()
	all, err := Allocate(s)
	if err != nil {
		t.Fatal(err)
	}
	return all["mgmt"]
}

// Addresses are given lowest first to nodes in order of name, past what is
// taken: the gateway, and what other nodes were given in the design.
func TestAllocateLowestFirst(t *testing.T) {
	s := poolSite("10.1.0.0", "10.1.0.9", map[string]string{
		"b": "allocate", "a": "allocate", "c": "allocate", "given": "10.1.0.3", "dhcp": "dhcp",
	})
	want := map[string]string{"a": "10.1.0.2", "b": "10.1.0.4", "c": "10.1.0.5"}
	if diff := cmp.Diff(want, allocate(t, s)); diff != "" {
		t.Error(diff)
	}
}

// A node keeps its address when others come and go; that of a node that left
// is free again.
func TestAllocateKeepsAndFrees(t *testing.T) {
	s := poolSite("10.1.0.10", "10.1.0.12", map[string]string{"a": "allocate", "b": "allocate", "c": "allocate"})
	s.Allocations["mgmt"] = map[string]string{"b": "10.1.0.10", "gone": "10.1.0.11"}
	want := map[string]string{"a": "10.1.0.11", "b": "10.1.0.10", "c": "10.1.0.12"}
	if diff := cmp.Diff(want, allocate(t, s)); diff != "" {
		t.Error(diff)
	}
}

// An allocation that cannot be right is given anew: outside the ranges,
// somebody else's, or no address at all.
func TestAllocateMendsWhatIsWrong(t *testing.T) {
	s := poolSite("10.1.0.10", "10.1.0.19", map[string]string{
		"a": "allocate", "b": "allocate", "c": "allocate", "given": "10.1.0.11",
	})
	s.Allocations["mgmt"] = map[string]string{"a": "10.1.0.99", "b": "10.1.0.11", "c": "nonsense"}
	want := map[string]string{"a": "10.1.0.10", "b": "10.1.0.12", "c": "10.1.0.13"}
	if diff := cmp.Diff(want, allocate(t, s)); diff != "" {
		t.Error(diff)
	}
}

func TestAllocateSaysWhichPoolIsTooSmall(t *testing.T) {
	s := poolSite("10.1.0.10", "10.1.0.11", map[string]string{"a": "allocate", "b": "allocate", "c": "allocate"})
	_, err := Allocate(s)
	if err == nil || !strings.Contains(err.Error(), `network mgmt have no address left for c: widen one under networks."mgmt".ranges`) {
		t.Errorf("got %v", err)
	}
}

func TestAllocateIPv6(t *testing.T) {
	s := poolSite("fd00:1::10", "fd00:1::ffff:ffff", map[string]string{"a": "allocate", "b": "allocate"})
	s.Networks["mgmt"].CIDR, s.Networks["mgmt"].Gateway = "fd00:1::/64", "fd00:1::1"
	want := map[string]string{"a": "fd00:1::10", "b": "fd00:1::11"}
	if diff := cmp.Diff(want, allocate(t, s)); diff != "" {
		t.Error(diff)
	}
}

// The last address of a range may be the last that there is.
func TestAllocateEndsAtTheLastAddress(t *testing.T) {
	s := poolSite("255.255.255.254", "255.255.255.255", map[string]string{"a": "allocate", "b": "allocate", "c": "allocate"})
	s.Networks["mgmt"].CIDR = "255.255.255.254/31"
	if _, err := Allocate(s); err == nil || !strings.Contains(err.Error(), "no address left for c") {
		t.Errorf("got %v", err)
	}
}

// Over random histories: nobody shares an address, all are in the range, who
// stays keeps, and doing it again changes nothing.
func TestAllocateOverRandomHistories(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		s := poolSite("10.1.0.10", "10.1.0.60", nil)
		for range 20 {
			name := fmt.Sprintf("n%d", r.IntN(30))
			if s.Nodes[name] == nil {
				s.Nodes[name] = &site.Node{Name: name, Addresses: map[string]string{"mgmt": "allocate"}}
			} else {
				delete(s.Nodes, name)
			}
			before := s.Allocations["mgmt"]
			after := allocate(t, s)
			owners := map[string]string{}
			for node, a := range after {
				if other, taken := owners[a]; taken {
					t.Fatalf("seed %d: %s and %s both have %s", seed, node, other, a)
				}
				owners[a] = node
				if before[node] != "" && before[node] != a {
					t.Fatalf("seed %d: %s had %s and now has %s", seed, node, before[node], a)
				}
			}
			if len(after) != len(s.Nodes) {
				t.Fatalf("seed %d: %d nodes ask, %d have", seed, len(s.Nodes), len(after))
			}
			s.Allocations["mgmt"] = after
			if diff := cmp.Diff(after, allocate(t, s)); diff != "" {
				t.Fatalf("seed %d: again gives otherwise:\n%s", seed, diff)
			}
		}
	}
}

func TestAllocationsFile(t *testing.T) {
	got := string(Allocations{"mgmt": {"n2": "10.1.0.11", "n1": "10.1.0.10"}}.CUE("fra"))
	want := "// Written by `slipway allocate`; change the nodes or the ranges instead.\npackage fra\n\n" +
		"allocations: \"mgmt\": {\n\t\"n1\": \"10.1.0.10\"\n\t\"n2\": \"10.1.0.11\"\n}\n"
	if got != want {
		t.Errorf("got\n%s", got)
	}
}
