package rule

import (
	"fmt"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// unusing: is everything that is declared used?
var unusing = []Rule{
	unused{
		section: "roles", thing: "role",
		wrong: `roles: spare: {}`, right: "roles: spare: {}\nnodes: \"n3\": role: \"spare\"",
		why: "It may be left over, or its nodes may be missing.",
		names: func(s *site.Site) []string {
			needed := map[string]bool{} // needs-quorum checks these
			for _, n := range needs(s) {
				needed[n.on] = true
			}
			return slices.DeleteFunc(keys(s.Roles), func(role string) bool {
				return disabled(s, role) || s.Roles[role].Minimum > 0 || needed[role]
			})
		},
		by: func(_ *site.Site, n *site.Node) []string { return []string{n.Role} },
	}.rule("unused-role"),
	unused{
		section: "racks", thing: "rack",
		wrong: `racks: r3: {}`, right: "racks: r3: {}\nnodes: \"n3\": rack: \"r3\"",
		why:   "It may be left over, or its nodes may be missing.",
		names: func(s *site.Site) []string { return keys(s.Racks) },
		by: func(_ *site.Site, n *site.Node) []string {
			if n.IsVirtual() {
				return nil
			}
			return []string{n.Rack}
		},
		besides: func(s *site.Site) (names []string) {
			for _, h := range s.Hypervisors {
				names = append(names, h.Rack)
			}
			return names
		},
	}.rule("unused-rack"),
	unused{
		section: "profiles", thing: "profile",
		wrong: `profiles: kiosk: power: "off"`, right: "profiles: kiosk: power: \"off\"\nprofiles: base: parents: [\"kiosk\"]",
		why:   "It may be left over, or the nodes that need it may lack what it says.",
		names: func(s *site.Site) []string { return keys(s.Profiles) },
		by:    func(_ *site.Site, n *site.Node) []string { return n.Profiles },
	}.rule("unused-profile"),
	unused{
		section: "images", thing: "image",
		wrong: `images: debian11: {url: "https://images.example.org/debian11.iso", sha256: "` + someDigest + `"}`,
		right: `images: debian11: {url: "https://images.example.org/debian11.iso", sha256: "` + someDigest + `"}
nodes: "n1": image: "debian11"`,
		why:   "It may be left over, or nodes may still have another.",
		names: func(s *site.Site) []string { return keys(s.Images) },
		by: func(_ *site.Site, n *site.Node) []string {
			if n.Image == "" && !states(n, "image") {
				return nil
			}
			return []string{n.Image}
		},
	}.rule("unused-image"),
	unused{
		section: "windows", thing: "window",
		wrong: `windows: night: {from: "22:00", to: "04:00"}`, right: `windows: night: {from: "22:00", to: "04:00"}` + usedNight,
		why:   "It may be left over, or the nodes that wait for it may have none.",
		names: func(s *site.Site) []string { return keys(s.Windows) },
		by: func(_ *site.Site, n *site.Node) []string {
			var names []string
			for _, w := range windowsOf(n) {
				names = append(names, w.name)
			}
			return names
		},
	}.rule("unused-window"),
	unused{
		section: "credentials", thing: "credential",
		wrong: `credentials: ilo: {}`, right: "credentials: ilo: {}\nnodes: \"n1\": endpoints: manager: credential: \"ilo\"",
		why:   "Its secret may be on the bootstrap host for nothing, or another credential may be in use in its place.",
		names: func(s *site.Site) []string { return keys(s.Credentials) },
		by:    credentialsOf, besides: siteCredentials,
	}.rule("unused-credential"),
	unused{
		section: "artifacts", thing: "artifact",
		wrong: `artifacts: motd: {url: "https://files.example.org/motd", sha256: "` + someDigest + `"}`,
		right: `artifacts: motd: {url: "https://files.example.org/motd", sha256: "` + someDigest + `"}
nodes: "n1": system: files: "/etc/motd": artifact: "motd"`,
		why:   "It may be left over, or what should use it may use another.",
		names: func(s *site.Site) []string { return keys(s.Artifacts) },
		by:    artifactsOf, besides: siteArtifacts,
	}.rule("unused-artifact"),
}

// unused is a rule about entries of a section that nothing uses.
type unused struct {
	section, thing, wrong, right, why string
	// names are the entries that should be used.
	names func(*site.Site) []string
	// by returns the entries that a node uses. An empty name is unknown because
	// of another finding.
	by func(*site.Site, *site.Node) []string
	// besides returns the entries used outside the nodes.
	besides func(*site.Site) []string
}

func (u unused) rule(code string) Rule {
	return Rule{
		Code: code, Severity: site.SeverityNote,
		What: fmt.Sprintf("Every %s is used.", u.thing), Why: u.why, Wrong: u.wrong, Right: u.right,
		Facts: func(s *site.Site, n *site.Node) (facts []Fact) {
			facts = append(facts, Fact{Key: aNode})
			for _, name := range u.by(s, n) {
				facts = append(facts, Fact{Key: name})
			}
			return facts
		},
		Fleet: u.check, Whole: true,
	}
}

// aNode is the key that counts all nodes; nothing else has this name.
const aNode = "a node"

// check finds nothing while there are no nodes. It takes an unknown name for
// the nearest known one: the mistake is in that name.
func (u unused) check(s *site.Site, x *Index) []site.Finding {
	if x.Count(aNode) == 0 {
		return nil
	}
	names := u.names(s)
	used, known := map[string]bool{}, map[string]bool{}
	for _, name := range names {
		known[name] = true
	}
	for _, key := range x.Keys() {
		if used[key] = true; !known[key] && key != aNode && len(names) <= many {
			used[Nearest(key, names)] = true
		}
	}
	if u.besides != nil {
		for _, name := range u.besides(s) {
			used[name] = true
		}
	}
	var found []site.Finding
	for _, name := range names {
		if !used[name] && name != "" {
			found = append(found, placed(wrong(u.section+"."+name,
				fmt.Sprintf("nothing uses the %s %s", u.thing, name), "Remove it, or name it where it is meant to be used."),
				s.Profiles[profileAt(u.section, name)]))
		}
	}
	return found
}

// isWhole reports whether a node has everything from its profiles. Such a node
// has a credential of its BMC, if only by default, or the UUID derived from its
// name.
func isWhole(n *site.Node) bool {
	if n.IsVirtual() {
		return states(n, "identity.uuid")
	}
	return states(n, "endpoints.manager.credential")
}

// profileAt returns the name of a profile; entries of other sections have
// origins.
func profileAt(section, name string) string {
	if section == "profiles" {
		return name
	}
	return ""
}

func credentialsOf(_ *site.Site, n *site.Node) []string {
	var names []string
	for _, kind := range keys(n.Endpoints) {
		names = append(names, n.Endpoints[kind].Credential)
	}
	for _, name := range keys(n.BMC.Accounts) {
		names = append(names, n.BMC.Accounts[name].Credential)
	}
	eachSystem(func(_ string, x site.System) []site.Finding {
		for _, u := range x.Users {
			if u.Password != "" {
				names = append(names, u.Password)
			}
		}
		names = append(names, fileCredentialNames(x.Files)...)
		return nil
	})(nil, n)
	return names
}

// siteCredentials returns the credentials used outside the nodes.
func siteCredentials(s *site.Site) []string {
	names := discoveryCredential(s)
	for _, h := range s.Hypervisors {
		names = append(names, h.Credential)
	}
	for _, a := range s.BootActions {
		names = append(names, fileCredentialNames(a.Files)...)
	}
	return names
}

// fileCredentialNames returns the credentials that files contain.
func fileCredentialNames(files map[string]site.File) []string {
	var names []string
	for _, path := range keys(files) {
		if name := files[path].Credential; name != "" {
			names = append(names, name)
		}
	}
	return names
}

func artifactsOf(_ *site.Site, n *site.Node) []string { return namesIn(artifactUses(n)) }

func siteArtifacts(s *site.Site) []string {
	var names []string
	for _, d := range s.Drivers {
		for _, name := range d.Firmware {
			names = append(names, name)
		}
	}
	for _, a := range s.BootActions {
		names = append(names, namesIn(fileArtifacts("", a.Files))...)
	}
	return names
}

func namesIn(uses []artifactUse) []string {
	var names []string
	for _, u := range uses {
		if u.name != "" {
			names = append(names, u.name)
		}
	}
	return names
}
