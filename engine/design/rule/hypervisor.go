package rule

import (
	"fmt"
	"net/url"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// hypervisors: can Slipway reach the hypervisors and place virtual machines on
// them?
var hypervisors = []Rule{
	{
		Code: "hypervisor-url", Severity: site.SeverityError, Firm: true,
		What:  "The URL of a hypervisor is libvirt+unix, libvirt+tls or libvirt+ssh with the path /system, and names neither a password nor a machine.",
		Why:   "Slipway cannot reach a hypervisor by another URL. Over plain TCP, whoever is on the network path could take over the machines. Slipway itself adds the name of the machine.",
		Wrong: aMachine + `hypervisors: "hv-2": url: "libvirt+tcp://10.1.0.21/system"` + "\n" + `nodes: "vm-1": profiles: ["vm"]`,
		Right: aMachine + `hypervisors: "hv-2": url: "libvirt+tls://10.1.0.21/system"` + "\n" + `nodes: "vm-1": profiles: ["vm"]`,
		Site:  hypervisorURLs,
	},
	{
		Code: "hypervisor-node", Severity: site.SeverityError, Firm: true,
		What:  "The node that a hypervisor runs on is one of the design, and a physical one.",
		Why:   "Where the hypervisor's machines stand follows from its node; a virtual node would have to be placed on a hypervisor first.",
		Wrong: aMachine + `hypervisors: "hv-1": node: "n9"` + "\n" + `nodes: "vm-1": profiles: ["vm"]`,
		Right: aMachine + `hypervisors: "hv-1": node: "n1"` + "\n" + `nodes: "vm-1": profiles: ["vm"]`,
		Facts: styleFacts, Fleet: hypervisorNode,
	},
	{
		Code: "hypervisor-address", Severity: site.SeverityError,
		What:  "The address in the URL of a hypervisor is one of the node that it names.",
		Why:   "Machines would be made on another host than the one whose rack, room, bridges and maintenance the design counts on.",
		Wrong: aMachine + `hypervisors: "hv-2": {url: "libvirt+tls://10.1.0.12/system", node: "n1"}` + "\n" + `nodes: "vm-1": profiles: ["vm"]`,
		Right: aMachine + `hypervisors: "hv-2": {url: "libvirt+tls://10.1.0.11/system", node: "n1"}` + "\n" + `nodes: "vm-1": profiles: ["vm"]`,
		Facts: hostFacts, Fleet: hypervisorAddress,
	},
	{
		Code: "placement-contradiction", Severity: site.SeverityError, Firm: true,
		What:  "No role has to be both near another role and apart from it.",
		Why:   "No hypervisor can meet both, so Slipway would place none of their machines.",
		Wrong: `roles: compute: placement: {apart: ["storage"], near: ["storage"]}`,
		Right: `roles: compute: placement: {apart: ["controller"], near: ["storage"]}`,
		Site:  placementContradiction,
	},
}

// libvirtPaths are the paths of hypervisors: libvirt's system daemon, and its
// in-memory one for trials.
var libvirtPaths = []string{"/system", "/test/default"}

func hypervisorURLs(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, name := range keys(s.Hypervisors) {
		text := s.Hypervisors[name].URL
		if text == "" {
			continue
		}
		if fault := hypervisorFault(parsed(text)); fault != "" {
			found = append(found, wrong("hypervisors."+name+".url", fmt.Sprintf("the URL of the hypervisor %s %s", name, fault),
				"Write libvirt+unix:///system, libvirt+tls://192.0.2.21/system or libvirt+ssh://root@192.0.2.21/system."))
		}
	}
	return found
}

// hypervisorFault says what is wrong with the URL of a hypervisor; empty if
// nothing is.
func hypervisorFault(u *url.URL) string {
	_, password := u.User.Password()
	switch {
	case u.Scheme == "libvirt+tcp":
		return "is without encryption"
	case !slices.Contains([]string{"libvirt+unix", "libvirt+tls", "libvirt+ssh"}, u.Scheme):
		return fmt.Sprintf("has the scheme %q, which no driver has", u.Scheme)
	case password:
		return "holds a password, which does not belong in Git"
	case u.User != nil && u.Scheme != "libvirt+ssh":
		return "names an account, which only libvirt+ssh has"
	case u.Scheme == "libvirt+unix" && u.Host != "":
		return "has a host, and libvirt+unix is a socket on the host of Slipway"
	case u.Scheme != "libvirt+unix" && (u.Hostname() == "" || !goodPort(u)):
		return "needs a host, and a port from 1 to 65535 if any"
	case !slices.Contains(libvirtPaths, u.Path):
		return fmt.Sprintf("has the path %q, and not /system", u.Path)
	case u.Query().Has("domain") || u.Query().Has("site"):
		return "names a machine"
	}
	return ""
}

// styleFacts says that a node exists, and whether it is virtual.
func styleFacts(s *site.Site, n *site.Node) []Fact {
	switch {
	case len(s.Hypervisors) == 0:
		return nil
	case n.IsVirtual():
		return []Fact{{Key: n.Name}, {Key: n.Name + " virtual"}}
	}
	return []Fact{{Key: n.Name}}
}

func hypervisorNode(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, name := range keys(s.Hypervisors) {
		node, path := s.Hypervisors[name].Node, "hypervisors."+name+".node"
		switch {
		case node == "":
		case x.Count(node) == 0:
			found = append(found, wrong(path, fmt.Sprintf("there is no node %q", node), "Use the name of a node, or remove the line."))
		case x.Count(node+" virtual") > 0:
			found = append(found, wrong(path, fmt.Sprintf("the hypervisor %s runs on %s, which is virtual itself", name, node),
				"Name a physical node, or remove the line and set `rack`."))
		}
	}
	return found
}

func placementContradiction(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, role := range keys(s.Roles) {
		for _, near := range s.Roles[role].Placement.Near {
			from := keptApart(s, role, near)
			if from == "" {
				continue
			}
			found = append(found, also(s, "roles."+from+".placement.apart", wrong("roles."+role+".placement.near",
				fmt.Sprintf("the role %s has to be near %s, and they have to be apart", role, near), "Remove one of them.")))
		}
	}
	return found
}

// keptApart returns the role that keeps two roles apart; empty for none.
func keptApart(s *site.Site, a, b string) string {
	if slices.Contains(s.Roles[a].Placement.Apart, b) {
		return a
	}
	if r := s.Roles[b]; r != nil && slices.Contains(r.Placement.Apart, a) {
		return b
	}
	return ""
}

// hostFacts says at which addresses and names a node can be reached, and "open" if
// it may have others.
func hostFacts(s *site.Site, n *site.Node) []Fact {
	if len(s.Hypervisors) == 0 || n.IsVirtual() {
		return nil
	}
	var all []Fact
	add := func(host, path string) {
		if a := addrOf(host); a.IsValid() {
			host = a.String()
		}
		all = append(all, Fact{Key: "of " + n.Name + " " + host}, Fact{Key: "at " + host, Path: path})
	}
	open := !isWhole(n) || len(n.Addresses) == 0
	for _, network := range keys(n.Addresses) {
		switch a := n.Addresses[network]; {
		case addrOf(a).IsValid():
			add(a, "addresses."+network)
		default:
			open = true
		}
	}
	if u := parsed(n.Endpoints[site.OS].URL); u.Hostname() != "" {
		add(u.Hostname(), "endpoints.os.url")
	}
	if open {
		all = append(all, Fact{Key: "open " + n.Name})
	}
	if len(all) > 0 {
		all = append(all, Fact{Key: "known " + n.Name})
	}
	return all
}

func hypervisorAddress(s *site.Site, x *Index) []site.Finding {
	var found []site.Finding
	for _, name := range keys(s.Hypervisors) {
		h := s.Hypervisors[name]
		host := parsed(h.URL).Hostname()
		a := addrOf(host)
		if h.Node == "" || host == "" {
			continue
		}
		if a.IsValid() {
			host = a.String()
		}
		if x.Count("of "+h.Node+" "+host) > 0 {
			continue
		}
		f := wrong("hypervisors."+name+".url", "", fmt.Sprintf("Write an address of %s, or the node that has this one.", h.Node))
		owners := slices.DeleteFunc(slices.Clone(x.Holders("at "+host)), func(o Holder) bool { return o.Node == h.Node })
		switch {
		case len(owners) > 0:
			f.Message = fmt.Sprintf("the URL of the hypervisor %s leads to %s, which is the node %s, and it is to run on %s", name, host, owners[0].Node, h.Node)
			f.Related = []string{owners[0].Place.String()}
		case a.IsValid() && x.Count("open "+h.Node) == 0 && x.Count("known "+h.Node) > 0:
			f.Message = fmt.Sprintf("the URL of the hypervisor %s leads to %s, which is not an address of its node %s", name, host, h.Node)
		default:
			continue
		}
		found = append(found, also(s, "hypervisors."+name+".node", f))
	}
	return found
}
