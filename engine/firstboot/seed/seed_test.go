package seed

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// example is a site with one virtual machine in two networks.
func example() (*site.Site, *site.Node, site.Step) {
	n := &site.Node{
		Name: "web-1", Style: site.StyleVirtual, Image: "debian", Generation: 2, PrimaryNetwork: "os",
		Addresses: map[string]string{"os": "10.1.0.11", "storage": "10.30.0.11"},
		Interfaces: map[string]site.Interface{
			"eth0": {Networks: []string{"os"}},
			"eth1": {Link: "data"},
		},
		VLANs: map[string]site.VLAN{"eth1.30": {Parent: "eth1", Network: "storage"}},
		Virtual: site.Virtual{Interfaces: map[string]site.VirtualInterface{
			"eth0": {Bridge: "br0"}, "eth1": {Bridge: "br1"}, "eth2": {Bridge: "br2"},
		}},
		System: site.System{
			Users: map[string]site.User{
				"ops":  {Keys: []string{"ssh-ed25519 AAAA ops"}, Sudo: true, Groups: []string{"adm", "systemd-journal"}},
				"gone": {State: "absent"},
			},
			Time: site.Time{Zone: "UTC"},
		},
		Families: map[string]site.System{"debian": {Users: map[string]site.User{"debian": {Shell: "/bin/sh"}}}},
	}
	s := &site.Site{
		Name:   "lab",
		Images: map[string]*site.Image{"debian": {SHA256: "d1", Family: "debian"}},
		Links:  map[string]*site.Link{"data": {MTU: 9000}},
		Networks: map[string]*site.Network{
			"os": {CIDR: "10.1.0.0/24", Gateway: "10.1.0.1", DNS: site.DNS{Domain: "example.org", Servers: []string{"10.1.0.53"}},
				Routes: map[string]site.Route{"far": {To: "10.9.0.0/16", Gateway: "10.1.0.2", Metric: 50}}},
			"storage": {CIDR: "10.30.0.0/16", VLAN: 30, MTU: 9000},
		},
	}
	n.Derive("lab")
	return s, n, site.Step{Action: site.ActionInstall, Generation: 2, Image: &site.Image{SHA256: "d1"}}
}

// files are a seed's, as values.
type files struct {
	Meta map[string]string
	User struct {
		Hostname, FQDN, Timezone string
		Users                    []map[string]any
		WriteFiles               []map[string]any  `json:"write_files"`
		SSHKeys                  map[string]string `json:"ssh_keys"`
		Deletes                  bool              `json:"ssh_deletekeys"`
		Run                      [][]string        `json:"runcmd"`
	}
	Net map[string]any
}

func seedOf(t *testing.T, s *site.Site, n *site.Node, step site.Step) (files, Identity) {
	t.Helper()
	seed, id, err := Make(s, n, step, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	user, ok := strings.CutPrefix(seed.UserData.Reveal(), "#cloud-config\n")
	if !ok {
		t.Fatalf("the user data do not say what they are: %.40s", user)
	}
	var f files
	for text, into := range map[string]any{seed.MetaData.Reveal(): &f.Meta, user: &f.User, seed.NetworkConfig.Reveal(): &f.Net} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	return f, id
}

// seeded is the example's seed.
func seeded(t *testing.T) (files, Identity) {
	t.Helper()
	s, n, step := example()
	return seedOf(t, s, n, step)
}

func TestSeedSaysWhoTheSystemIs(t *testing.T) {
	f, id := seeded(t)
	if f.Meta["instance-id"] != site.MachineUUID("lab", "web-1")+"-g2" || f.Meta["local-hostname"] != "web-1" {
		t.Errorf("got %v", f.Meta)
	}
	if f.User.Hostname != "web-1" || f.User.FQDN != "web-1.example.org" || f.User.Timezone != "UTC" {
		t.Errorf("got %+v", f.User)
	}
	signer, err := ssh.ParsePrivateKey([]byte(f.User.SSHKeys["ed25519_private"]))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))); got != id.HostKey || got != f.User.SSHKeys["ed25519_public"] || !f.User.Deletes {
		t.Errorf("the system has the key %s, and %s is expected", got, id.HostKey)
	}
	var m site.Marker
	if err := json.Unmarshal([]byte(f.User.WriteFiles[0]["content"].(string)), &m); err != nil {
		t.Fatal(err)
	}
	if m.Node != "web-1" || m.Generation != 2 || m.Image != "d1" || !(site.FirstBoot{Tokens: []string{id.Token}}).Gave(m.Token) {
		t.Errorf("got marker %+v", m)
	}
}

func TestEverySeedHasItsOwnKeys(t *testing.T) {
	s, n, step := example()
	_, a := seedOf(t, s, n, step)
	_, b := seedOf(t, s, n, step)
	if a.HostKey == b.HostKey || a.Token == b.Token {
		t.Errorf("two seeds have the same identity: %+v", a)
	}
}

func TestMarkerIsSigned(t *testing.T) {
	key, err := sitekey.Create(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	s, n, step := example()
	step.Machine, step.Attempt = n.Identity, 3
	seed, id, err := Make(s, n, step, key, 7)
	if err != nil {
		t.Fatal(err)
	}
	var user struct {
		WriteFiles []map[string]any `json:"write_files"`
	}
	var m site.Marker
	text := strings.TrimPrefix(seed.UserData.Reveal(), "#cloud-config\n")
	if err := json.Unmarshal([]byte(text), &user); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(user.WriteFiles[0]["content"].(string)), &m); err != nil {
		t.Fatal(err)
	}
	if !sitekey.Proves([]string{key.Public()}, "lab", n.Identity, m) || m.Attempt != 3 || m.Term != 7 || !(site.FirstBoot{Tokens: []string{id.Token}}).Gave(m.Token) {
		t.Errorf("got %+v", m)
	}
}

func TestSeedIsSecret(t *testing.T) {
	s, n, step := example()
	seed, _, err := Make(s, n, step, nil, 0)
	if text := fmt.Sprintf("%v %+v %#v", seed, seed, seed); err != nil || strings.Contains(text, "PRIVATE") || strings.Contains(text, "cloud-config") {
		t.Errorf("printing a seed tells what is in it: %s (%v)", text, err)
	}
}

func TestAccounts(t *testing.T) {
	f, _ := seeded(t)
	var names []string
	for _, u := range f.User.Users {
		names = append(names, u["name"].(string))
		if u["lock_passwd"] != true {
			t.Errorf("%v may log in with a password", u)
		}
	}
	if got := strings.Join(names, " "); got != "debian ops" {
		t.Errorf("got accounts %s", got)
	}
	ops := f.User.Users[1]
	if ops["groups"] != "adm,systemd-journal" || ops["sudo"] != nil || fmt.Sprint(ops["ssh_authorized_keys"]) != "[ssh-ed25519 AAAA ops]" {
		t.Errorf("got %v", ops)
	}
	// Its rule is the one that is set later, so that it can be taken away.
	if w := f.User.WriteFiles; len(w) != 4 || w[2]["path"] != item.SudoFile("ops") || w[2]["permissions"] != "0440" || w[2]["content"] != item.SudoRule("ops") {
		t.Errorf("got files %v", w)
	}
	// A system that cannot find its own name has sudo wait for a name server.
	if w := f.User.WriteFiles; w[3]["path"] != "/etc/hosts" || w[3]["append"] != true || !strings.HasPrefix(w[3]["content"].(string), "127.0.1.1\tweb-1") {
		t.Errorf("got files %v", w)
	}
}

func TestNetworks(t *testing.T) {
	f, _ := seeded(t)
	eth0 := f.Net["ethernets"].(map[string]any)["eth0"].(map[string]any)
	for field, want := range map[string]string{
		"match":       "map[macaddress:" + site.MachineMAC("lab", "web-1", "eth0") + "]",
		"set-name":    "eth0",
		"addresses":   "[10.1.0.11/24]",
		"routes":      "[map[to:0.0.0.0/0 via:10.1.0.1] map[metric:50 to:10.9.0.0/16 via:10.1.0.2]]",
		"nameservers": "map[addresses:[10.1.0.53] search:[example.org]]",
		"mtu":         "<nil>",
	} {
		if got := fmt.Sprint(eth0[field]); got != want {
			t.Errorf("eth0 %s: got %s, want %s", field, got, want)
		}
	}
	eth1 := f.Net["ethernets"].(map[string]any)["eth1"].(map[string]any)
	vlan := f.Net["vlans"].(map[string]any)["eth1.30"].(map[string]any)
	if eth1["mtu"] != 9000.0 || vlan["id"] != 30.0 || vlan["link"] != "eth1" || fmt.Sprint(vlan["addresses"]) != "[10.30.0.11/16]" {
		t.Errorf("got %v and %v", eth1, vlan)
	}
	if eth2 := f.Net["ethernets"].(map[string]any)["eth2"].(map[string]any); eth2["dhcp4"] != false || eth2["addresses"] != nil {
		t.Errorf("an interface that the design says nothing of is set up: %v", eth2)
	}
}

// Names from the design come to no more than names, whatever is in them.
func TestHostileTextStaysText(t *testing.T) {
	s, n, step := example()
	hostile := "a\"\n#cloud-config\nruncmd: [[rm, -rf, /]]\n- '${x}' \u2028 --- %{}"
	n.System.Users = map[string]site.User{hostile: {Keys: []string{hostile}, Groups: []string{hostile}}}
	n.System.Time.Zone = hostile
	f, _ := seedOf(t, s, n, step)
	if f.User.Timezone != hostile || f.User.Users[0]["name"] != hostile || len(f.User.Run) != 1 {
		t.Errorf("got %+v", f.User)
	}
}

func TestBrokenAddress(t *testing.T) {
	s, n, step := example()
	n.Addresses["os"] = "allocate"
	if _, _, err := Make(s, n, step, nil, 0); err == nil || !strings.Contains(err.Error(), `"allocate"`) {
		t.Errorf("got %v", err)
	}
}
