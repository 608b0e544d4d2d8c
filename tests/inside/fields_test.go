package inside_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/site"
)

// tried is a field of the schema, with two designs that differ in it, and what a person
// sees on the machine in each.
type tried struct {
	path          string
	from, to      string // in CUE, within a node
	look          string
	before, after string
	more          bool // wants what only the larger system of `make prove` has
}

func fields() []tried {
	first, second := strconv.Quote(firstKey), strconv.Quote(secondKey)
	repo := func(pin string) string {
		return fmt.Sprintf(`system: repositories: site: {url: "file:///srv/repo", suite: "stable", components: ["main"], key: %q%s}`, made.signs, pin)
	}
	keyed := repo("")
	user := func(name, has string) string { return "system: users: " + name + ": {" + has + "}" }
	file := func(path, has string) string { return fmt.Sprintf("system: files: %q: {%s}", path, has) }
	unit := func(name, has string) string { return fmt.Sprintf("system: units: %q: {%s}", name, has) }
	runs := func(what string) string {
		return strconv.Quote("[Service]\nExecStart=/bin/sleep " + what + "\n[Install]\nWantedBy=multi-user.target\n")
	}
	reads := strconv.Quote("[Service]\nExecStart=/bin/sh -c 'exec sleep $$(cat /srv/read)'\n")
	return []tried{
		{path: "#System.hostname", from: `system: hostname: "first"`, to: `system: hostname: "{name}"`, look: "cat /proc/sys/kernel/hostname", before: "first", after: "n1"},
		{path: "#System.hosts.NAME", from: `system: hosts: "10.9.0.1": ["a"]`, to: `system: hosts: "10.9.0.1": ["b"]`, look: "getent hosts 10.9.0.1 | awk '{print $2}'", before: "a", after: "b"},
		{path: "#System.time.zone", from: `system: time: zone: "Europe/Zurich"`, to: `system: time: zone: "Asia/Tokyo"`, look: "readlink -f /etc/localtime", before: "/usr/share/zoneinfo/Europe/Zurich", after: "/usr/share/zoneinfo/Asia/Tokyo"},
		{path: "#System.time.servers", from: `system: time: servers: ["10.9.0.1"]`, to: `system: time: servers: ["10.9.0.2"]`, look: "systemd-analyze cat-config systemd/timesyncd.conf | grep ^NTP=", before: "NTP=10.9.0.1", after: "NTP=10.9.0.2", more: true},
		{path: "#System.logs.forward", from: `system: logs: forward: ["udp://10.9.0.5:514"]`, to: `system: logs: forward: ["tcp://10.9.0.6:514"]`, look: "grep -rho 'target=\"[^\"]*\"' /etc/rsyslog.d", before: "target=\"10.9.0.5\"", after: "target=\"10.9.0.6\"", more: true},
		{path: "#System.sysctl.NAME", from: `system: sysctl: "net.ipv4.ip_default_ttl": 70`, to: `system: sysctl: "net.ipv4.ip_default_ttl": 71`, look: "cat /proc/sys/net/ipv4/ip_default_ttl", before: "70", after: "71"},

		{path: "#User.uid", from: user("numbered", `state: "absent"`), to: user("numbered", "uid: 1777"), look: "id -u numbered 2>/dev/null || echo none", before: "none", after: "1777"},
		{path: "#User.groups", from: user("grouped", `groups: ["adm"]`), to: user("grouped", `groups: ["video"]`), look: "id -Gn grouped", before: "grouped adm", after: "grouped video"},
		{path: "#User.shell", from: user("shelled", `shell: "/bin/sh"`), to: user("shelled", `shell: "/bin/bash"`), look: "getent passwd shelled | cut -d: -f7", before: "/bin/sh", after: "/bin/bash"},
		{path: "#User.keys", from: user("keyed", "keys: ["+first+"]"), to: user("keyed", "keys: ["+second+"]"), look: "awk '{print $3}' ~keyed/.ssh/authorized_keys", before: "first", after: "second"},
		{path: "#User.password", from: user("secret", "uid: 1778"), to: user("secret", `password: "console"`), look: "getent shadow secret | cut -d: -f2 | cut -c1-3", before: "!", after: "$6$"},
		{path: "#User.sudo", from: user("boss", "sudo: false"), to: user("boss", "sudo: true"), look: "su boss -c 'sudo -n id -u' 2>/dev/null || echo no", before: "no", after: "0", more: true},
		{path: "#User.state", from: user("leaves", "uid: 1779"), to: user("leaves", `state: "absent"`), look: "id -u leaves 2>/dev/null || echo none", before: "1779", after: "none"},

		{path: "#File.content", from: file("/srv/content", `content: "one\n"`), to: file("/srv/content", `content: "two\n"`), look: "cat /srv/content", before: "one", after: "two"},
		{path: "#File.template", from: file("/srv/template", `content: "{name}\n"`), to: file("/srv/template", `content: "{name}\n", template: true`), look: "cat /srv/template", before: "{name}", after: "n1"},
		{path: "#File.mode", from: file("/srv/mode", `content: "", mode: "0600"`), to: file("/srv/mode", `content: "", mode: "0640"`), look: "stat -c %a /srv/mode", before: "600", after: "640"},
		{path: "#File.owner", from: file("/srv/owner", `content: "", owner: "daemon"`), to: file("/srv/owner", `content: "", owner: "root"`), look: "stat -c %U /srv/owner", before: "daemon", after: "root"},
		{path: "#File.group", from: file("/srv/group", `content: "", group: "adm"`), to: file("/srv/group", `content: "", group: "video"`), look: "stat -c %G /srv/group", before: "adm", after: "video"},
		{path: "#File.state", from: file("/srv/state", `content: ""`), to: file("/srv/state", `state: "absent"`), look: "test -e /srv/state && echo there || echo gone", before: "there", after: "gone"},

		{path: "#Unit.content", from: unit("content.service", `state: "running", content: `+runs("1001")), to: unit("content.service", `state: "running", content: `+runs("1002")), look: "tr '\\0' ' ' </proc/$(systemctl show -P MainPID content.service)/cmdline", before: "/bin/sleep 1001", after: "/bin/sleep 1002"},
		{path: "#Unit.enabled", from: unit("enabled.service", "enabled: false, content: "+runs("1003")), to: unit("enabled.service", "enabled: true, content: "+runs("1003")), look: "systemctl is-enabled enabled.service || true", before: "disabled", after: "enabled"},
		{path: "#Unit.restartOn", from: file("/srv/read", `content: "1005\n"`) + "\n" + unit("reads.service", `state: "running", restartOn: ["/srv/read"], content: `+reads),
			to: file("/srv/read", `content: "1006\n"`) + "\n" + unit("reads.service", `state: "running", restartOn: ["/srv/read"], content: `+reads), look: "tr '\\0' ' ' </proc/$(systemctl show -P MainPID reads.service)/cmdline", before: "sleep 1005", after: "sleep 1006"},
		{path: "#Unit.state", from: unit("state.service", `state: "running", content: `+runs("1004")), to: unit("state.service", `state: "stopped", content: `+runs("1004")), look: "systemctl is-active state.service || true", before: "active", after: "inactive"},

		{path: "#Package.version", from: keyed + "\n" + `system: packages: one: version: "1.0"`, to: keyed + "\n" + `system: packages: one: version: "2.0"`, look: "cat /usr/share/one/version", before: "1.0", after: "2.0"},
		{path: "#Package.state", from: `system: packages: configured: {}`, to: `system: packages: configured: state: "absent"`, look: "dpkg-query -W -f '${db:Status-Abbrev}' configured 2>/dev/null | cut -c2 | grep i || echo not there", before: "i", after: "not there"},
		{path: "#Repository.pin", from: keyed, to: repo(", pin: 700"), look: "apt-cache policy | grep -B1 -A1 o=Site | awk '/^ *[0-9]/{print $1}' | sort -u", before: "500", after: "700"},
		{path: "#Kernel.parameters.NAME", from: `kernel: parameters: iommu: "off"`, to: `kernel: parameters: iommu: "pt"`, look: "grep -o 'iommu=[a-z]*' /boot/grub/grub.cfg", before: "iommu=off", after: "iommu=pt"},
	}
}

// elsewhere are the tests that see a field's effect where this one cannot, by the field or
// by its definition.
var elsewhere = map[string]string{
	"#File.artifact":             "sinks/agent TestContentsFromArtifacts",
	"#Module":                    "sinks/agent/inside/config TestModules",
	"#Environment":               "sinks/agent/inside/packages TestEnvironment",
	"#System.patch.level":        "sinks/agent/inside/packages TestProveAptPatch",
	"#System.patch.snapshot":     "sinks/agent/inside/packages TestProveAptPatch",
	"#System.patch.reboot":       "engine/plan TestUpgradesBootTheMachine",
	"#Repository":                "sinks/agent/inside/packages TestProveAptTransactions",
	"#Kernel.package":            "sinks/agent/inside/kernel TestThePackageOfTheKernel",
	"#BootAction":                "sinks/agent/inside/actions TestDoesOnce",
	"#BootAction.after":          "engine/plan TestOnce",
	"#Driver":                    "engine/site TestWhatDriversBring",
	"#Hardware.model":            "engine/site TestWhichMachineADriverIsFor",
	"#Interface":                 "tests/inside TestProveNetworkChanges",
	"#Bond":                      "tests/inside TestProveGuestNetworks",
	"#Bonding":                   "tests/inside TestProveGuestNetworks",
	"#Bridge":                    "tests/inside TestProveGuestNetworks",
	"#VLAN":                      "tests/inside TestProveGuestNetworks",
	"#Link":                      "tests/inside TestProveNetworkChanges",
	"#Network":                   "tests/inside TestProveNetworkChanges",
	"#Layer.extraAddresses.NAME": "engine/site TestWiringOfOneNode",
	"#SharedAddress":             "sinks/agent/inside/network TestSharedAddressIsLeft",
	"#Route":                     "sinks/agent/inside/network TestNetworkdForReal",
}

// Every field that acts inside a system changes something on a machine: its value is
// changed in a design, evaluated as any, and the change is seen there.
func TestEveryFieldActs(t *testing.T) {
	made.base(t)
	all := slices.DeleteFunc(fields(), func(x tried) bool { return x.more && !proves() })
	n := start(t)
	n.converges(evaluated(t, all, func(x tried) string { return x.from }))
	for _, x := range all {
		n.Says(x.look, x.before)
	}
	n.converges(evaluated(t, all, func(x tried) string { return x.to }))
	for _, x := range all {
		n.Says(x.look, x.after)
	}
}

// evaluated is the node of a design that has all the texts.
func evaluated(t *testing.T, all []tried, text func(tried) string) *site.Node {
	t.Helper()
	var b strings.Builder
	b.WriteString("package s1\n\nroles: all: {}\nracks: r1: {}\ncredentials: {console: {}, os: {}}\nprofiles: all: {role: \"all\", rack: \"r1\"}\nnodes: n1: {\n\tprofiles: [\"all\"]\n\tidentity: uuid: \"4c4c4544-0000-4000-8000-000000000001\"\n\tendpoints: bmc: {url: \"redfish+https://10.9.0.11/redfish/v1/Systems/1\", credential: \"os\"}\n\tendpoints: os: {url: \"ssh://10.1.0.11\", credential: \"os\", trust: hostKeys: [\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMachine1\"]}\n")
	for _, x := range all {
		b.WriteString("\t" + text(x) + "\n")
	}
	b.WriteString("}\n")
	r := design.EvaluateHere(fstest.MapFS{
		"cue.mod/module.cue": {Data: []byte("module: \"example.org/s1\"\nlanguage: version: \"v0.17.0\"\n")},
		"s1.cue":             {Data: []byte(b.String())},
	}, "s1")
	if r.Site == nil {
		for _, f := range r.Findings {
			t.Errorf("%s: %s", f.Path, f.Message)
		}
		t.FailNow()
	}
	n := r.Site.Nodes["n1"]
	n.References.Family = "debian" // which the system tells, as nothing was installed by us
	return n
}

// The table has every field of the schema that a facet inside a system reads, or says
// which test sees its effect.
func TestEveryFieldIsTried(t *testing.T) {
	have := map[string]bool{}
	for _, x := range fields() {
		have[x.path] = true
	}
	for _, d := range design.Definitions() {
		for _, f := range d.Fields {
			path := d.Name + "." + f.Path
			if !slices.ContainsFunc(f.Readers, actsInside) || have[path] || d.Name == "#Effective" { // which says more of the same fields
				continue
			}
			in := elsewhere[path]
			if in == "" {
				in = elsewhere[d.Name]
			}
			if in == "" {
				t.Errorf("no test changes %s and sees the change on a machine", path)
			}
		}
	}
	for _, in := range slices.Sorted(maps.Values(elsewhere)) {
		folder, test, _ := strings.Cut(in, " ")
		files, _ := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
		there := slices.ContainsFunc(files, func(name string) bool {
			text, err := os.ReadFile(name)
			return err == nil && regexp.MustCompile(`(?m)^func `+test+`\(`).Match(text)
		})
		if !there {
			t.Errorf("there is no test %s", in)
		}
	}
}

// actsInside says whether a reader is a facet that is set inside a system.
func actsInside(reader string) bool {
	f, is := strings.CutPrefix(reader, "facet ")
	return is && slices.Contains(site.InsideFacets, site.Facet(f))
}
