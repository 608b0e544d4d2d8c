package rule

import (
	"fmt"
	"regexp"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

var holds = []Rule{
	{
		Code: "paused-decommission", Severity: site.SeverityWarning,
		What:  "A node to be decommissioned is not paused.",
		Why:   "Slipway does not change a paused machine, so the removal waits until the pause ends.",
		Wrong: `nodes: "n1": {decommission: true, paused: {by: "mw", reason: "disk swap", until: "2026-03-01T18:00:00Z"}}`,
		Right: `nodes: "n1": decommission: true`,
		Node: func(_ *site.Site, n *site.Node) []site.Finding {
			if n.Paused == nil || !n.Decommission {
				return nil
			}
			return []site.Finding{wrong("paused.by",
				fmt.Sprintf("the node %s is paused and to be decommissioned", n.Name), "Remove one of the two.")}
		},
	},
	endlessPause, outdatedApproval,
	{
		Code: "decommission-erase", Severity: site.SeverityError, Firm: true,
		What:  "A node whose disks are erased before it leaves has a physical machine with a UUID or a serial number, a BMC that starts it, UEFI, and a disk in its storage that is not kept.",
		Why:   "The BMC starts Slipway's agent by UEFI, and the agent erases only the disks that the design describes, on only that machine. The disks would leave with all that is on them.",
		Wrong: `nodes: "n1": decommission: erase: "secure"`,
		Right: `nodes: "n1": {decommission: {erase: "secure"}, boot: mode: "uefi", storage: disks: os: match: kind: "ssd"}`,
		Node:  decommissionErase,
	},
	{
		Code: "disabled-decommission", Severity: site.SeverityWarning,
		What:  "A node to be decommissioned is in use and not away, and its role is in use.",
		Why:   "Slipway does not change the machine of a node that is disabled or away, so it does not decommission it.",
		Wrong: `nodes: "n3": {enabled: false, decommission: true}`,
		Right: `nodes: "n3": {enabled: true, decommission: true}`,
		Node: func(s *site.Site, n *site.Node) []site.Finding {
			if !n.Decommission || working(n) && !disabled(s, n.Role) {
				return nil
			}
			return []site.Finding{wrong("decommission",
				fmt.Sprintf("the node %s is to be decommissioned, and %s", n.Name, idle(n)),
				"Put it in use until it is decommissioned, or remove decommission.")}
		},
	},
	{
		Code: "disabled-installation", Severity: site.SeverityNote,
		What:  "A node with a generation is in use, and so is its role.",
		Why:   "Nothing is installed on a machine that is not in use. If the generation is still to be installed, that will be done as soon as the node is enabled again.",
		Wrong: `nodes: "n3": {enabled: false, generation: 2}`,
		Right: `nodes: "n3": {enabled: true, generation: 2}`,
		Node: func(s *site.Site, n *site.Node) []site.Finding {
			if n.Generation == 0 || n.InUse() && !disabled(s, n.Role) {
				return nil
			}
			return []site.Finding{wrong("generation",
				fmt.Sprintf("the generation %d of %s is not installed: %s", n.Generation, n.Name, idle(n)),
				"Enable it, or take generation away until it is to be installed again.")}
		},
	},
	{
		Code: "invalid-approval", Severity: site.SeverityError,
		What:  "The name of an entry in `approvals` is the digest of what would be destroyed.",
		Why:   "It approves nothing, although it looks as if it did.",
		Wrong: `approvals: "compute-1": by: "mw"`,
		Right: `approvals: "9f2c81ab44e07d359f2c81ab44e07d35": by: "mw"`,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Approvals) {
				if !site.IsDigest(key) && !outdated.MatchString(key) {
					found = append(found, wrong("approvals."+key+".by",
						fmt.Sprintf("%q does not have the form of a digest", key),
						"Copy the 32 hex digits that the plan and the status name."))
				}
			}
			return found
		},
	},
}

var endlessPause = Rule{
	Code: "pause-endless", Severity: site.SeverityNote,
	What:  "A pause says when it ends, in 90 days at most.",
	Why:   "A machine that stays paused misses every change, and gets all of them at once when the pause ends.",
	Wrong: `nodes: "n1": paused: {by: "mw", reason: "disk swap"}`,
	Right: `nodes: "n1": paused: {by: "mw", reason: "disk swap", until: "2026-03-01T18:00:00Z"}`,
	Node: func(_ *site.Site, n *site.Node) []site.Finding {
		if n.Paused == nil || n.Paused.By == "" || n.Paused.Reason == "" || states(n, "paused.until") || n.Decommission {
			return nil
		}
		return []site.Finding{wrong("paused", fmt.Sprintf("the pause of %s has no end", n.Name),
			`Set paused.until, as in "2026-08-01T18:00:00Z"; it can be prolonged.`)}
	},
}

// longestPause is how far ahead a pause may end.
const longestPause = 90 * 24 * time.Hour

// LongPauses notes the pauses that end too late. This part of pause-endless needs a clock,
// which a check does not have.
func LongPauses(nodes map[string]*site.Node, now time.Time) []site.Finding {
	var found []site.Finding
	for _, n := range nodes {
		if n.Paused == nil || n.Decommission || !n.Paused.Until.After(now.Add(longestPause)) {
			continue
		}
		f := wrong("paused.until", fmt.Sprintf("the pause of %s ends on %s, in more than 90 days", n.Name, n.Paused.Until.Format(time.DateOnly)),
			"Let it end sooner; it can be prolonged.")
		f.Node = n.Name
		endlessPause.complete(&f, n.Origins.Of("paused.until"))
		found = append(found, f)
	}
	return found
}

// outdated matches digests of Slipway versions in which approvals were not used up.
var outdated = regexp.MustCompile(`^[0-9a-f]{16}$`)

var outdatedApproval = Rule{
	Code: "approval-outdated", Severity: site.SeverityWarning,
	What:  "An approval has a digest of 32 digits.",
	Why:   "Digests of 16 digits are of an older version of Slipway and approve nothing.",
	Wrong: `approvals: "9f2c81ab44e07d35": by: "mw"`,
	Right: `approvals: {}`,
	Site: func(s *site.Site) (found []site.Finding) {
		for _, key := range keys(s.Approvals) {
			if outdated.MatchString(key) {
				found = append(found, wrong("approvals."+key+".by", fmt.Sprintf("the approval %s no longer approves anything", key),
					"Remove the line. What still waits for an approval has a new digest: see slipway status."))
			}
		}
		return found
	},
}

// working reports whether a node is in use and its machine is not away.
func working(n *site.Node) bool { return n.InUse() && n.Away == "" }

// idle says why Slipway leaves the machine of a node alone.
func idle(n *site.Node) string {
	switch {
	case !n.InUse():
		return "it is not enabled"
	case n.Away != "":
		return "its machine is away: " + n.Away
	}
	return fmt.Sprintf("its role %s is not enabled", n.Role)
}

// decommissionErase checks what is needed to erase the disks of a machine that leaves the
// design.
func decommissionErase(_ *site.Site, n *site.Node) (found []site.Finding) {
	if !n.Decommission || n.DecommissionErase == "" {
		return nil
	}
	object := func(path, message, fix string) { found = append(found, wrong(path, message, fix)) }
	const at = "decommission.erase"
	if n.IsVirtual() {
		object(at, fmt.Sprintf("the node %s is a virtual machine, whose disks are deleted with it", n.Name),
			`Write decommission: true, and virtual: erase: "wipe" if the disks are to be overwritten first.`)
		return found
	}
	if m := n.Machine(); m.UUID == "" && m.Serial == "" {
		object(at, fmt.Sprintf("the disks are erased by Slipway's agent, and the node %s names neither the UUID nor the serial number of its machine", n.Name),
			"Write identity: uuid or identity: serial; `slipway discover` shows them.")
	}
	if _, ok := n.Endpoints[site.Manager]; !ok && !states(n, "endpoints.manager") {
		object(at, fmt.Sprintf("the disks are erased by Slipway's agent, which the BMC starts, and the node %s has no BMC", n.Name),
			"Write endpoints: manager, or decommission: true, and erase the disks yourself.")
	}
	if n.Boot.Mode == "bios" {
		object("boot.mode", "the disks are erased by Slipway's agent, which starts by UEFI, and the machine boots by BIOS",
			`Write mode: "uefi", or decommission: true, and erase the disks yourself.`)
	}
	erased := false
	for _, name := range keys(n.Storage.Disks) {
		d := n.Storage.Disks[name]
		erased = erased || !d.Keep
		if d.Match == nil && d.Device == "" && !states(n, "storage.disks."+name+".match") && !states(n, "storage.disks."+name+".device") {
			object("storage.disks."+name, fmt.Sprintf("nothing says how to find the disk %s: it has neither match nor device", name), "Write match or device.")
		}
	}
	if !erased && (len(n.Storage.Disks) > 0 || !states(n, "storage.disks")) {
		object(at, fmt.Sprintf("no disk of %s would be erased: its storage names none, or keeps them all", n.Name),
			`Name each disk that is to be erased in storage.disks, such as storage: disks: every: {match: minSize: "1GB", count: "all"}, and remove keep.`)
	}
	return found
}
