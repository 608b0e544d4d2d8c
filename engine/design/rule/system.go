package rule

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// systems: can Slipway set up the operating system this way?
var systems = []Rule{
	{
		Code: "package-version", Severity: site.SeverityError,
		What:  "A package that is absent has no version, and one that is held has one.",
		Why:   "A package that is not installed has no version. A package that is held without a version stays at the installed version, which differs from node to node.",
		Wrong: `nodes: "n1": system: packages: linux: state: "held"`,
		Right: `nodes: "n1": system: packages: linux: {state: "held", version: "6.1.90-1"}`,
		Site:  onActions(packageVersions), Node: onContents(packageVersions),
	},
	{
		Code: "file-source", Severity: site.SeverityError,
		What:  "A file has its content here, in an artifact or in a credential, and one of the three; a file that is absent has none.",
		Why:   "Slipway cannot tell what to write into the file.",
		Wrong: `nodes: "n1": system: files: "/etc/motd": mode: "0644"`,
		Right: `nodes: "n1": system: files: "/etc/motd": {mode: "0644", content: "Welcome"}`,
		Site:  onActions(fileSources), Node: onContents(fileSources),
	},
	{
		Code: "file-credential", Severity: site.SeverityError, Firm: true,
		What: "The credential whose value a file has is an entry in `credentials`.", Why: noMeaning,
		Wrong: `nodes: "n1": system: files: "/etc/app/key.pem": credential: "oss"`,
		Right: `nodes: "n1": system: files: "/etc/app/key.pem": credential: "os"`,
		Site:  func(s *site.Site) []site.Finding { return onActions(fileCredentials(s))(s) },
		Node:  func(s *site.Site, n *site.Node) []site.Finding { return onContents(fileCredentials(s))(s, n) },
	},
	{
		Code: "file-secret", Severity: site.SeverityWarning,
		What:  "A file that has the value of a credential is open to its owner and group alone.",
		Why:   "Every account of the node could read the secret, also that of a service that somebody has broken into.",
		Wrong: `nodes: "n1": system: files: "/etc/app/key.pem": {credential: "os", mode: "0644"}`,
		Right: `nodes: "n1": system: files: "/etc/app/key.pem": {credential: "os", mode: "0640"}`,
		Site:  onActions(fileSecrets), Node: onContents(fileSecrets),
	},
	{
		Code: "file-path", Severity: site.SeverityError,
		What:  "The path of a file is written in its shortest form, and is not inside of another file.",
		Why:   "Two spellings of one path would be two files of the design that overwrite each other; and there are no files in a file.",
		Wrong: `nodes: "n1": system: files: "/etc/../etc/motd": content: "Welcome"`,
		Right: `nodes: "n1": system: files: "/etc/motd": content: "Welcome"`,
		Site:  onActions(filePaths), Node: onContents(filePaths),
	},
	{
		Code: "file-claimed", Severity: site.SeverityError,
		What:  "No file of the design is one that another field writes, such as /etc/hostname beside `hostname`, or one of Slipway's own.",
		Why:   "The two would overwrite each other: the node is never as designed, and Slipway keeps writing to it.",
		Wrong: `nodes: "n1": system: {hostname: "{name}", files: "/etc/hostname": content: "other\n"}`,
		Right: `nodes: "n1": system: hostname: "{name}"`,
		Node:  filesClaimed,
	},
	{
		Code: "file-mode", Severity: site.SeverityWarning,
		What:  "A file cannot be written by everybody.",
		Why:   "Any account of the node, that of a broken service among them, could put there what root reads or runs.",
		Wrong: `nodes: "n1": system: files: "/etc/motd": {content: "Welcome", mode: "0666"}`,
		Right: `nodes: "n1": system: files: "/etc/motd": {content: "Welcome", mode: "0664"}`,
		Site:  onActions(fileModes), Node: onContents(fileModes),
	},
	{
		Code: "file-owner", Severity: site.SeverityError,
		What:  "A file belongs to no account that the design removes.",
		Why:   "Slipway cannot give a file to an account that is removed, so it never finishes the configuration of the node.",
		Wrong: `nodes: "n1": system: {users: web: state: "absent", files: "/etc/motd": {content: "Welcome", owner: "web"}}`,
		Right: `nodes: "n1": system: {users: web: shell: "/bin/sh", files: "/etc/motd": {content: "Welcome", owner: "web"}}`,
		Node:  fileOwners,
	},
	{
		Code: "file-template", Severity: site.SeverityError,
		What:  "In the text of a template {…} is the path of a value that the node has, such as {name}, {rack} or {addresses.mgmt}.",
		Why:   "The file would be written with the braces in it.",
		Wrong: `nodes: "n1": system: files: "/etc/motd": {content: "This is {nam} in {rack}", template: true}`,
		Right: `nodes: "n1": system: files: "/etc/motd": {content: "This is {name} in {rack}", template: true}`,
		Node:  fileTemplates,
	},
	{
		Code: "environment-alone", Severity: site.SeverityNote,
		What:  "An environment of Python names its packages and all that they depend on.",
		Why:   "Slipway installs exactly the packages that an environment names, and refuses the step where one of them depends on another that is not named.",
		Wrong: `nodes: "n1": system: environments: tools: {path: "/opt/tools", packages: jinja2: "3.1.4"}`,
		Right: `nodes: "n1": system: environments: tools: {path: "/opt/tools", packages: {jinja2: "3.1.4", markupsafe: "2.1.5"}}`,
		Node:  eachSystem(environmentsAlone),
	},
	{
		Code: "unit-name", Severity: site.SeverityError,
		What:  "The name of a unit ends in its type, and has at most 255 letters.",
		Why:   "systemd reads no file with another name (systemd.unit(5)), so that the unit does not exist.",
		Wrong: `nodes: "n1": system: units: chrony: enabled: true`,
		Right: `nodes: "n1": system: units: "chrony.service": enabled: true`,
		Site:  onActions(unitNames), Node: onContents(unitNames),
	},
	{
		Code: "unit-masked", Severity: site.SeverityError,
		What:  "A unit that is masked is not enabled and has no content.",
		Why:   "Masking replaces the unit's file by a link to /dev/null, and systemd refuses to enable it.",
		Wrong: `nodes: "n1": system: units: "chrony.service": {state: "masked", enabled: true}`,
		Right: `nodes: "n1": system: units: "chrony.service": {state: "masked", enabled: false}`,
		Site:  onActions(unitsMasked), Node: onContents(unitsMasked),
	},
	{
		Code: "unit-restart", Severity: site.SeverityError,
		What:  "A file on whose change a unit is restarted is in the design.",
		Why:   "Slipway restarts the unit after it has changed the file. It never changes a file that the design does not have.",
		Wrong: `nodes: "n1": system: units: "nginx.service": restartOn: ["/etc/nginx/ngnix.conf"]`,
		Right: `nodes: "n1": system: {files: "/etc/nginx/nginx.conf": content: "", units: "nginx.service": restartOn: ["/etc/nginx/nginx.conf"]}`,
		Site:  actionRestarts, Node: unitRestarts,
	},
	{
		Code: "sysctl-name", Severity: site.SeverityError,
		What:  "A kernel parameter is in one of the directories of /proc/sys, and is set once: with dots or with slashes.",
		Why:   "A name that does not exist is skipped at boot with nothing but a line in the journal (sysctl.d(5)); and of two spellings of one name either may win.",
		Wrong: `nodes: "n1": system: sysctl: "ipv4.ip_forward": 1`,
		Right: `nodes: "n1": system: sysctl: "net.ipv4.ip_forward": 1`,
		Node:  eachSystem(sysctlNames),
	},
	{
		Code: "time-servers", Severity: site.SeverityError,
		What:  "A time server is a host name or an address, and is named once.",
		Why:   "With a wrong name the clock drifts, and days later certificates fail and logs show wrong times. A server that is named twice counts as two servers that agree.",
		Wrong: `nodes: "n1": system: time: servers: ["ntp://10.1.0.53"]`,
		Right: `nodes: "n1": system: time: servers: ["10.1.0.53"]`,
		Node:  eachSystem(timeServers),
	},
	{
		Code: "log-receiver", Severity: site.SeverityError,
		What:  "A receiver of logs has a host and a port, nothing after them, and is named once. One receiver at most is https or http, and no unit of the design keeps systemd-journal-upload from sending to it.",
		Why:   "Messages would be lost, or come twice, which shows only when somebody looks for them.",
		Wrong: `nodes: "n1": system: logs: forward: ["tls://logs.example.org"]`,
		Right: `nodes: "n1": system: logs: forward: ["tls://logs.example.org:6514"]`,
		Node:  eachSystem(logReceivers),
	},
}

// contents are what a node or a boot action puts into an operating system; path
// is the path of their sections.
type contents struct {
	path     string
	packages map[string]site.Package
	files    map[string]site.File
	units    map[string]site.Unit
	// rank returns how near the layer is that sets a path, to a valid value or
	// not; -1 if none does.
	rank func(path string) int
}

func (c contents) set(path string) bool { return c.rank(path) >= 0 }

// clash reports whether a value conflicts with a state that excludes it. It
// does if the layer with the state is no nearer, and so did not mean to remove
// the value.
func (c contents) clash(state, value string) bool {
	return c.set(value) && c.rank(value) >= c.rank(state)
}

// onContents checks what a node's layers put into its operating system.
func onContents(check func(contents) []site.Finding) func(*site.Site, *site.Node) []site.Finding {
	return func(s *site.Site, n *site.Node) []site.Finding {
		rank := func(path string) int { return rankOf(n, path) }
		return eachSystem(func(path string, x site.System) []site.Finding {
			return check(contents{path, x.Packages, x.Files, x.Units, rank})
		})(s, n)
	}
}

// onActions checks what boot actions put into it.
func onActions(check func(contents) []site.Finding) func(*site.Site) []site.Finding {
	return func(s *site.Site) []site.Finding {
		var found []site.Finding
		rank := func(path string) int {
			if stated(s, path) {
				return 0
			}
			return -1
		}
		for _, key := range keys(s.BootActions) {
			a := s.BootActions[key]
			found = append(found, check(contents{"bootActions." + key, a.Packages, a.Files, a.Units, rank})...)
		}
		return found
	}
}

// rankOf returns how near the layer is that sets a node's value: the position
// of its profile, then data, then the node itself; -1 if none does.
func rankOf(n *site.Node, path string) int {
	layer := n.Origins.Of(path).LayerName()
	if layer == "" {
		return -1
	}
	if name, ok := strings.CutPrefix(layer, "profile/"); ok {
		return slices.Index(n.Profiles, name)
	}
	if layer == "node/"+n.Name {
		return len(n.Profiles) + 1
	}
	return len(n.Profiles)
}

// eachSystem checks a node's operating system settings, those for any family
// and those by family.
func eachSystem(check func(path string, x site.System) []site.Finding) func(*site.Site, *site.Node) []site.Finding {
	return func(_ *site.Site, n *site.Node) []site.Finding {
		found := check("system", n.System)
		for _, family := range keys(n.Families) {
			found = append(found, check("families."+family, n.Families[family])...)
		}
		return found
	}
}

func packageVersions(c contents) []site.Finding {
	var found []site.Finding
	for _, name := range keys(c.packages) {
		p, at := c.packages[name], c.path+".packages."+name
		switch {
		case p.State == "absent" && c.clash(at+".state", at+".version"):
			found = append(found, wrong(at+".version", fmt.Sprintf("the package %s is absent and has a version", name),
				"Remove the version, or the state."))
		case p.State == "held" && p.Version == "" && !c.set(at+".version"):
			found = append(found, wrong(at+".state", fmt.Sprintf("the package %s is held at no version", name),
				"Set its version."))
		}
	}
	return found
}

// environmentsAlone finds environments with a single package. Most packages
// depend on others.
func environmentsAlone(path string, x site.System) []site.Finding {
	var found []site.Finding
	for _, key := range keys(x.Environments) {
		packages := x.Environments[key].Packages
		for name, version := range packages {
			if len(packages) == 1 {
				found = append(found, wrong(path+".environments."+key+".packages", fmt.Sprintf("the environment %s names %s alone", key, name),
					fmt.Sprintf("Name what it depends on with the versions too: `pip install --dry-run %s==%s` lists it. Where it depends on nothing, leave it so.", name, version)))
			}
		}
	}
	return found
}

// ofSite places a finding about a node at a part outside the nodes.
func ofSite(s *site.Site, f site.Finding) site.Finding {
	if o, ok := nearest(s.Origins, f.Path); ok {
		f.File, f.Line, f.Col = o.File.Value(), o.Line, o.Col
	}
	return f
}

// sysctlRoots are the directories of /proc/sys (the kernel's
// Documentation/admin-guide/sysctl/index.rst).
var sysctlRoots = []string{"abi", "crypto", "debug", "dev", "fs", "kernel", "net", "sunrpc", "user", "vm", "xen"}

func sysctlNames(path string, x site.System) []site.Finding {
	var found []site.Finding
	first := map[string]string{}
	for _, name := range keys(x.Sysctl) {
		slashed := sysctlPath(name)
		root, rest, _ := strings.Cut(slashed, "/")
		if !slices.Contains(sysctlRoots, root) || rest == "" {
			found = append(found, wrong(path+".sysctl."+name,
				fmt.Sprintf("there is no kernel parameter %q%s", name, DidYouMean(root, sysctlRoots)),
				"Write the path under /proc/sys with dots: net.ipv4.ip_forward. It begins with one of: "+strings.Join(sysctlRoots, ", ")+"."))
		} else if other, ok := first[slashed]; ok {
			found = append(found, wrong(path+".sysctl."+name, fmt.Sprintf("%s is %s in another spelling", name, other), "Keep one of the two."))
		}
		first[slashed] = name
	}
	return found
}

// sysctlPath returns a parameter with slashes. The first dot or slash in a name
// is the separator, and the other one stands for a dot (sysctl.d(5)).
func sysctlPath(name string) string {
	name = strings.TrimPrefix(name, "-")
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '/' {
		return name
	}
	return strings.NewReplacer(".", "/", "/", ".").Replace(name)
}

func timeServers(path string, x site.System) []site.Finding {
	var found []site.Finding
	at := path + ".time.servers"
	for _, server := range x.Time.Servers {
		if !addrOf(server).IsValid() && !isHost(server) {
			found = append(found, wrong(at, fmt.Sprintf("%q is neither a host name nor an address", cutShort(server)),
				"Write the server alone: ntp1.example.org."))
		}
	}
	for _, server := range repeated(x.Time.Servers) {
		found = append(found, wrong(at, fmt.Sprintf("%s is named twice", cutShort(server)), "Remove one, or write the other server."))
	}
	return found
}

// isHost reports whether a text is a host name: a domain name that is not only
// digits and dots, which would be a mistyped address.
func isHost(text string) bool {
	return len(text) <= longestName && domainName.MatchString(text) && strings.ContainsFunc(text, func(r rune) bool { return r > '9' })
}

func logReceivers(path string, x site.System) []site.Finding {
	var found []site.Finding
	at, journal := path+".logs.forward", ""
	for _, receiver := range x.Logs.Forward {
		u, err := url.Parse(receiver)
		isJournal := err == nil && (u.Scheme == "https" || u.Scheme == "http") // these have a default port
		if isJournal && journal != "" && receiver != journal {
			found = append(found, wrong(at, fmt.Sprintf("%s and %s are two receivers of https or http, and systemd-journal-upload sends to one", cutShort(journal), cutShort(receiver)),
				"Keep one of the two, and have it pass the messages on."))
		}
		if isJournal {
			journal = receiver
		}
		switch {
		case err != nil || u.Hostname() == "" || u.Port() == "" && !isJournal || !goodPort(u):
			right := "Write tls://logs.example.org:6514."
			if isJournal {
				right = fmt.Sprintf("Write %s://logs.example.org:19532.", u.Scheme)
			}
			found = append(found, wrong(at, fmt.Sprintf("%q has no host, or no port from 1 to 65535", cutShort(receiver)), right))
		case u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
			found = append(found, wrong(at, fmt.Sprintf("%s://%s has more than a host and a port", u.Scheme, u.Host),
				fmt.Sprintf("Write \"%s://%s\".", u.Scheme, u.Host)))
		}
	}
	for _, receiver := range repeated(x.Logs.Forward) {
		found = append(found, wrong(at, fmt.Sprintf("%s is named twice", cutShort(receiver)), "Remove one of the two."))
	}
	const unit = "systemd-journal-upload.service"
	u := x.Units[unit]
	if off := u.Enabled != nil && !*u.Enabled || u.State == "stopped" || u.State == "masked"; journal != "" && (off || u.Content != nil) {
		found = append(found, wrong(path+".units."+unit, fmt.Sprintf("Slipway runs %s for logs.forward, and the design disables, stops, masks or replaces it", unit),
			fmt.Sprintf("Remove the unit from the design, or %s from logs.forward.", cutShort(journal))))
	}
	return found
}
