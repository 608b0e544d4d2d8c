package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// notes are differences that Slipway cannot resolve by itself.
func notes(s *site.Site, n *site.Node, m site.Memory) []string {
	var notes []string
	switch why := s.Unused(n); {
	case m.Recorded.Quarantined != nil:
		notes = append(notes, fmt.Sprintf("quarantined by %s: %s", m.Recorded.Quarantined.By, m.Recorded.Quarantined.Reason))
	case why != "":
		notes = append(notes, why+"; Slipway only observes its machine")
	case zeroizes(s, n):
		notes = append(notes, zeroizeNote(n, m))
	case retires(s, n, m):
		notes = append(notes, retireNote(n, m))
	case n.Decommission && m.Recorded.UnderWay() == 0:
		notes = append(notes, "decommissioned: Slipway only observes it; you may remove it from the design")
	}
	if Moves(n, m.Recorded) {
		notes = append(notes, moveNote(n, m))
	}
	if a := m.Recorded.Adopted; a != nil && a.Manager != "" && a.Manager != n.Endpoints[site.Manager].URL {
		notes = append(notes, fmt.Sprintf("its "+manager(n)+" endpoint changes from %s to %s", a.Manager, n.Endpoints[site.Manager].URL))
	}
	if c := m.Recorded.Certificate; c != nil && c.Endpoint == n.Endpoints[site.Manager].URL && n.Endpoints[site.Manager].Trust.OnFirstUse() {
		notes = append(notes, fmt.Sprintf("its BMC is trusted by the certificate that it showed first, on %s: %s; compare it on the BMC and write it as the endpoint's trust.fingerprint",
			c.Since.UTC().Format(time.DateOnly), c.Fingerprint))
	}
	if i := m.Recorded.Installed; i != nil && i.BootUnknown != "" {
		notes = append(notes, "Slipway does not know which entries of the firmware's boot manager start the system that it installed: "+i.BootUnknown+"; if the machine does not start from its disk, choose that in the firmware's setup")
	}
	if f := m.Observed.Facets[site.FacetPackages]; f.Waits == site.WaitsLibraries && !mayReboot(n, site.FacetPackages, f) {
		notes = append(notes, "inside, programs still use libraries that an upgrade replaced, so they lack its fixes; restart them or the machine, "+
			"or set `system.patch.reboot: \"libraries\"`, and Slipway restarts the machine")
	}
	if !n.Machine().Known() && m.Observed.Identity.Known() {
		notes = append(notes, "the machine is "+full(m.Observed.Identity)+"; the design names none")
	}
	return append(notes, insideNotes(m.Observed.Inside)...)
}

// askedNotes reports interfaces whose settings are as designed but get less, or more, from other
// sources.
func askedNotes(n *site.Node, m site.Memory, serves map[site.Facet]bool) []string {
	var notes []string
	seen := m.Observed.Facets[site.FacetNetwork]
	if !serves[site.FacetNetwork] || m.Recorded.UnderWay() > 0 || m.Observed.Facets[site.FacetPower].Have["state"] == "off" || !AsDesigned(n, site.FacetNetwork, seen) {
		return nil
	}
	for _, field := range slices.Sorted(maps.Keys(seen.Have)) {
		if id, ok := item.AskedOf(field); ok {
			notes = append(notes, "the interface "+id+": "+seen.Have[field])
		}
	}
	return notes
}

// loginNote tells of a system that is set up for certificates, and that none has opened.
func loginNote(m site.Memory) []string {
	l := m.Observed.Login
	if l == nil || l.Refused == "" || !slices.Contains(m.Observed.Facets[site.FacetBase].Owned, item.KindSSH) {
		return nil
	}
	return []string{"Slipway logs in by the credential, since no certificate opens the system, although it is set up for that; `slipway why` says why"}
}

// unlistedNotes tell of units that start with the system and that the design does not name, where
// it asks for that.
func unlistedNotes(n *site.Node, m site.Memory, serves map[site.Facet]bool) []string {
	seen := m.Observed.Facets[site.FacetConfig]
	if !serves[site.FacetConfig] || seen.Seen.IsZero() || m.Recorded.UnderWay() > 0 || n.UnlistedIn(seen.Family(n)) != site.UnlistedReport {
		return nil
	}
	if why := seen.Unread[item.KindUnlisted]; why != "" {
		return []string{"it is unknown which units start with the system and are not in the design: " + why}
	}
	units, _ := seen.UnlistedUnits(n)
	var names []string
	for _, u := range units {
		if u.Package != "" {
			u.Name += " of the package " + u.Package
		}
		names = append(names, u.Name)
	}
	const then = "add %s to `system.units`, or set `system.unlisted.units: \"disable\"` and Slipway disables %s"
	switch len(units) {
	case 0:
		return nil
	case 1:
		return []string{names[0] + " starts with the system and is not in the design; " + fmt.Sprintf(then, "it", "it")}
	}
	const most = 20
	if more := len(names) - most; more > 0 {
		names = append(names[:most], fmt.Sprintf("and %d more", more))
	}
	return []string{fmt.Sprintf("%d units start with the system and are not in the design: %s; ", len(units), strings.Join(names, ", ")) + fmt.Sprintf(then, "them", "them")}
}

// insideNotes reports problems that the installed system reports about itself.
func insideNotes(in *site.Inside) []string {
	var notes []string
	if in == nil {
		return nil
	}
	if names := someOf(in.FailedUnits); len(in.FailedUnits) == 1 {
		notes = append(notes, "inside, the unit "+names+" has failed; systemctl status on the node says why")
	} else if names != "" {
		notes = append(notes, "inside, "+strconv.Itoa(len(in.FailedUnits))+" units have failed: "+names+"; systemctl status on the node says why")
	}
	var full []string
	for _, m := range in.Mounts {
		if m.NearlyFull() {
			full = append(full, m.Path)
		}
	}
	if len(full) == 1 {
		notes = append(notes, "inside, the file system at "+full[0]+" is at least 95 % full")
	} else if len(full) > 1 {
		notes = append(notes, fmt.Sprintf("inside, %d file systems are at least 95 %% full: %s", len(full), someOf(full)))
	}
	return notes
}

// zeroizeNote reports the progress of a decommissioned virtual machine.
func zeroizeNote(n *site.Node, m site.Memory) string {
	switch stateOf(m.Observed) {
	case site.StateAbsent:
		return "decommissioned: its machine is gone" + on(n) + ", and it may be removed from the design"
	case site.StateForeign:
		if !isGone(m) {
			return "decommissioned: a machine with its name or UUID exists" + on(n) + ", which may be its own"
		}
		return "decommissioned, and it may be removed from the design; the machine of that name is not Slipway's and stays"
	}
	return "decommissioned: Slipway deletes its machine with all disks"
}

// manager names what a node's manager endpoint leads to.
func manager(n *site.Node) string {
	if n.IsVirtual() {
		return "hypervisor's"
	}
	return "BMC"
}

// someOf names a few, and says how many more there are.
func someOf(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// imageNote reports an image that changed without a new generation.
func imageNote(s *site.Site, n *site.Node, m site.Memory) []string {
	i := m.Recorded.Installed
	if i == nil || n.Image == "" || n.Generation != i.Generation || s.Images[n.Image] == nil {
		return nil
	}
	if designed := s.Images[n.Image].For(n.Name, n.Generation).SHA256; designed == "" || designed == i.Image {
		return nil
	}
	return []string{fmt.Sprintf("image %s has changed since generation %d was installed; raise the generation to install it", n.Image, i.Generation)}
}

// moveNote says what moving the name to another machine implies.
func moveNote(n *site.Node, m site.Memory) string {
	text := fmt.Sprintf("the name moves from %s to %s: first contact begins again, and approvals for the old machine do not count", full(m.Recorded.Adopted.Machine), full(n.Moved))
	if g := m.Recorded.Generation(); g > 0 {
		text += fmt.Sprintf(", generation %d is expected on its disks, so Slipway installs nothing; raise the generation if they are blank", g)
	}
	return text
}
