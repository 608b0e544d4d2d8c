package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/layout"
	"github.com/slipway-gitops/slipway/engine/site"
)

// startStep starts Slipway's agent in the memory of a machine. It erases nothing, and runs only
// while the installation that follows is permitted.
func startStep(n *site.Node, m site.Memory, generation int) site.Step {
	return site.Step{
		Node: n.Name, Machine: n.Machine(), Facet: site.FacetImage, Action: startKind.Action,
		Changes: []site.Change{{Field: "image.agent", Have: "absent", Want: "connected"}},
		Impact:  startKind.Impact, Expect: startKind.Expect, Generation: generation, Undo: startKind.Undo,
		Reason: "Slipway's agent installs the image from the memory of the machine; " + startedBy(n.References.Start),
		Unseen: unseen(m) || m.Recorded.UnderWay() > 0,
	}
}

// startedBy says how the agent is started, and which trust an installation reaches that way.
func startedBy(by site.Start) string {
	if by == site.StartNetwork {
		return fmt.Sprintf("it starts over the network, with the trust %q: whoever controls the network could pose as the daemon or the machine", by.Reaches())
	}
	return fmt.Sprintf("it starts from virtual media, with the trust %q", by.Reaches())
}

// Hearing is how long Slipway asks the machine's system before it boots the machine from its disk,
// once it no longer waits for the agent.
const Hearing = 10 * time.Minute

// leavesMemory reports whether a machine that runs the agent, or is off, is to boot from its disk
// without an installation: the design no longer asks for one, or nobody approved it while the agent
// waited for long.
func leavesMemory(s *site.Site, n *site.Node, m site.Memory) bool {
	b := m.Recorded.Agent
	switch {
	case b == nil || b.Started.IsZero():
		return false // the machine was not seen to boot from the medium
	case unheard(m):
		return false // the machine may run its system: see unheardNote
	case wanted(n) <= Generation(n, m):
		return true
	case b.IsOn() && !b.Idle:
		return false
	}
	return !permitted(installStep(s, n, m), n, m)
}

// unheard reports whether the machine is on and its agent was started but is not connected. The agent
// may not have called because the machine booted from its disk instead. An agent that lost the daemon
// leaves memory by itself at an unknown time: the machine may be in service again.
func unheard(m site.Memory) bool {
	b := m.Recorded.Agent
	return b != nil && !b.Started.IsZero() && !m.Observed.Agent.IsConnected() && m.Observed.Facets[site.FacetPower].Have["state"] != "off"
}

// unheardNote reports such a machine if nobody wants the agent there any more.
func unheardNote(n *site.Node, m site.Memory) []string {
	if !unheard(m) || m.Recorded.Agent.IsOn() || m.Recorded.UnderWay() > 0 || wanted(n) > Generation(n, m) || m.Observed.Facets[site.FacetOS].Seen.After(m.Recorded.Agent.Started) {
		return nil
	}
	b := m.Recorded.Agent
	what := "no agent has called"
	if b.Key != "" {
		what = "the connection to it is lost; the agent then boots the machine from its disk"
	}
	return []string{fmt.Sprintf("Slipway's agent was started at %s, and %s; Slipway does not change the machine: if its console shows that it is not in its system, restart it", b.Started.UTC().Format(time.DateTime)+"Z", what)}
}

// WantsAgent reports whether the design asks for what an agent was started for, and whether that is
// permitted or has begun.
func WantsAgent(s *site.Site, n *site.Node, m site.Memory) bool {
	switch {
	case m.Recorded.Quarantined != nil:
		return false
	case m.Recorded.UnderWay() > 0 || m.Recorded.EraseBegun():
		return true
	case retires(s, n, m) && !HasRetired(n, m.Recorded):
		return permitted(retireStep(s, n, m), n, m)
	case leftAlone(s, n, m) || !n.References.ByAgent || wanted(n) <= Generation(n, m):
		return false
	}
	return permitted(installStep(s, n, m), n, m)
}

// Layout returns what the disks of a machine become in an installation by the agent, as the agent
// last reported them, or why they do not fit the design. It is known only if an agent started for
// this generation reported the disks: those of an earlier report may have been replaced. For a
// machine that leaves the design, pass the node that site.Step.Of returns.
func Layout(n *site.Node, o site.Observed) (l item.Layout, wrong []site.Finding, known bool) {
	switch {
	case o.Agent == nil || o.Agent.Seen.IsZero():
		return item.Layout{}, nil, false
	case o.Agent.Generation != n.Generation || !n.References.ByAgent && !isRetiring(n):
		return item.Layout{}, nil, false
	}
	l, wrong = layout.Of(n, o.Agent.Disks)
	return l, wrong, true
}

// isRetiring reports whether a node is one that site.Node.Retiring returned.
func isRetiring(n *site.Node) bool { return n.Retires() && n.Generation == 0 }

// unfit says why the disks that a connected agent sees cannot become what is designed.
func unfit(n *site.Node, m site.Memory) (why []string) {
	_, wrong, known := Layout(n, m.Observed)
	if !known || !m.Observed.Agent.IsConnected() || m.Recorded.Agent != nil && m.Recorded.Agent.Idle {
		return nil
	}
	for _, f := range wrong {
		place := ""
		if f.File != "" {
			place = fmt.Sprintf("%s:%d: ", f.File, f.Line)
		}
		why = append(why, fmt.Sprintf("%s%s. %s Nothing was erased. %s", place, f.Message, f.Why, f.Fix))
	}
	return why
}

// erases says what an installation by the agent erases, in the design's names. Which disks these
// are is known once the agent has looked. People approve the machine's disks by serial number.
func erases(n *site.Node) string {
	var erased, kept []string
	for _, name := range slices.Sorted(maps.Keys(n.Storage.Disks)) {
		if n.Storage.Disks[name].Keep {
			kept = append(kept, name)
		} else {
			erased = append(erased, name)
		}
	}
	text := fmt.Sprintf("everything on the design's disks %s (some of this machine's disks)", strings.Join(erased, ", "))
	if len(erased) == 1 {
		text = fmt.Sprintf("everything on the design's disk %s (one of this machine's disks)", erased[0])
	}
	if n.Storage.Erase != "" {
		text += ", erased so that it cannot be read again"
	}
	if len(kept) > 0 {
		text += "; kept: " + strings.Join(kept, ", ")
	}
	return text + "; layout " + LayoutDigest(n)[:8]
}

// makes says what the disks become, one line per disk, array and volume group. The serial numbers
// are those that the agent reported last.
func makes(n *site.Node, o site.Observed) (lines []string) {
	l, wrong, known := Layout(n, o)
	which := func(entry string) string {
		if !known || len(wrong) > 0 {
			return ""
		}
		var ids []string
		for _, d := range l.Disks {
			if number, set := strings.CutPrefix(d.Name, entry+"-"); d.Name == entry || set && strings.Trim(number, "0123456789") == "" {
				ids = append(ids, fmt.Sprintf("%s, %s", item.DiskID(d.Serial, d.WWN), item.Bytes(d.Bytes)))
			}
		}
		return " (" + strings.Join(ids, "; ") + ")"
	}
	for _, name := range slices.Sorted(maps.Keys(n.Storage.Disks)) {
		d := n.Storage.Disks[name]
		var parts []string
		for _, p := range slices.Sorted(maps.Keys(d.Partitions)) {
			part := d.Partitions[p]
			parts = append(parts, strings.TrimSpace(p+" "+used(part.Use)))
		}
		text := cmp.Or(strings.Join(parts, ", "), used(d.Use), "nothing")
		switch {
		case d.Keep:
			text = "kept: " + text
		case n.References.WholeDisk:
			text = "the image " + n.Image + " of a whole disk"
		}
		lines = append(lines, "disk "+name+which(name)+": "+text)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Storage.Arrays)) {
		a := n.Storage.Arrays[name]
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("array %s: %s %s", name, a.Level, used(a.Use))))
	}
	for _, name := range slices.Sorted(maps.Keys(n.Storage.Groups)) {
		var volumes []string
		g := n.Storage.Groups[name]
		for _, v := range slices.Sorted(maps.Keys(g.Volumes)) {
			volumes = append(volumes, strings.TrimSpace(v+" "+used(g.Volumes[v].Use())))
		}
		lines = append(lines, "volume group "+name+": "+strings.Join(volumes, ", "))
	}
	return append(lines, stays(n, o)...)
}

// used says what something on a disk is for: "ext4 on /var, encrypted (opened by the TPM)".
func used(u site.Use) string {
	switch clear := (site.Use{Filesystem: u.Filesystem, Group: u.Group, Array: u.Array}); u.Encrypt {
	case item.OpenedByTPM:
		return used(clear) + ", encrypted (opened by the TPM)"
	case item.OpenedAtConsole:
		return used(clear) + ", encrypted (opened at the console: a person types the passphrase at each start)"
	}
	switch {
	case u.Array != "":
		return "in the array " + u.Array
	case u.Group != "":
		return "in the volume group " + u.Group
	case u.Filesystem == nil:
		return ""
	case u.Filesystem.Mount == "":
		return cmp.Or(u.Filesystem.Type, "ext4")
	}
	return cmp.Or(u.Filesystem.Type, "ext4") + " on " + u.Filesystem.Mount
}

// erasedBy returns the disks that an installation by the agent erases, as the agent last reported
// them. Empty means unknown.
func erasedBy(n *site.Node, o site.Observed) []item.Destroyed {
	l, wrong, known := Layout(n, o)
	if !known || len(wrong) > 0 {
		return nil
	}
	return l.Destroys
}

// erasedName is the name of an erased disk in Loss.Disks, as the agent reported it.
func erasedName(d item.Destroyed) string { return site.DiskName(item.DiskID(d.Serial, d.WWN)) }

// covers reports whether approved disks, as disksOf writes them, include all the given disks. Each
// approved entry covers one disk, so a repeated serial number needs repeated approval. An entry
// with a WWN covers only that disk; BMCs report no WWN. Unknown disks cover none.
func covers(approved string, disks []item.Destroyed) bool {
	if len(disks) == 0 || approved == "" || approved == site.DisksUnknown {
		return false
	}
	names := slices.DeleteFunc(strings.Split(approved, ", "), func(name string) bool { return name == site.DisksUnread })
	for _, by := range []func(item.Destroyed) string{erasedName, func(d item.Destroyed) string { return site.DiskName(d.Serial) }} {
		disks = slices.DeleteFunc(slices.Clone(disks), func(d item.Destroyed) bool {
			i := slices.IndexFunc(names, func(name string) bool { return name != "" && strings.EqualFold(name, by(d)) })
			if i >= 0 {
				names = slices.Delete(names, i, i+1)
			}
			return i >= 0
		})
	}
	return len(disks) == 0
}

// approvedFor reports whether approved disks include those that a step of the agent erases. For a
// machine that leaves the design, the agent must also see all approved disks: an unseen disk would
// leave with its data and count as erased. Where the design keeps a disk, they must be the erased ones alone: the list of
// a BMC has the kept disk too, and would cover it once it is found where another one was.
//
// While the agent that is started for an approval has not reported yet, it stands if it is for what the agent before saw:
// a BMC may list none of that. Where the design keeps a disk it also stands if the BMC lists its disks.
func approvedFor(approved string, n *site.Node, o site.Observed) bool {
	if _, _, known := Layout(n, o); !known {
		before := o
		if before.Agent = o.Agent.LastReport(); before.Agent != o.Agent && before.Agent != nil && approvedFor(approved, n, before) {
			return true
		}
		return keeps(n) && listed(approved, o)
	}
	erased := erasedBy(n, o)
	if !covers(approved, erased) || isRetiring(n) && len(unseenOf(strings.Split(approved, ", "), o)) > 0 {
		return false
	}
	return !keeps(n) || len(strings.Split(approved, ", ")) == len(erased)
}

// listed reports whether a BMC lists all approved disks.
func listed(approved string, o site.Observed) bool {
	if approved == "" || approved == site.DisksUnknown || o.Disks == nil {
		return false
	}
	return !slices.ContainsFunc(strings.Split(approved, ", "), func(name string) bool {
		return !slices.ContainsFunc(o.Disks.Serials, func(serial string) bool { return SameDisk(name, serial) })
	})
}

// keeps reports whether the design keeps a disk of the machine.
func keeps(n *site.Node) bool {
	for _, d := range n.Storage.Disks {
		if d.Keep {
			return true
		}
	}
	return false
}

// UnseenDisks returns the disks that the machine's BMC reports and its agent does not see.
func UnseenDisks(o site.Observed) []string {
	if o.Disks == nil || o.Agent == nil {
		return nil
	}
	return unseenOf(o.Disks.Serials, o)
}

func unseenOf(names []string, o site.Observed) (unseen []string) {
	for _, name := range names {
		if name != site.DisksUnread && !slices.ContainsFunc(o.Agent.Disks, func(d item.Disk) bool {
			return SameDisk(name, site.DiskName(d.Serial)) || strings.EqualFold(name, site.DiskName(d.ID()))
		}) {
			unseen = append(unseen, name)
		}
	}
	return unseen
}

// asApproved returns the open approval of an installation by the agent that covers its loss and
// otherwise equals it, or else the loss itself. An approval for the disks that the BMC reports
// covers those of them that the agent finds, and what may be broken need not be.
func asApproved(loss site.Loss, n *site.Node, m site.Memory) site.Loss {
	breaks, known := brokenBy(n, m.Observed)
	for _, e := range m.Account.Entries {
		same := loss
		same.Breaks, same.Attempt, same.Records = e.Loss.Breaks, e.Loss.Attempt, e.Loss.Records
		if approvedFor(e.Loss.Disks, n, m.Observed) {
			same.Disks = e.Loss.Disks
		}
		same.Lost += alsoLost(same.Breaks)
		if e.IsOpen() && same == e.Loss && (!known || includesBroken(e.Loss.Breaks, breaks)) {
			return e.Loss
		}
	}
	loss.Breaks = breaks
	loss.Lost += alsoLost(breaks)
	return loss
}

// NotApproved says what an installation by the agent would now destroy without approval for its
// step; empty for nothing. The argument begun is what the design asked for when it began. It serves
// steps from an earlier version of Slipway, which name no layout.
func NotApproved(s site.Step, begun map[string]string, n *site.Node, o site.Observed) string {
	n = s.Of(n)
	if s.Layout != LayoutDigest(n) && (s.Layout != "" || !sameLayout(n, begun)) {
		return "the design asks for other disks than when this installation began, and the earlier ones were approved"
	}
	if disks := Disks(s, n, o); disks != s.Disks {
		return fmt.Sprintf("the disks to erase are now %s, and %s were approved", disks, s.Disks)
	}
	if breaks, _ := brokenBy(n, o); !includesBroken(s.Breaks, breaks) {
		return fmt.Sprintf("it would break %s, of which other disks have parts, and that was not approved", breaks)
	}
	return ""
}

// storageDesign is the key of the designed disks in FirstBoot.Design.
const storageDesign = "storage"

// LayoutDigest is the SHA-256 digest of what the design asks of the disks. Approvals contain it: a
// design that asks for other disks, or keeps fewer, needs a new approval.
func LayoutDigest(n *site.Node) string {
	text, err := json.Marshal(struct {
		Storage site.Storage
		Devices map[string]site.Device
	}{n.Storage, n.Hardware.Devices})
	if err != nil {
		panic(err) // only values, so it cannot fail
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// LaidOut returns a digest of what the design asks of the disks, for FirstBoot.Design, and whether a
// person opens them at each start. Its 64 bits only show that the design was edited; they permit nothing.
func LaidOut(n *site.Node) map[string]string {
	design := map[string]string{storageDesign: LayoutDigest(n)[:16]}
	if OpenedAtConsole(n) {
		design[consoleDesign] = "a person types the passphrase"
	}
	return design
}

// sameLayout reports whether the design asks of the disks what it did when the digest was taken.
func sameLayout(n *site.Node, design map[string]string) bool {
	return design[storageDesign] == LaidOut(n)[storageDesign]
}

// editedSinceLaidOut reports a design that asks for other disks than the agent's installation made.
func editedSinceLaidOut(n *site.Node, i *site.Installation) []string {
	if i.FirstBoot.Design[storageDesign] == "" || sameLayout(n, i.FirstBoot.Design) {
		return nil
	}
	return []string{"storage (edited since the installation; only an installation lays out disks: raise the generation to install again)"}
}

// agentNote says that this daemon cannot install a node's image by the agent.
func agentNote(n *site.Node, serves map[site.Facet]bool) []string {
	if !n.References.ByAgent || wanted(n) == 0 || len(serves) == 0 || serves[site.FacetStorage] {
		return nil
	}
	return []string{fmt.Sprintf("image %s is installed by Slipway's agent, and this daemon listens to no agents: it installs nothing on this node until it runs with --ramdisk FILE", n.Image)}
}

// hostKeyNote says that the design's SSH host keys differ from those made when the machine was
// installed.
func hostKeyNote(n *site.Node, m site.Memory) []string {
	designed, made := n.Endpoints[site.OS].Trust.HostKeys, m.Recorded.HostKeys()
	if n.References.ByAgent && len(designed) > 0 && wanted(n) > max(Generation(n, m), m.Recorded.UnderWay()) {
		return []string{"the installation makes new SSH host keys, and Slipway trusts only those in the design: remove endpoints.os.trust.hostKeys, or Slipway cannot log in to the new system"}
	}
	if n.IsVirtual() || len(designed) == 0 || len(made) == 0 || slices.ContainsFunc(made, func(k string) bool { return slices.Contains(designed, k) }) {
		return nil
	}
	return []string{fmt.Sprintf("the design names other SSH host keys than those made when the machine was installed, and Slipway trusts only the designed ones; if you did not intend that, write endpoints: os: trust: hostKeys: [%q]", made[0])}
}
