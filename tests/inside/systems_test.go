package inside_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/nspawn"
)

// TestProveSystems applies one design that asks something of every facet to each release
// of nspawn.Suites, looks at the result with the system's own programs, and takes all of
// it out again.
func TestProveSystems(t *testing.T) {
	if !proves() {
		t.Skip("takes minutes for each release: set SLIPWAY_PROVE")
	}
	for _, f := range fixtures {
		for _, manager := range managersOf[f.suite.Name] {
			t.Run(f.suite.Name+" with "+manager, func(t *testing.T) { everything(t, f, manager) })
		}
	}
}

// managersOf are what manages the network of each system that is tried, the system's own
// first.
var managersOf = map[string][]string{
	"Debian 11":    {"ifupdown", "networkd"},
	"Debian 12":    {"ifupdown", "networkd"},
	"Debian 13":    {"ifupdown", "networkd"},
	"Ubuntu 22.04": {"netplan"},
	"Ubuntu 24.04": {"netplan"},
	"Ubuntu 26.04": {"netplan"},
}

// networkBefore is how people have set the interface eth0 up, by its manager: files, and
// what makes it so.
var networkBefore = map[string]struct{ path, text, words string }{
	"networkd": {"/etc/systemd/network/10-eth0.network", "[Match]\nName=eth0\n[Network]\nAddress=10.1.0.10/24\n",
		"systemctl disable networking 2>/dev/null; systemctl enable --now systemd-networkd"},
	"ifupdown": {"/etc/network/interfaces", "auto lo\niface lo inet loopback\n\nauto eth0\niface eth0 inet static\n\taddress 10.1.0.10/24\n",
		"systemctl enable networking; systemctl restart networking"},
	"netplan": {"/etc/netplan/50-people.yaml", "network:\n  version: 2\n  renderer: networkd\n  ethernets:\n    eth0:\n      addresses: [10.1.0.10/24]\n",
		"systemctl disable networking 2>/dev/null; systemctl enable systemd-networkd; netplan generate; systemctl restart systemd-networkd"},
}

// wires makes the interface eth0, and a gateway at its other end.
const wires = `ip netns add gw; ip link add eth0 type veth peer name gw0 netns gw
ip -n gw link set gw0 up; ip -n gw address add 10.1.0.1/24 dev gw0; ip -n gw link set lo up`

// hasAddress waits until eth0 has one address of IPv4.
const hasAddress = "ip -4 -o address show dev eth0 scope global | tr -s ' ' | cut -d' ' -f4"

// marker says that Slipway installed the system, which boot actions need.
const marker = `{"node": "n1", "generation": 1, "image": "ab12"}`

func everything(t *testing.T, f *fixture, manager string) {
	f.base(t)
	began, root := time.Now(), nspawn.Layer(t, f.root)
	people := networkBefore[manager]
	layFiles(t, root, map[string]string{
		people.path:                "0644 " + people.text,
		"/etc/slipway/marker.json": "0600 " + marker,
		"/etc/resolv.conf":         "0644 nameserver 127.0.0.1\n", // which refuses at once
	})
	if manager == "netplan" {
		layFiles(t, root, map[string]string{
			// netplan has udevd read its rules again, and no container of nspawn has one.
			"/usr/bin/udevadm": "0755 #!/bin/sh\n",
			// Ubuntu makes it at the first login of an account, with its legal notice.
			"/root/.cache/motd.legal-displayed": "0644 ",
		})
	}
	wheel(t, root+"/srv/index/one", "one", "1.0")
	n := f.start(t, root, nspawn.Loopback)
	n.Does(wires)
	n.Does(people.words)
	n.Comes(hasAddress, "10.1.0.10/24")
	// The first look has Python's own caches made, whatever is there later.
	n.Does("(python3 -m venv /root/none && touch /run/cached) </dev/null >/dev/null 2>&1 &")
	n.Comes("test ! -e /run/cached || echo there", "there")
	n.Does("rm -r /root/none /run/cached")
	before := n.listing()
	t.Logf("%s begins after %s", n.Does(". /etc/os-release; echo $PRETTY_NAME, $(systemctl --version | head -n1)"), time.Since(began).Round(time.Second))

	// A clean system starts nothing that a design has to name, but for what people made.
	if got := n.unlisted(); !slices.Equal(got, []string{"before.service"}) {
		t.Errorf("nobody designed %q", got)
	}
	d := designOfEverything(f)
	steps := n.converges(d)
	for _, want := range [][2]string{
		{"hostname", "n1"},
		{"getent hosts a | tr -s ' '", "10.9.0.1 a c"},
		{"date +%Z", n.Does("TZ=Europe/Zurich date +%Z")},
		{"systemd-analyze cat-config systemd/timesyncd.conf | grep ^NTP= | tail -n1", "NTP=10.9.0.1"},
		{"rsyslogd -N1 2>/dev/null && grep -c 10.9.0.5 /etc/rsyslog.d/60-slipway.conf; systemctl is-active rsyslog", "2\nactive"},
		{"id -u ada; id -nG ada | tr ' ' '\\n' | sort | tr '\\n' ' '", "1500\nada adm video"},
		{"getent passwd ada | cut -d: -f6,7; cat /home/ada/.ssh/authorized_keys", "/home/ada:/bin/bash\n" + firstKey},
		{"getent shadow ada | cut -d: -f2 | cut -c1-3", "$6$"},
		{"setpriv --reuid=ada --regid=ada --init-groups sudo -n id -u 2>/dev/null", "0"},
		{"dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n' configured one serving two", "configured 1.0 ii \none 1.0 hi \nserving 1.0 ii \ntwo 1.0 ii"},
		{"apt-mark showhold", "one"},
		{"apt-cache policy one | grep -c 'file:/srv/repo'", "2"},
		{"/opt/tools/bin/python -c 'import one; print(one.version)'", "1.0"},
		{"cat /srv/a/b; stat -c '%a %U:%G' /srv/a/b /etc/motd", "content of n1\n640 ada:adm\n644 root:root"},
		{"systemctl show --property=ActiveState,UnitFileState own.service serving.service", "ActiveState=active\nUnitFileState=enabled\n\nActiveState=active\nUnitFileState=enabled"},
		{"cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv4/conf/all/accept_redirects", "1\n1"},
		{"grep -o 'isolcpus=[^ ]*' /boot/grub/grub.cfg", "isolcpus=2-3"},
		{hasAddress + "; cat /sys/class/net/eth0/mtu; ip route show default | tr -s ' ' | cut -d' ' -f1-5", "10.1.0.11/24\n1400\ndefault via 10.1.0.1 dev eth0"},
	} {
		n.Says(want[0], want[1])
	}
	n.seesHealthAndLinks(d)
	passes, _ := n.passAgain(d)
	n.acts(d)
	n.keepsToItself()

	n.converges(&site.Node{Name: "n1", References: site.References{Family: "debian"}})
	n.Comes(hasAddress, "10.1.0.10/24")
	if gone := difference(n.listing(), before); gone != "" {
		t.Errorf("without the design it is not as before:\n%s", gone)
	}
	n.Says("rm -r /var/lib/slipway-inside/actions; tr -d ' \\n\\t' </var/lib/slipway-inside/owned.json", `{"items":{}}`)
	n.Says("grep ^ada: /etc/passwd /etc/shadow /etc/group || true", "")
	t.Logf("%d steps, %d passes that wrote nothing, in %s", steps, passes, time.Since(began).Round(time.Second))
}

// layFiles writes files of a system that does not run, in the place of links too. What is
// to be in one follows its mode.
func layFiles(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		mode, text, _ := strings.Cut(text, " ")
		bits, err := strconv.ParseUint(mode, 8, 32)
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(root, path)
		does(t, "mkdir", "-p", filepath.Dir(at))
		does(t, "rm", "-f", at)
		if err := errors.Join(os.WriteFile(at, []byte(text), 0o600), os.Chmod(at, os.FileMode(bits))); err != nil {
			t.Fatal(err)
		}
	}
}

// designOfEverything asks something of each facet.
func designOfEverything(f *fixture) *site.Node {
	return &site.Node{
		Name: "n1",
		System: site.System{
			Hostname: "{name}", Hosts: map[string][]string{"10.9.0.1": {"a", "c"}},
			Time: site.Time{Zone: "Europe/Zurich", Servers: []string{"10.9.0.1"}}, Logs: site.Logs{Forward: []string{"udp://10.9.0.5"}},
			Users:        map[string]site.User{"ada": {UID: ref(int64(1500)), Sudo: true, Shell: "/bin/bash", Groups: []string{"adm", "video"}, Keys: []string{firstKey}, Password: "console"}},
			Repositories: map[string]site.Repository{"site": {URL: "file:///srv/repo", Suite: "stable", Components: []string{"main"}, Key: f.signs}},
			Packages:     map[string]site.Package{"one": {Version: "1.0", State: item.Held}, "two": {}, "configured": {}, "serving": {}},
			Environments: map[string]site.Environment{"tools": {Path: "/opt/tools", Index: "file:///srv/index", Packages: map[string]string{"one": "1.0"}}},
			Files:        map[string]site.File{"/srv/a/b": {Content: ref("content of n1\n"), Mode: "0640", Owner: "ada", Group: "adm"}, "/etc/motd": {Content: ref("hello\n"), Mode: "0644"}},
			Units: map[string]site.Unit{
				"own.service": {Content: ref(service("own", "multi-user.target")), Enabled: ref(true), State: "running"}, "serving.service": {Enabled: ref(true), State: "running"},
			},
			Sysctl: site.Scalars{"net.ipv4.ip_forward": int64(1), "net.ipv4.conf.all.accept_redirects": int64(1)},
		},
		Kernel:     site.Kernel{Parameters: site.Scalars{"isolcpus": "2-3"}},
		Interfaces: map[string]site.Interface{"eth0": {}},
		References: site.References{
			Family: "debian",
			Links:  map[string]item.Link{"eth0": {Kind: "ethernet", MTU: 1400, Addresses: []string{"10.1.0.11/24"}, Routes: []item.Route{{To: "0.0.0.0/0", Via: "10.1.0.1"}}}},
			Health: &site.Health{Units: []string{"own.service"}, Ports: []int{22}, Command: []string{"/usr/bin/test", "-e", "/srv/a"}},
		},
	}
}

// seesHealthAndLinks holds what the facets tell that set nothing.
func (n *node) seesHealthAndLinks(d *site.Node) {
	t := n.t
	t.Helper()
	m := n.open(t)
	defer m.Close()
	seen, err := m.Observe(t.Context(), d, []site.Facet{site.FacetOS, site.FacetProbes, site.FacetLinks})
	if err != nil {
		t.Fatal(err)
	}
	if os := seen.Facets[site.FacetOS].Have; os["release"] == "" || !strings.Contains(n.Does("cat /etc/os-release"), os["release"]) {
		t.Errorf("the system tells %v", os)
	}
	health := seen.Facets[site.FacetProbes]
	if len(health.Have) != 3 || len(health.Unread) > 0 {
		t.Errorf("the health is %v, unread %v", health.Have, health.Unread)
	}
	for probe, is := range health.Have {
		if is != item.Passed {
			t.Errorf("%s is %q", probe, is)
		}
	}
	if seen.Links == nil || !slices.ContainsFunc(seen.Links.Ports, func(p item.Port) bool { return p.Name == "eth0" && p.Carrier == "up" && p.MTU == 1400 }) {
		t.Errorf("the links are %+v, unread %v", seen.Links, seen.Facets[site.FacetLinks].Unread)
	}
}

// acts does a boot action, twice asked for and once done.
func (n *node) acts(d *site.Node) {
	t := n.t
	t.Helper()
	with := *d
	with.References.Actions = map[string]site.BootAction{"first": {Timeout: site.Duration(time.Minute), Run: []string{"/bin/sh", "-c", "echo ran >>/var/cache/first"}}}
	key := item.KindBootActions + ".first"
	m := n.open(t)
	defer m.Close()
	for range 2 {
		err := m.Apply(t.Context(), site.Step{
			Node: d.Name, Facet: site.FacetActions, Action: site.Facets[site.FacetActions].Change.Action, Once: &item.Once{Attempt: 1},
			Changes: []site.Change{{Field: string(site.FacetActions) + "." + key, Want: item.Done}},
		}, &with, nil)
		if err != nil {
			t.Fatal(err)
		}
		n.Comes("cat /var/lib/slipway-inside/actions/first.json", `"ended"`)
	}
	seen, err := m.Observe(t.Context(), &with, []site.Facet{site.FacetActions})
	if err != nil || seen.Facets[site.FacetActions].Have[key] != item.Done {
		t.Errorf("the action is %+v: %v", seen.Facets[site.FacetActions], err)
	}
	n.Says("cat /var/cache/first; rm /var/cache/first", "ran")
}

// wheel is a package of Python in a folder of an index.
func wheel(t *testing.T, folder, name, version string) {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	info := name + "-" + version + ".dist-info/"
	for file, content := range map[string]string{
		name + ".py":      "version = '" + version + "'\n",
		info + "METADATA": "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n",
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":   name + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n",
	} {
		f, err := w.Create(file)
		if err == nil {
			_, err = f.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := fmt.Sprintf("%s-%s-py3-none-any.whl", name, version)
	for at, content := range map[string]string{file: b.String(), "index.html": fmt.Sprintf("<a href=%q>%[1]s</a>\n", file)} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, at), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// docs/systems.md has a row for each release that is tried, and a column for each facet of
// a system.
func TestTheTableOfSystems(t *testing.T) {
	text, err := os.ReadFile("../../docs/systems.md")
	if err != nil {
		t.Fatal(err)
	}
	var facets, systems []string
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		switch {
		case cells[0] == "system":
			facets = cells[1:]
		case len(facets) == 0 || strings.HasPrefix(cells[0], "-"):
		case len(cells) != len(facets)+1:
			if len(systems) > 0 {
				facets = nil // the table ends
			}
		default:
			systems = append(systems, cells[0])
			for i, how := range cells[1:] {
				if !slices.Contains([]string{"real", "parts", "files", "-"}, how) {
					t.Errorf("%s, %s: %q is none of the words that the page explains", cells[0], facets[i], how)
				}
			}
		}
		if len(facets) > 0 {
			var want []string
			for f, kind := range site.Facets {
				if kind.Endpoint == site.OS {
					want = append(want, string(f))
				}
			}
			if got := slices.Sorted(slices.Values(facets)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Fatalf("the table has the facets %v, and a system has %v", got, want)
			}
		}
	}
	want := []string{"RHEL family"}
	for _, s := range nspawn.Suites {
		want = append(want, s.Name)
		if len(managersOf[s.Name]) == 0 {
			t.Errorf("%s: no test says what manages its network", s.Name)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(systems)); !slices.Equal(got, want) {
		t.Errorf("the table has the systems %v, and the tests have %v", got, want)
	}
}
