package inside_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/design/author"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/site"
)

// adoptSite is the design before, with the endpoint's address and host key.
const adoptSite = `package fleet

site: {schema: "v1alpha2", rollout: maxUnavailable: "1"}
racks: r1: {}
roles: web: {}
credentials: {bmc: {}, os: {}}
networks: bmc: cidr: "10.9.0.0/24"
profiles: base: {
	role: "web"
	rack: "r1"
	endpoints: manager: url: "redfish+https://{addresses.bmc}/redfish/v1/Systems/1"
}
nodes: n1: {
	profiles: ["base"]
	identity: serial: "S1"
	addresses: bmc: "10.9.0.11"
	endpoints: os: {url: %q, credential: "os", trust: hostKeys: [%q]}
}
`

// byPeople is what people set on the system that is adopted, while it runs.
const byPeople = `
useradd --create-home --uid 1700 --groups adm --shell /bin/bash ana
mkdir -m 700 /home/ana/.ssh
echo '` + firstKey + `' > /home/ana/.ssh/authorized_keys
chmod 600 /home/ana/.ssh/authorized_keys
chown -R ana:ana /home/ana/.ssh
echo 'net.ipv4.conf.all.log_martians = 1' > /etc/sysctl.d/70-people.conf
sysctl -q -p /etc/sysctl.d/70-people.conf
echo 'deb [trusted=yes] file:///srv/repo stable main' > /etc/apt/sources.list.d/people.list
apt-get -qq -o Dir::Etc::sourcelist=/etc/apt/sources.list.d/people.list -o Dir::Etc::sourceparts=- update
apt-get -qq install one=1.0 two
apt-mark -qq hold one
printf '[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n' > /etc/systemd/system/mine.service
systemctl -q daemon-reload
systemctl -q enable --now mine.service
systemctl -q mask fstrim.service
systemctl -q disable fstrim.timer
ln -sf /usr/share/zoneinfo/Asia/Tokyo /etc/localtime
echo Asia/Tokyo > /etc/timezone
`

// A Debian that people have set up by hand, its network too, is taken over while it runs:
// no facet differs from the design that is written of it, and nothing but the helper has
// come to it.
func TestAdoptsARunningDebian(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	n := startNetworked(t)
	none := &site.Node{Name: "n1", References: site.References{Family: "debian"}}
	if !n.reached(t, none, time.Now().Add(time.Minute), nodeAddress) {
		t.Fatalf("the node is not reached at first:\n%s", n.Does("ip address; ip route; networkctl; systemctl --failed"))
	}
	n.Does("rm -rf /var/lib/slipway-inside") // what that look has brought
	n.Does(byPeople)
	folder := adoptFolder(t, n)
	was := n.listing()
	before := withoutHelper(n.Does(ctimes)) // the programs that the listing asks write their caches

	taken := adopts(t, folder)
	if len(taken.Nodes) != 1 || taken.Nodes["n1"] == 0 || len(taken.Failed) > 0 {
		t.Errorf("looked into %v, failed %v", taken.Nodes, taken.Failed)
	}
	var left []string
	for _, l := range taken.Left {
		left = append(left, l.What)
	}
	if want := []string{"repositories", "units.ssh.service", "units.systemd-networkd.service"}; !slices.Equal(left, want) { // the settings of the last two are the test's
		t.Errorf("not taken over %+v, want %v", taken.Left, want)
	}
	r := design.EvaluateHere(os.DirFS(filepath.Join(folder, "site")), "")
	if r.Site == nil || site.HasErrors(r.Findings) {
		t.Fatal(r.Findings)
	}
	d := r.Site.Nodes["n1"]
	holdsWhatPeopleSet(t, d)

	m := n.machine(t, nodeAddress)
	defer m.Close()
	seen, err := look(t.Context(), n.node, m, d)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range site.InsideFacets {
		if diff := plan.Differs(d, f, seen.Facets[f]); len(diff) > 0 || len(d.Items(f)) > 0 && !plan.AsDesigned(d, f, seen.Facets[f]) {
			t.Errorf("%s differs: %v", f, diff)
		}
		if ours := seen.Facets[f].Left(d, f); len(ours) > 0 {
			t.Errorf("%s: Slipway owns %v", f, ours)
		}
	}
	if after := withoutHelper(n.Does(ctimes)); after != before {
		t.Errorf("it has written:\n%s", difference(after, before))
	}
	if now := n.listing(); difference(now, was) != "" {
		t.Errorf("it has changed:\n%s", difference(now, was))
	}
	n.Says("ls -A /var/lib/slipway-inside | sed 's/-.*//' | sort | tr '\n' ' '", "helper")
}

// withoutHelper are the files of a system without the helper and its lock.
func withoutHelper(ctimes string) string {
	lines := slices.DeleteFunc(strings.Split(ctimes, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "/var/lib/slipway-inside ") || strings.HasPrefix(line, "/var/lib/slipway-inside/helper-") || strings.HasPrefix(line, "/var/lib ")
	})
	return strings.Join(lines, "\n")
}

// adoptFolder is a folder with the site in site, the credentials in cred and the program
// slipway.
func adoptFolder(t *testing.T, n *networked) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, text := range map[string]string{
		"site/cue.mod/module.cue": "module: \"example.org/fleet\"\nlanguage: version: \"v0.9.0\"\n",
		"site/site.cue":           fmt.Sprintf(adoptSite, "ssh://"+nodeAddress, made.hostKey),
		"cred/os":                 "hosts: " + nodeAddress + "\nuse: ssh\nusername: root\n\n" + made.key,
		"cred/bmc":                "hosts: 10.9.0.0/24\nuse: redfish\nusername: root\n\nnone\n",
	} {
		at := filepath.Join(folder, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	does(t, "go", "build", "-o", filepath.Join(folder, "slipway"), "../../cmd/slipway")
	return folder
}

// takenOver is what slipway adopt --inside prints.
type takenOver struct {
	Nodes  map[string]int
	Left   []author.NotTaken
	Failed map[string]string
}

// adopts runs slipway adopt --inside.
func adopts(t *testing.T, folder string) (taken takenOver) {
	t.Helper()
	out := does(t, filepath.Join(folder, "slipway"), "adopt", "--inside", "--pin", "-o", "json", "--agents", made.helpers,
		"--credentials", filepath.Join(folder, "cred"), "--state", filepath.Join(folder, "state"), filepath.Join(folder, "site"))
	if err := json.Unmarshal([]byte(out), &taken); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return taken
}

// holdsWhatPeopleSet holds that the design has what byPeople has set, and what the system
// began with.
func holdsWhatPeopleSet(t *testing.T, d *site.Node) {
	t.Helper()
	have := map[string]string{}
	for _, f := range site.InsideFacets {
		maps.Copy(have, item.Values(d.Items(f)))
	}
	for name, want := range map[string]string{
		"hostname": "before", "time.zone": "Asia/Tokyo",
		"users.ana.uid": "1700", "users.ana.groups": "adm", "users.ana.shell": "/bin/bash", "users.people.uid": "1400", "users.people.groups": "video",
		"sysctl.net.ipv4.conf.all.log_martians": "1", "sysctl.net.ipv4.conf.all.accept_redirects": "0",
		"packages.one.state": "held", "packages.one.version": "1.0", "packages.two.state": "present",
		"units.mine.service.enabled": "true", "units.before.service.enabled": "true", "units.fstrim.timer.enabled": "false", "units.fstrim.service.state": "masked",
		"units.networking.service.enabled": "false",
		"links.eth0.addresses":             nodeAddress + "/24",
	} {
		if have[name] != want {
			t.Errorf("the design has %s as %q, want %q", name, have[name], want)
		}
	}
	if keys := d.System.Users["ana"].Keys; !slices.Equal(keys, []string{firstKey}) {
		t.Errorf("the keys of ana are %q", keys)
	}
	if t.Failed() {
		t.Log(have)
	}
}
