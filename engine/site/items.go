package site

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// References resolve the names in a node's design to what they name elsewhere in the site.
// Evaluation fills them in.
type References struct {
	// Family is the family of the image: "debian", "rhel".
	Family string `json:"family,omitempty"`
	// ByAgent means that Slipway's agent installs the image, WholeDisk that the image is one of a
	// whole disk.
	ByAgent   bool `json:"byAgent,omitempty"`
	WholeDisk bool `json:"wholeDisk,omitempty"`
	// Start is how the agent is started: "media" or "network". It is empty if the agent does
	// nothing to the node's disks.
	Start Start `json:"start,omitempty"`
	// Authorities are the public keys of those whose SSH certificates count.
	Authorities []string `json:"authorities,omitempty"`
	// HostNames are the names that certificates of its host keys are good for; see Site.hostNames.
	HostNames []string `json:"hostNames,omitempty"`
	// TLS are the certificates of the authorities that sign TLS certificates, in PEM, and TLSNames the
	// names of those whose design has none.
	TLS      []string `json:"tls,omitempty"`
	TLSNames []string `json:"tlsNames,omitempty"`
	// Revoked is who and what may not log in by SSH where certificates are let in; nil for nobody.
	Revoked *item.Revoked `json:"revoked,omitempty"`
	// Links are the node's interfaces with what its networks say of them, by name.
	Links map[string]item.Link `json:"links,omitempty"`
	// Health is that of the node's role.
	Health *Health `json:"health,omitempty"`
	// Texts are the contents of files whose {…} were replaced by values of the node, by their path
	// in it: "system.files./etc/motd.content".
	Texts map[string]string `json:"texts,omitempty"`
	// Artifacts are the artifacts that its files and the firmware of its drivers use, by name.
	Artifacts map[string]Artifact `json:"artifacts,omitempty"`
	// Actions are the boot actions that select the node, by name.
	Actions map[string]BootAction `json:"actions,omitempty"`
	// Drivers are the drivers that may be for the node's machine, by name: those that its designed
	// model does not rule out.
	Drivers map[string]*Driver `json:"drivers,omitempty"`
	// Derived are the derived credentials that its BMC is logged in to with, or that accounts of it
	// have, by name.
	Derived map[string]Derived `json:"derived,omitempty"`
}

// Items are what the design asks of a facet inside the installed system, sorted by key; nil for
// other facets. They include what is designed for the family of the node's image.
func (n *Node) Items(f Facet) []item.Item { return n.ItemsIn(f, n.References.Family) }

// ItemsIn returns the items in a system of a family. It includes the drivers that the design alone
// says are for the machine.
func (n *Node) ItemsIn(f Facet, family string) []item.Item {
	items, _ := n.itemsWith(f, family, n.DriverNames(nil, FitSure))
	return items
}

// ItemsOn returns the items in an observed system, including those of the drivers that are for its
// machine.
func (n *Node) ItemsOn(f Facet, seen *Platform) []item.Item {
	items, _ := n.itemsWith(f, n.familyOf(seen), n.DriverNames(seen, FitSure))
	return items
}

// MayItems returns the items including those of all drivers that may be for the machine, whatever
// was seen of it.
func (n *Node) MayItems(f Facet, seen *Platform) []item.Item {
	items, _ := n.itemsWith(f, n.familyOf(seen), slices.Sorted(maps.Keys(n.References.Drivers)))
	return items
}

// familyOf returns the observed family, or else the family of the image.
func (n *Node) familyOf(seen *Platform) string {
	if seen == nil {
		return n.References.Family
	}
	return cmp.Or(seen.Family, n.References.Family)
}

// itemsWith returns the items in a system of a family, and what the named drivers add that the rest
// of the design does not mention.
func (n *Node) itemsWith(f Facet, family string, drivers []string) ([]item.Item, driven) {
	system := n.filled("system.", n.System).with(n.filled("families."+family+".", n.Families[family]))
	var brought driven
	if len(drivers) > 0 && (f == FacetPackages || f == FacetConfig) {
		brought = n.drivenBy(drivers, family).under(system)
		system = brought.System.with(system)
	}
	var items []item.Item
	switch f {
	case FacetBase:
		items = system.baseItems(n.Name)
		if ssh := (item.SSH{Authorities: n.References.Authorities, Node: n.Name, Accounts: system.SSH.Accounts, Revoked: n.References.Revoked}); ssh.IsAsked() {
			items = append(items, item.New(item.KindSSH, ssh.Fields(), ssh))
			if host := (item.SSHHost{Names: n.References.HostNames}); len(host.Names) > 0 {
				items = append(items, item.New(item.KindSSHHost, host.Fields(), host))
			}
		}
	case FacetPackages:
		items = system.packageItems(family)
	case FacetConfig:
		items = append(system.configItems(n.References.Artifacts), n.certificateItems(system)...)
	case FacetKernel:
		items = n.Kernel.items(n.Hardware)
	case FacetActions:
		for name, a := range n.References.Actions {
			items = append(items, n.actionItem(name, a, family))
		}
	case FacetNetwork:
		for name, l := range n.References.Links {
			items = append(items, item.New(item.KindLinks+"."+name, l.Fields(), l))
		}
	}
	slices.SortFunc(items, func(a, b item.Item) int { return strings.Compare(a.Key, b.Key) })
	return items, brought
}

// PatchIn returns the upgrades that the design asks for in a system of a family; nil for none.
func (n *Node) PatchIn(family string) *Patch {
	if own := n.Families[family].Patch; own != nil {
		return own
	}
	return n.System.Patch
}

// filled returns a part of the design with the contents that its templates produce.
func (n *Node) filled(path string, s System) System {
	if len(n.References.Texts) == 0 {
		return s
	}
	s.Files = maps.Clone(s.Files)
	for name, f := range s.Files {
		if text, made := n.References.Texts[path+"files."+name+".content"]; made {
			f.Content = &text
			s.Files[name] = f
		}
	}
	return s
}

// with merges a system with its family's own design, which takes precedence.
func (s System) with(own System) System {
	both := System{
		Hostname: cmp.Or(own.Hostname, s.Hostname), Hosts: over(s.Hosts, own.Hosts), Repositories: over(s.Repositories, own.Repositories),
		Environments: over(s.Environments, own.Environments), Modules: over(s.Modules, own.Modules), Patch: s.Patch,
		Packages: over(s.Packages, own.Packages), Files: over(s.Files, own.Files), Units: over(s.Units, own.Units),
		Users: over(s.Users, own.Users), Sysctl: over(s.Sysctl, own.Sysctl), Unlisted: Unlisted{cmp.Or(own.Unlisted.Units, s.Unlisted.Units)},
		Time: Time{Zone: cmp.Or(own.Time.Zone, s.Time.Zone), Servers: longer(own.Time.Servers, s.Time.Servers)},
		Logs: Logs{Forward: longer(own.Logs.Forward, s.Logs.Forward)},
		SSH:  SSH{Accounts: longer(own.SSH.Accounts, s.SSH.Accounts)}, Certificates: over(s.Certificates, own.Certificates),
	}
	if own.Patch != nil {
		both.Patch = own.Patch
	}
	return both
}

func over[M ~map[string]V, V any](all, own M) M {
	if len(own) == 0 {
		return all
	}
	both := maps.Clone(all)
	if both == nil {
		both = M{}
	}
	maps.Copy(both, own)
	return both
}

// longer returns the first list, or the second if the first is empty.
func longer(own, all []string) []string {
	if len(own) > 0 {
		return own
	}
	return all
}

func (s System) baseItems(node string) (items []item.Item) {
	if s.Hostname != "" {
		name := strings.ReplaceAll(s.Hostname, "{name}", node)
		items = append(items, item.New(item.KindHostname, map[string]string{"": name}, nil))
	}
	if len(s.Hosts) > 0 {
		hosts := item.Hosts(s.Hosts)
		items = append(items, item.New(item.KindHosts, hosts.Fields(), hosts))
	}
	if clock := (item.Time{Zone: s.Time.Zone, Servers: s.Time.Servers}); len(clock.Fields()) > 0 {
		items = append(items, item.New(item.KindTime, clock.Fields(), clock))
	}
	if len(s.Logs.Forward) > 0 {
		logs := item.Logs{Forward: s.Logs.Forward}
		items = append(items, item.New(item.KindLogs, logs.Fields(), logs))
	}
	for name, u := range s.Users {
		items = append(items, u.item(item.KindUsers+"."+name))
	}
	return items
}

func (u User) item(key string) item.Item {
	if u.State == item.Absent {
		return absent(key)
	}
	body := item.User{UID: u.UID, Groups: u.Groups, Shell: u.Shell, Keys: u.Keys, Sudo: u.Sudo}
	fields := body.Fields()
	if u.Password != "" {
		fields["password"] = item.ValueOf(u.Password)
	}
	return item.New(key, fields, body)
}

func absent(key string) item.Item {
	return item.New(key, map[string]string{"state": item.Absent}, nil)
}

func (s System) packageItems(family string) (items []item.Item) {
	pinned := []string{}
	for name, p := range s.Packages {
		items = append(items, p.item(item.KindPackages+"."+name))
		if p.Version != "" {
			pinned = append(pinned, name)
		}
	}
	for name, r := range s.Repositories {
		body := item.Repository{Family: family, URL: r.URL, Suite: r.Suite, Components: r.Components, Key: r.Key, Pin: r.Pin}
		items = append(items, item.New(item.KindRepositories+"."+name, body.Fields(), body))
	}
	for name, e := range s.Environments {
		body := item.Language{Kind: cmp.Or(e.Language, "python"), Path: e.Path, Packages: e.Packages, Index: e.Index}
		items = append(items, item.New(item.KindLanguage+"."+name, body.Fields(), body))
	}
	if s.Patch != nil {
		slices.Sort(pinned)
		body := item.Patch{Level: s.Patch.Level, Snapshot: s.Patch.Snapshot, Except: pinned}
		items = append(items, item.New(item.KindPatch, body.Fields(), body))
	}
	return items
}

// item asks for the version that the design names, or else for the package in any version.
func (p Package) item(key string) item.Item {
	fields := map[string]string{"state": cmp.Or(p.State, item.Present)}
	if p.Version != "" && p.State != item.Absent {
		fields["version"] = p.Version
	}
	return item.New(key, fields, nil)
}

func (s System) configItems(artifacts map[string]Artifact) (items []item.Item) {
	for path, f := range s.Files {
		sha256 := artifacts[f.Artifact].SHA256
		if f.State == item.Absent || f.Content != nil || f.Credential != "" || sha256 != "" {
			items = append(items, f.item(item.KindFiles+"."+path, sha256))
		}
	}
	for name, u := range s.Units {
		items = append(items, u.item(item.KindUnits+"."+name))
	}
	for name, m := range s.Modules {
		var parameters []string
		for parameter, v := range m.Parameters {
			parameters = append(parameters, parameter+"="+SettingText(v))
		}
		items = append(items, item.New(item.KindModules+"."+name, map[string]string{"parameters": item.List(parameters)}, nil))
	}
	for name, v := range s.Sysctl {
		items = append(items, item.New(item.KindSysctl+"."+name, map[string]string{"": SettingText(v)}, nil))
	}
	return items
}

// item asks for a file. The argument sha256 is the digest of its artifact, empty without one.
func (f File) item(key, sha256 string) item.Item {
	if f.State == item.Absent {
		return absent(key)
	}
	body := item.File{
		Artifact: sha256, Mode: cmp.Or(f.Mode, "0644"), Owner: cmp.Or(f.Owner, "root"), Group: cmp.Or(f.Group, "root"),
	}
	if f.Credential != "" { // its value is not known here
		body.Mode = cmp.Or(f.Mode, secretMode)
		fields := body.Fields()
		fields["content"] = item.ValueOf(f.Credential)
		return item.New(key, fields, body)
	}
	if f.Content != nil {
		body.Content = []byte(*f.Content)
	}
	return item.New(key, body.Fields(), body)
}

func (u Unit) item(key string) item.Item {
	fields := map[string]string{}
	if u.Content != nil {
		fields["content"] = item.Digest([]byte(*u.Content))
	}
	if u.Enabled != nil {
		fields["enabled"] = strconv.FormatBool(*u.Enabled)
	}
	if u.State != "" {
		fields["state"] = u.State
	}
	return item.New(key, fields, item.Unit{Content: u.Content, RestartOn: u.RestartOn})
}

// actionItem asks for a boot action to be done.
func (n *Node) actionItem(name string, a BootAction, family string) item.Item {
	key := item.KindBootActions + "." + name
	brings := n.filled(key+".", System{Packages: a.Packages, Files: a.Files, Units: a.Units})
	body := item.Action{Packages: brings.packageItems(family), Config: brings.configItems(n.References.Artifacts), Run: a.Run, Timeout: time.Duration(a.Timeout)}
	for _, items := range [][]item.Item{body.Packages, body.Config} {
		slices.SortFunc(items, func(a, b item.Item) int { return strings.Compare(a.Key, b.Key) })
	}
	return item.New(key, map[string]string{"": item.Done}, body)
}

// PhaseOfItem returns the phase of a role after which an item of a facet with Once is done. It is
// the last phase if the design does not say, or if the role has no such phase.
func (n *Node) PhaseOfItem(r *Role, key string) string {
	phases := r.AllPhases()
	if after := n.References.Actions[item.ID(key)].After; slices.Contains(phases, after) {
		return after
	}
	return phases[len(phases)-1]
}

// items ask for kernel parameters; the value "true" means the bare name.
func (k Kernel) items(h Hardware) (items []item.Item) {
	if k.Package != "" {
		items = append(items, item.New(item.KindKernel, map[string]string{"package": k.Package}, nil))
	}
	for name, v := range k.Parameters {
		items = append(items, item.New(item.KindParameters+"."+name, map[string]string{"": h.refer(SettingText(v))}, nil))
	}
	return items
}

// refer replaces references to the hardware in a kernel parameter: {hardware.cpuSets.NAME},
// {hardware.hugepages.NAME.size} as the kernel writes it, and {hardware.hugepages.NAME.count}.
func (h Hardware) refer(text string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	var facts []string
	for name, set := range h.CPUSets {
		facts = append(facts, "{hardware.cpuSets."+name+"}", set)
	}
	for name, pages := range h.Hugepages {
		facts = append(facts, "{hardware.hugepages."+name+".size}", strings.TrimSuffix(pages.Size.String(), "iB"),
			"{hardware.hugepages."+name+".count}", strconv.Itoa(pages.Count))
	}
	return strings.NewReplacer(facts...).Replace(text)
}

// placeOf returns the path of an item in a node's design, below "system" if a family may override
// it.
func placeOf(f Facet, key string) (path string, ofSystem bool) {
	kind, id := item.Kind(key), item.ID(key)
	switch {
	case f == FacetNetwork:
		return "interfaces." + id, false
	case f == FacetKernel && kind == item.KindParameters:
		return "kernel." + key, false
	case f == FacetKernel:
		return key, false
	case kind == item.KindLanguage:
		return "environments." + id, true
	case kind == item.KindUnlisted:
		return item.KindUnlisted + ".units", true
	}
	return key, true
}

// PathsOf returns the paths in a node's design that may set a field of an item, in order of
// precedence: "families.debian.files./etc/motd.mode", "system.files./etc/motd.mode".
func (r Resolved) PathsOf(f Facet, field string) []string {
	key := r.Keys[field]
	if key == "" {
		key = field
	}
	rest := strings.TrimPrefix(field, key)
	if driver := r.Drivers[key]; driver != "" {
		return driverPaths(driver, r.Family, key, rest)
	}
	if item.Kind(key) == kindDrivers {
		return []string{key}
	}
	path, ofSystem := placeOf(f, key)
	if !ofSystem {
		if f != FacetNetwork {
			return []string{path + rest}
		}
		var all []string
		for _, section := range []string{"interfaces", "bonds", "bridges", "vlans"} {
			all = append(all, section+"."+item.ID(key)+rest)
		}
		return all
	}
	return []string{"families." + r.Family + "." + path + rest, "system." + path + rest}
}
