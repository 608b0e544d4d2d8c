package lab_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// design is a site of two nodes, of which one has no system to ask.
func design() *site.Site {
	id := site.Identity{UUID: "5e1d0000-0000-4000-8000-000000000001"}
	return &site.Site{
		Images: map[string]*site.Image{
			"debian12":  {URL: "http://127.83.0.1:18080/images/debian12/{node}/{generation}.iso", SHA256: "abcd"},
			"elsewhere": {URL: "https://images.example.org/a.iso"},
		},
		Nodes: map[string]*site.Node{
			"a": {
				Name: "a", Identity: id, Power: "off", Boot: site.Boot{Order: []string{"Pxe", "Hdd"}}, Image: "debian12", Generation: 2,
				Hardware: site.Hardware{Model: "M", Memory: 256 << 30},
				Endpoints: map[site.EndpointKind]site.Endpoint{
					site.Manager: {URL: "redfish+https://127.83.1.1:18443/redfish/v1/Systems/1", Credential: "bmc"},
					site.OS:      {URL: "ssh://127.84.1.1:18022", Credential: "os"},
				},
			},
			"b": {Name: "b", Endpoints: map[site.EndpointKind]site.Endpoint{
				site.Manager: {URL: "redfish+https://127.83.1.2:18443/redfish/v1/Systems/1", Credential: "bmc"},
			}},
		},
	}
}

func accounts(e site.Endpoint) (lab.Account, error) {
	if e.Credential == "os" {
		return lab.Account{Username: "root", AuthorizedKeys: []string{"key"}}, nil
	}
	return lab.Account{Username: "admin", Password: "pw"}, nil
}

func TestRehearse(t *testing.T) {
	s := design()
	c, err := lab.Rehearse(s, accounts)
	if err != nil {
		t.Fatal(err)
	}
	c.Calm(s)
	want := lab.Config{
		BMCPort: 18443, SSHPort: 18022, ImagePort: 18080, ImageAddr: "127.83.0.1", Images: []lab.ImageConfig{{Name: "debian12"}},
		Machines: []lab.MachineConfig{{
			Name: "a", BMCAddr: "127.83.1.1", OSAddr: "127.84.1.1", Identity: s.Nodes["a"].Identity, Username: "admin", Password: "pw",
			Manufacturer: "Lab", Model: "M", MemoryGiB: 256, Processors: 1, Power: "off", BootOrder: []string{"Pxe", "Hdd"},
			AuthorizedKeys: []string{"key"},
		}, {
			Name: "b", BMCAddr: "127.83.1.2", Username: "admin", Password: "pw",
			Manufacturer: "Lab", Model: "Simulated", MemoryGiB: 64, Processors: 1, Power: "on", BootOrder: []string{"Hdd", "Pxe"},
		}},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Error("-want +got:\n" + diff)
	}
	c.Machines[0].Marker = &site.Marker{Node: "a", Generation: 1}
	if err := c.Empty("a"); err != nil || !c.Machines[0].Blank || c.Machines[0].Marker != nil || c.Machines[0].Power != "off" {
		t.Errorf("an empty machine is %+v, %v", c.Machines[0], err)
	}
	if err := c.Empty("z"); err == nil {
		t.Error("a machine that is not there can be emptied")
	}
}

func TestDesignsThatTheLabCannotBe(t *testing.T) {
	set := func(node string, kind site.EndpointKind, url string) func(*site.Site) {
		return func(s *site.Site) { s.Nodes[node].Endpoints[kind] = site.Endpoint{URL: url} }
	}
	for says, change := range map[string]func(*site.Site){
		"node b: the lab needs a port":                          set("b", site.Manager, "redfish+https://127.83.1.2/redfish/v1/Systems/1"),
		"node b: the lab can only be at loopback addresses":     set("b", site.Manager, "redfish+https://10.0.0.1:18443/redfish/v1/Systems/1"),
		"node b: the lab has one port for all of a kind, 18443": set("b", site.Manager, "redfish+https://127.83.1.2:443/redfish/v1/Systems/1"),
		"image elsewhere: the lab has one address for all":      func(s *site.Site) { s.Images["elsewhere"] = &site.Image{URL: "http://127.83.0.2:18080/a"} },
		"image debian12: the lab needs a port in http://127.0.": func(s *site.Site) { s.Images["debian12"] = &site.Image{URL: "http://127.0.0.1/a"} },
	} {
		s := design()
		change(s)
		if _, err := lab.Rehearse(s, accounts); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	missing := errors.New("missing")
	if _, err := lab.Rehearse(design(), func(site.Endpoint) (lab.Account, error) { return lab.Account{}, missing }); !errors.Is(err, missing) {
		t.Errorf("without credentials: %v", err)
	}
}
