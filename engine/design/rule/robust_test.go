package rule

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// odd are values as a design has them of which parts were wrong and left out,
// or which no rule has checked yet.
var odd = []string{"", "x", "dhcp", "allocate", "10.0.0.0/24", "10.0.0.1", "10.0.0.255", "::", "::/0", "fd00::1", "::ffff:10.0.0.1", "255.255.255.255/32"}

func oddSite(a, b string) *site.Site {
	return &site.Site{
		Networks: map[string]*site.Network{
			"":  {},
			"x": {CIDR: a, Gateway: b, MTU: 1, VLAN: 1, RouteDomain: "x", DHCPRelay: &site.DHCPRelay{Address: b, Servers: []string{a, b}}},
			"y": {CIDR: b, Ranges: map[string]site.Range{"": {}, "x": {From: a, To: b, Use: site.RangeStatic}, "y": {From: b, To: a, Use: site.RangeDHCP}}},
			"z": {CIDR: b, Routes: map[string]site.Route{"": {}, "x": {To: a, Gateway: b}, "y": {Domain: "x", Gateway: a}}, DNS: site.DNS{Domain: a, Servers: []string{a, b}}},
		},
		Links: map[string]*site.Link{
			"":  {},
			"x": {Networks: []string{"x", "y", "z", "x", "none", ""}, Trunk: true, Native: "y", Bonding: &site.Bonding{UpDelay: 1}},
			"y": {Networks: []string{}, Native: "x", Bonding: &site.Bonding{Mode: "x", Monitor: 3e6, UpDelay: 1, MinLinks: 9}},
		},
		Racks:       map[string]*site.Rack{"": {}, "x": {Switches: map[string]site.Switch{"": {}, "x": {Address: a, Ports: map[string]site.SwitchPort{"": {Link: "x"}, "x": {Link: "y"}}}}}},
		Allocations: map[string]map[string]string{"x": {"n": a, "none": b}, "none": {"n": a}, "y": nil},
	}
}

func oddNode(a, b string) *site.Node {
	return &site.Node{
		Name: "n", Rack: "x", PrimaryNetwork: "x",
		Addresses: map[string]string{"x": a, "y": b, "z": a, "": b, "none": a},
		Endpoints: map[site.EndpointKind]site.Endpoint{site.Manager: {URL: "redfish+https://" + a}},
		Interfaces: map[string]site.Interface{
			"":  {},
			"x": {Link: "x", Networks: []string{"x", "y", "x", ""}, MTU: 9, MAC: a, Switch: "x", Port: "x", Device: "x"},
			"y": {Link: "y", Switch: "none", Port: b},
		},
		Bonds:   map[string]site.Bond{"": {}, "x": {Members: []string{"x", "x", "none", ""}, Link: "y", Primary: "y"}},
		Bridges: map[string]site.Bridge{"": {}, "b": {Members: []string{"b", "x", "y"}, Networks: []string{"z"}}},
		VLANs:   map[string]site.VLAN{"": {}, "v": {Parent: "v", Network: "x"}, "w": {Parent: "x", Network: "y", MTU: 70000}},
	}
}

// A rule takes whatever the rest of a design is: it breaks off for no value.
func TestRulesTakeOddValues(t *testing.T) {
	for _, a := range odd {
		for _, b := range odd {
			if broke := brokenOff(oddSite(a, b), oddNode(a, b)); broke != "" {
				t.Errorf("with %q and %q: %s", a, b, broke)
			}
		}
	}
}

// Every field of a design, those of roles, systems and selectors among them,
// is missing, empty or odd in some of many random designs.
func TestRulesTakeRandomValues(t *testing.T) {
	for seed := range uint64(400) {
		r := randomly{rand.New(rand.NewPCG(seed, 0)), map[string]site.Origin{}}
		s := &site.Site{}
		r.fill(reflect.ValueOf(s).Elem(), "", 0)
		s.Origins, r.origins = site.OriginsByPath(r.origins), map[string]site.Origin{}
		var nodes []*site.Node
		for _, name := range []string{"x", "y", ""} {
			n := &site.Node{}
			r.fill(reflect.ValueOf(n).Elem(), "", 0)
			n.Name, n.Origins = name, site.OriginsByPath(r.origins)
			nodes = append(nodes, n)
		}
		if broke := brokenOff(s, nodes...); broke != "" {
			t.Errorf("with the seed %d: %s", seed, broke)
		}
	}
}

// brokenOff says which rules broke off over a site with some nodes.
func brokenOff(s *site.Site, nodes ...*site.Node) string {
	found := OnSite(s, true)
	fleet := NewFleet()
	for _, n := range nodes {
		of, facts := OnNode(s, n)
		fleet.Put(n.Name, facts)
		found = append(found, of...)
	}
	var broke strings.Builder
	for _, f := range slices.Concat(found, fleet.Check(s)) {
		if f.Code == "panic" {
			fmt.Fprintln(&broke, f.Message, f.Fix)
		}
	}
	return broke.String()
}

// randomly fills values with what a design could have in them, or could have
// if no rule and no type were there. Of what it comes by, it says of some that
// the design states it.
type randomly struct {
	*rand.Rand
	origins map[string]site.Origin
}

// words are texts, names and keys: those of odd, and what some field or other
// takes.
var words = slices.Concat(odd, []string{
	"y", "n4", "*", "[", "\\", "x y", "/", "//", "/etc/x", "/etc", "..", "{", "{x}", "{name}", "all", "2", "50%", "0%", "-1", "0-", "3-1,9",
	"base", "install", "controller", "raid1", "raid0", "md0", "802.3ad", "absent", "present", "held", "masked", "0777", "root", "x.service", ".", "net.ipv4.x", "net/ipv4/x",
	"22:00", "0 22 * * 1-5", "@every 1s", "TZ=", "60 * * * *", "0 0 30 2 *", "online", "UTC", "mon", "https://x/", "://", "ssh-ed25519 AAAA", "tls://x:1", "redfish+https://[::1]:0/", "-----BEGIN CERTIFICATE-----", "password", "a=b", "2MiB", "efi", "uefi", "Pxe", "0000:18:00.0",
})

var numbers = []int64{0, 1, 2, -1, 100, 4095, 1 << 20, math.MaxInt64, math.MinInt64}

func (r randomly) word() string { return words[r.IntN(len(words))] }

func (r randomly) fill(v reflect.Value, path string, depth int) {
	if path != "" && r.IntN(2) == 0 {
		r.origins[path] = site.At("x.cue", 1+r.IntN(9), 1, "site")
	}
	if depth > 9 || path != "" && r.IntN(5) == 0 {
		return // it is missing, as it is where the value is broken
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(r.word())
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		v.SetInt(numbers[r.IntN(len(numbers))])
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		r.fill(v.Elem(), path, depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
		for i := range v.Len() {
			r.fill(v.Index(i), fmt.Sprintf("%s.%d", path, i), depth+1)
		}
	case reflect.Map:
		r.fillMap(v, path, depth)
	case reflect.Interface:
		v.Set(reflect.ValueOf([]any{"x", int64(1), 1.5, true, []any{nil, "x"}, map[string]any{"": nil, "x": "y"}}[r.IntN(6)]))
	case reflect.Struct:
		r.fillStruct(v, path, depth)
	}
}

// fillMap puts entries into a map; a pointer in one is never nil.
func (r randomly) fillMap(v reflect.Value, path string, depth int) {
	v.Set(reflect.MakeMap(v.Type()))
	for range r.IntN(4) {
		key, value := r.word(), reflect.New(v.Type().Elem()).Elem()
		if value.Kind() == reflect.Pointer {
			value.Set(reflect.New(value.Type().Elem()))
			r.fill(value.Elem(), path+"."+key, depth+1)
		} else {
			r.fill(value, path+"."+key, depth+1)
		}
		v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), value)
	}
}

func (r randomly) fillStruct(v reflect.Value, path string, depth int) {
	if v.Type() == reflect.TypeFor[site.Origin]() || v.Type() == reflect.TypeFor[time.Time]() {
		return
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			r.fillStruct(v.Field(i), path, depth)
		} else if name != "origins" && name != "nodes" || path != "" {
			r.fill(v.Field(i), strings.TrimPrefix(path+"."+name, "."), depth+1)
		}
	}
}
