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
	// What the site has in each, beside the node, in CUE.
	siteFrom, siteTo string
	// first is what people do before the first design is applied, and meanwhile before the second.
	first, meanwhile string
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
	place := func(name, folder, suite, components, key string) string {
		return fmt.Sprintf("system: repositories: %q: {url: \"file:///srv/%s\", suite: %q, components: [%s], key: %q}", name, folder, suite, components, key)
	}
	knows := func(begins string) string { return "apt-cache pkgnames " + begins + "- | sort | tr '\\n' ' '" }
	environment := func(name, has string) string { return "system: environments: " + name + ": {" + has + "}" }
	pages := `kernel: parameters: {default_hugepagesz: "{hardware.hugepages.big.size}", hugepages: "{hardware.hugepages.big.count}"}`
	declared := ""
	for _, name := range slices.Sorted(maps.Keys(artifacts)) {
		declared += fmt.Sprintf("artifacts: %q: {url: %q, sha256: %q}\n", name, artifacts[name].URL, artifacts[name].SHA256)
	}
	// The machine is of the model M-2 in the end, and of M-1 at first.
	driver := func(name, has string) string { return "drivers: " + name + ": {" + has + "}" }
	image := fmt.Sprintf("images: debian: {url: \"https://files.example.org/debian.iso\", sha256: %q, family: \"debian\"}\n", strings.Repeat("ab", 32))
	forBoth, firmware := `match: model: "M-*", `, func(name, artifact string) string { return fmt.Sprintf("firmware: \"slipway/%s\": %q", name, artifact) }
	module := func(has string) string {
		return driver("parameters", forBoth+"modules: zram: parameters: num_devices: "+has)
	}
	reads := strconv.Quote("[Service]\nExecStart=/bin/sh -c 'exec sleep $$(cat /srv/read)'\n")
	return []tried{
		{path: "#System.hostname", from: `system: hostname: "first"`, to: `system: hostname: "{name}"`, look: "cat /proc/sys/kernel/hostname", before: "first", after: "n1"},
		{path: "#System.hosts.NAME", from: `system: hosts: "10.9.0.1": ["a"]`, to: `system: hosts: "10.9.0.1": ["b"]`, look: "getent hosts 10.9.0.1 | awk '{print $2}'", before: "a", after: "b"},
		{path: "#System.time.zone", from: `system: time: zone: "Europe/Zurich"`, to: `system: time: zone: "Asia/Tokyo"`, look: "readlink -f /etc/localtime", before: "/usr/share/zoneinfo/Europe/Zurich", after: "/usr/share/zoneinfo/Asia/Tokyo"},
		{path: "#System.time.servers", from: `system: time: servers: ["10.9.0.1"]`, to: `system: time: servers: ["10.9.0.2"]`, look: "systemd-analyze cat-config systemd/timesyncd.conf | grep ^NTP= | tail -n1", before: "NTP=10.9.0.1", after: "NTP=10.9.0.2", more: true},
		{path: "#System.ssh.accounts", from: `system: ssh: accounts: ["root"]`, to: `system: ssh: accounts: ["root", "people"]`, look: "ls /etc/ssh/slipway/principals", before: "root", after: "people\nroot"},
		{path: "#SiteSSH.users", siteFrom: `site: ssh: users: ["` + firstKey + `"]`, siteTo: `site: ssh: users: ["` + firstKey + `", "` + secondKey + `"]`, look: "wc -l < /etc/ssh/slipway/authorities", before: "1", after: "2"},
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
		{path: "#File.credential", from: file("/srv/credential", `credential: "console"`), to: file("/srv/credential", `credential: "os"`), look: "stat -c '%a %U:%G' /srv/credential; cat /srv/credential", before: "600 root:root\nthe value of console", after: "600 root:root\nthe value of os"},
		{path: "#File.template", from: file("/srv/template", `content: "{name}\n"`), to: file("/srv/template", `content: "{name}\n", template: true`), look: "cat /srv/template", before: "{name}", after: "n1"},
		{path: "#File.mode", from: file("/srv/mode", `content: "", mode: "0600"`), to: file("/srv/mode", `content: "", mode: "0640"`), look: "stat -c %a /srv/mode", before: "600", after: "640"},
		{path: "#File.owner", from: file("/srv/owner", `content: "", owner: "daemon"`), to: file("/srv/owner", `content: "", owner: "root"`), look: "stat -c %U /srv/owner", before: "daemon", after: "root"},
		{path: "#File.group", from: file("/srv/group", `content: "", group: "adm"`), to: file("/srv/group", `content: "", group: "video"`), look: "stat -c %G /srv/group", before: "adm", after: "video"},
		{path: "#File.state", from: file("/srv/state", `content: ""`), to: file("/srv/state", `state: "absent"`), look: "test -e /srv/state && echo there || echo gone", before: "there", after: "gone"},

		{path: "#File.artifact", from: file("/srv/artifact", `artifact: "tool-a"`), to: file("/srv/artifact", `artifact: "tool-b"`), look: "cat /srv/artifact", before: "the artifact tool-a", after: "the artifact tool-b",
			siteFrom: declared, siteTo: declared},

		{path: "#Module.parameters.NAME", from: `system: modules: nbd: parameters: nbds_max: 1`, to: `system: modules: nbd: parameters: nbds_max: 2`, look: "grep -h '^options nbd ' /etc/modprobe.d/*.conf", before: "options nbd nbds_max=1", after: "options nbd nbds_max=2",
			first: loadsModules},
		{path: "#Hardware.model", from: `hardware: model: "M-1"`, to: `hardware: model: "M-2"`, look: "cat /lib/firmware/slipway/model 2>/dev/null || echo none", before: "none", after: "the artifact tool-a",
			siteFrom: driver("modelled", `match: model: "M-2", `+firmware("model", "tool-a")), siteTo: driver("modelled", `match: model: "M-2", `+firmware("model", "tool-a"))},
		{path: "#Driver.match.model", look: "cat /lib/firmware/slipway/matched 2>/dev/null || echo none", before: "none", after: "the artifact tool-a",
			siteFrom: driver("matched", `match: model: "X-*", `+firmware("matched", "tool-a")), siteTo: driver("matched", `match: model: "M-*", `+firmware("matched", "tool-a"))},
		{path: "#Driver.firmware.NAME", look: "cat /lib/firmware/slipway/firmware", before: "the artifact tool-a", after: "the artifact tool-b",
			siteFrom: driver("firmware", forBoth+firmware("firmware", "tool-a")), siteTo: driver("firmware", forBoth+firmware("firmware", "tool-b"))},
		{path: "#Driver.packages.NAME", from: keyed, to: keyed, look: "cat /usr/share/two/version 2>/dev/null || echo none", before: "none", after: "1.0",
			siteFrom: image + driver("packages", forBoth+"packages: debian: []"), siteTo: image + driver("packages", forBoth+`packages: debian: ["two"]`)},
		{path: "#Driver.modules.NAME.parameters.NAME", look: "grep -h '^options zram ' /etc/modprobe.d/*.conf", before: "options zram num_devices=1", after: "options zram num_devices=4",
			siteFrom: module("1"), siteTo: module("4")},

		{path: "#Unit.content", from: unit("content.service", `state: "running", content: `+runs("1001")), to: unit("content.service", `state: "running", content: `+runs("1002")), look: "tr '\\0' ' ' </proc/$(systemctl show -P MainPID content.service)/cmdline", before: "/bin/sleep 1001", after: "/bin/sleep 1002"},
		{path: "#Unit.enabled", from: unit("enabled.service", "enabled: false, content: "+runs("1003")), to: unit("enabled.service", "enabled: true, content: "+runs("1003")), look: "systemctl is-enabled enabled.service || true", before: "disabled", after: "enabled"},
		{path: "#Unit.restartOn", from: file("/srv/read", `content: "1005\n"`) + "\n" + unit("reads.service", `state: "running", restartOn: ["/srv/read"], content: `+reads),
			to: file("/srv/read", `content: "1006\n"`) + "\n" + unit("reads.service", `state: "running", restartOn: ["/srv/read"], content: `+reads), look: "tr '\\0' ' ' </proc/$(systemctl show -P MainPID reads.service)/cmdline", before: "sleep 1005", after: "sleep 1006"},
		{path: "#Unit.state", from: unit("state.service", `state: "running", content: `+runs("1004")), to: unit("state.service", `state: "stopped", content: `+runs("1004")), look: "systemctl is-active state.service || true", before: "active", after: "inactive"},

		{path: "#System.unlisted.units", from: `system: unlisted: units: "report"`, to: `system: unlisted: units: "disable"`, look: "systemctl is-enabled before.service ssh.service || true", before: "enabled\nenabled", after: "disabled\nenabled"},

		{path: "#Package.version", from: keyed + "\n" + `system: packages: one: version: "1.0"`, to: keyed + "\n" + `system: packages: one: version: "2.0"`, look: "cat /usr/share/one/version", before: "1.0", after: "2.0"},
		{path: "#Package.state", from: `system: packages: configured: {}`, to: `system: packages: configured: state: "absent"`, look: "dpkg-query -W -f '${db:Status-Abbrev}' configured 2>/dev/null | cut -c2 | grep i || echo not there", before: "i", after: "not there"},
		{path: "#Repository.pin", from: keyed, to: repo(", pin: 700"), look: "apt-cache policy | awk '/file:.srv.repo /{print $1}' | sort -u", before: "500", after: "700"},
		{path: "#Repository.url", from: place("urls", "url-a", "stable", `"main"`, made.signs), to: place("urls", "url-b", "stable", `"main"`, made.signs), look: knows("url"), before: "url-a", after: "url-b"},
		{path: "#Repository.suite", from: place("suites", "suites", "suite-a", `"main"`, made.signs), to: place("suites", "suites", "suite-b", `"main"`, made.signs), look: knows("suite"), before: "suite-a", after: "suite-b"},
		{path: "#Repository.components", from: place("parts", "parts", "stable", `"main"`, made.signs), to: place("parts", "parts", "stable", `"main", "extra"`, made.signs), look: knows("part"), before: "part-main", after: "part-extra part-main"},
		// The repository is signed by another key meanwhile, and apt takes nothing from it by the first.
		{path: "#Repository.key", from: place("keyed", "keyed", "stable", `"main"`, made.signs), to: place("keyed", "keyed", "stable", `"main"`, made.signsSecond), look: knows("key"), before: "key-first", after: "key-second",
			meanwhile: "rm -r /srv/keyed; mv /srv/keyed-anew /srv/keyed"},
		{path: "#System.patch.snapshot", from: `system: patch: {level: "all", snapshot: "file:///srv/snap-a", reboot: "never"}`, to: `system: patch: {level: "all", snapshot: "file:///srv/snap-b", reboot: "never"}`,
			look: "cat /usr/share/patched/version", before: "1.1", after: "1.2", first: "cp /srv/snap.asc /etc/apt/trusted.gpg.d/; dpkg -i /srv/snap-a/pool/bookworm/patched_1.0_all.deb"},
		{path: "#Environment.language", from: "", to: environment("spoken", `language: "python", path: "/opt/spoken"`), look: "/opt/spoken/bin/python -c 'print(1)' 2>/dev/null || echo none", before: "none", after: "1", more: true},
		{path: "#Environment.path", from: environment("moved", `path: "/opt/moved-a"`), to: environment("moved", `path: "/opt/moved-b"`), look: "ls -d /opt/moved-*", before: "/opt/moved-a", after: "/opt/moved-b", more: true},
		// Each index has one version alone.
		{path: "#Environment.index", from: environment("indexed", `path: "/opt/indexed", index: "http://127.0.0.1:8801/", packages: one: "1.0"`), to: environment("indexed", `path: "/opt/indexed", index: "http://127.0.0.1:8802/", packages: one: "2.0"`),
			look: "/opt/indexed/bin/python -c 'import one; print(one.version)'", before: "1.0", after: "2.0", more: true,
			first: "for i in a:8801 b:8802; do systemd-run --quiet --unit=index-${i%:*} python3 -m http.server ${i#*:} --bind 127.0.0.1 --directory /srv/index-${i%:*}; done"},
		{path: "#Environment.packages.NAME", from: environment("packed", `path: "/opt/packed", index: "http://127.0.0.1:8801/"`), to: environment("packed", `path: "/opt/packed", index: "http://127.0.0.1:8801/", packages: one: "1.0"`),
			look: "/opt/packed/bin/python -c 'import one; print(one.version)' 2>/dev/null || echo none", before: "none", after: "1.0", more: true},
		{path: "#Kernel.parameters.NAME", from: `kernel: parameters: iommu: "off"`, to: `kernel: parameters: iommu: "pt"`, look: "grep -o 'iommu=[a-z]*' /boot/grub/grub.cfg", before: "iommu=off", after: "iommu=pt"},
		{path: "#Hardware.cpuSets.NAME", from: `hardware: cpuSets: apart: "2-3"` + "\n" + `kernel: parameters: isolcpus: "{hardware.cpuSets.apart}"`, to: `hardware: cpuSets: apart: "2-5"` + "\n" + `kernel: parameters: isolcpus: "{hardware.cpuSets.apart}"`,
			look: "grep -o 'isolcpus=[0-9-]*' /boot/grub/grub.cfg", before: "isolcpus=2-3", after: "isolcpus=2-5"},
		{path: "#Hardware.hugepages.NAME.size", from: `hardware: hugepages: big: {size: "1GiB", count: 4}` + "\n" + pages, to: `hardware: hugepages: big: {size: "2MiB", count: 8}` + "\n" + pages,
			look: "grep -o 'default_hugepagesz=[0-9MG]*' /boot/grub/grub.cfg", before: "default_hugepagesz=1G", after: "default_hugepagesz=2M"},
		{path: "#Hardware.hugepages.NAME.count", look: "grep -o ' hugepages=[0-9]*' /boot/grub/grub.cfg | tr -d ' '", before: "hugepages=4", after: "hugepages=8"}, // in the design of the line above
	}
}

// elsewhere names the test that changes exactly that field, where the tables here cannot.
var elsewhere = map[string]string{
	"#System.patch.level":         "tests/inside/patch_test.go TestUpgradesOfASystem",
	"#System.patch.reboot":        "tests/inside/patch_test.go TestUpgradesOfASystem",
	"#Kernel.package":             "sinks/agent/inside/kernel/kernel_test.go TestThePackageOfTheKernel",
	"#BootAction.after":           "engine/plan/once_test.go TestOnce",
	"#BootAction.run":             "tests/inside/actions_test.go TestABootActionHasItsTime",
	"#BootAction.timeout":         "tests/inside/actions_test.go TestABootActionHasItsTime",
	"#Driver.match.pci":           "engine/site/drivers_test.go TestWhichMachineADriverIsFor",
	"#Device.pci":                 "sinks/agent/inside/network/port_test.go TestPortByItsPlace",
	"#Device.path":                "engine/site/port_test.go TestPorts",
	"#Interface.device":           "engine/site/port_test.go TestPorts",
	"#Interface.sriov.functions":  "sinks/agent/inside/network/sriov_test.go TestVirtualFunctions",
	"#Interface.sriov.trusted":    "sinks/agent/inside/network/sriov_test.go TestVirtualFunctions",
	"#Interface.mac":              "tests/inside/guest_test.go provesNetworks",
	"#Bond.members":               "tests/inside/guest_test.go provesNetworks",
	"#Bonding.mode":               "tests/inside/guest_test.go provesNetworks",
	"#Network.vlan":               "tests/inside/guest_test.go provesNetworks",
	"#SiteSSH.hosts":              "tests/inside/ssh_test.go hostCertificatesOn",
	"#SiteTLS.authorities":        "tests/inside/certificates_test.go tlsOn",
	"#Certificate.names":          "tests/inside/certificates_test.go tlsOn",
	"#Certificate.usage":          "tests/inside/certificates_test.go tlsOn",
	"#Certificate.life":           "tests/inside/certificates_test.go tlsOn",
	"#Certificate.owner":          "tests/inside/certificates_test.go tlsOn",
	"#Certificate.group":          "tests/inside/certificates_test.go tlsOn",
	"#Certificate.reload":         "tests/inside/certificates_test.go tlsOn",
	"#Certificate.revocationList": "sinks/agent/inside/config/revoked_test.go TestListOfRevokedCertificates",
	"#SSHRevoked.people":          "tests/inside/ssh_test.go revokedOn",
	"#SSHRevoked.keys":            "tests/inside/ssh_test.go revokedOn",
	"#Image.family":               "engine/site/facet_test.go TestFamilyOfTheImage",
}

// untried are the fields that no test changes on a system, and why. There is none now.
var untried = map[string]string{}

// Every field that acts inside a system changes something on a machine: its value is
// changed in a design, evaluated as any, and the change is seen there.
func TestEveryFieldActs(t *testing.T) {
	made.base(t)
	all := slices.DeleteFunc(fields(), func(x tried) bool { return x.more && !proves() })
	n := start(t)
	for _, x := range all {
		if x.first != "" {
			n.Does(x.first)
		}
	}
	n.converges(evaluated(t, all, false))
	for _, x := range all {
		n.Says(x.look, x.before)
	}
	for _, x := range all {
		if x.meanwhile != "" {
			n.Does(x.meanwhile)
		}
	}
	n.converges(evaluated(t, all, true))
	for _, x := range all {
		n.Says(x.look, x.after)
	}
}

// evaluated is the node of a design that has all fields as they are at first, or at last.
func evaluated(t *testing.T, all []tried, last bool) *site.Node {
	t.Helper()
	var b strings.Builder
	b.WriteString("package s1\n\nroles: {all: {}, other: {}}\nracks: r1: {}\ncredentials: {console: {}, os: {}}\nprofiles: all: {role: \"all\", rack: \"r1\"}\nnodes: n1: {\n\tprofiles: [\"all\"]\n\tidentity: uuid: \"4c4c4544-0000-4000-8000-000000000001\"\n\tendpoints: manager: {url: \"redfish+https://10.9.0.11/redfish/v1/Systems/1\", credential: \"os\"}\n\tendpoints: os: {url: \"ssh://10.1.0.11\", credential: \"os\", trust: hostKeys: [\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMachine1\"]}\n")
	var beside strings.Builder
	for _, x := range all {
		within, without := x.from, x.siteFrom
		if last {
			within, without = x.to, x.siteTo
		}
		b.WriteString("\t" + within + "\n")
		beside.WriteString(without + "\n")
	}
	b.WriteString("}\n" + beside.String())
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

// The tables have every field of the schema that a facet inside a system reads. Of the others,
// elsewhere names the test that changes exactly that field, and untried says why none does.
func TestEveryFieldIsTried(t *testing.T) {
	have := map[string]bool{}
	for _, x := range slices.Concat(fields(), ofPorts(), ofBonds(), ofCarriers()) {
		have[x.path] = true
	}
	known := map[string]bool{}
	for _, d := range design.Definitions() {
		for _, f := range d.Fields {
			path := d.Name + "." + f.Path
			if !slices.ContainsFunc(f.Readers, actsInside) || d.Name == "#Effective" { // which says more of the same fields
				continue
			}
			known[path] = true
			in := 0
			for _, is := range []bool{have[path], elsewhere[path] != "", untried[path] != ""} {
				if is {
					in++
				}
			}
			if in != 1 {
				t.Errorf("%s is in %d of: a table of this package, elsewhere, untried. It must be in 1", path, in)
			}
		}
	}
	for _, path := range slices.Concat(slices.Collect(maps.Keys(have)), slices.Collect(maps.Keys(elsewhere)), slices.Collect(maps.Keys(untried))) {
		if !known[path] {
			t.Errorf("no facet inside a system reads a field %s", path)
		}
	}
	for path, in := range elsewhere {
		name, test, _ := strings.Cut(in, " ")
		text, err := os.ReadFile(filepath.Join("../..", name))
		body := regexp.MustCompile(`(?ms)^func ` + test + `\(.*?^}`).Find(text)
		if err != nil || body == nil {
			t.Errorf("%s: there is no test %s in %s", path, test, name)
		}
		if key := keyOf(path); !strings.Contains(strings.ToLower(string(body)), strings.ToLower(key)) {
			t.Errorf("%s: %s in %s does not mention %s", path, test, name, key)
		}
	}
	t.Logf("%d fields: %d in tables, %d elsewhere, %d that no test changes", len(known), len(have), len(elsewhere), len(untried))
}

// keyOf is the last word of a path that a designer writes.
func keyOf(path string) string {
	words := strings.Split(strings.TrimSuffix(path, ".NAME"), ".")
	return words[len(words)-1]
}

// actsInside says whether a reader is a facet that is set inside a system.
func actsInside(reader string) bool {
	f, is := strings.CutPrefix(reader, "facet ")
	return is && slices.Contains(site.InsideFacets, site.Facet(f))
}
