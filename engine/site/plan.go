package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// PlanVersion is the version of the plan's JSON form.
const PlanVersion = 1

// Impact is the effect of a step on the service of its machine.
type Impact int

// The impacts, least first.
const (
	ImpactNone        Impact = iota // nothing a workload could notice
	ImpactOnline                    // changes a running machine without interrupting it, or powers it on
	ImpactInterrupts                // the machine stays on; services on it restart or stop, or its network is configured again
	ImpactReboot                    // the machine is out of service for a while or stays off
	ImpactDestructive               // can lose data on the machine
)

var impactNames = []string{"none", "online", "interrupts", "reboot", "destructive"}

func (i Impact) String() string { return impactNames[i] }

// MarshalText writes the impact's name.
func (i Impact) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads the impact's name.
func (i *Impact) UnmarshalText(text []byte) error {
	if n := slices.Index(impactNames, string(text)); n >= 0 {
		*i = Impact(n)
		return nil
	}
	return &json.UnsupportedValueError{Str: "impact " + string(text)}
}

// Action is what a step does, in one word that drivers understand.
type Action string

// The actions.
const (
	ActionPowerOn   Action = "power-on"
	ActionPowerOff  Action = "power-off"
	ActionBootOrder Action = "boot-order"
	// ActionStartAgent powers the machine off, inserts the medium of Slipway's agent and boots it
	// once. A step without an image boots once over the network. It has succeeded when the machine
	// runs the agent's system. It erases nothing, and needs the same permission as the installation
	// that follows.
	ActionStartAgent Action = "start-agent"
	// ActionInstall powers the machine off, inserts the image and boots it once. It has succeeded
	// when the machine runs from the image. The agent installs an image of a root file system or a
	// whole disk; then it has succeeded when the agent has read the system back from the disks.
	ActionInstall Action = "install"
	// ActionFinishInstall ejects the image, or the medium of the agent, and boots from disk. It is
	// planned after the installer has powered the machine off, or the agent has installed.
	ActionFinishInstall Action = "finish-install"
	// ActionRestart reboots the machine, so that pending changes take effect.
	ActionRestart Action = "restart"
	// These bring one facet to the design. Firmware and BIOS changes may be pending until the
	// machine reboots.
	ActionFirmware Action = "update-firmware"
	ActionBIOS     Action = "set-bios"
	ActionAccounts Action = "set-accounts"
	ActionBase     Action = "apply-base"
	ActionNetwork  Action = "apply-network"
	ActionPackages Action = "install-packages"
	ActionConfig   Action = "apply-config"
	ActionKernel   Action = "set-kernel"
	// ActionOnce runs a boot action of the installation.
	ActionOnce Action = "boot-action"
	// ActionDefine brings the definition of a virtual machine to the design. Changes that a running
	// machine takes over only at boot stay pending until then.
	ActionDefine Action = "define"
	// ActionDisks adds disks to a virtual machine and grows them. It never removes or shrinks a
	// disk.
	ActionDisks Action = "set-disks"
	// ActionRemoveSeed removes the seed of a virtual machine's first boot, once its system has
	// proven itself.
	ActionRemoveSeed Action = "remove-seed"
	// ActionZeroize deletes a virtual machine and everything it has. On a physical machine,
	// Slipway's agent erases the disks that the design names.
	ActionZeroize Action = "zeroize"
	// ActionFinishErase ejects the medium of the agent that has erased the disks, and leaves the
	// machine off.
	ActionFinishErase Action = "finish-erase"
)

// Change is one field that differs.
type Change struct {
	Field  string `json:"field"`
	Have   string `json:"have"`
	Want   string `json:"want"`
	Origin Origin `json:"origin,omitzero"`
	// Intent is the design's name for the field, if that differs.
	Intent string `json:"intent,omitempty"`
}

// Name returns the field for people, with the intent that it comes from.
func (c Change) Name() string {
	if c.Intent == "" {
		return c.Field
	}
	return c.Field + " (" + c.Intent + ")"
}

// Step is one action on one node for one facet.
type Step struct {
	Node string `json:"node"`
	// Machine is the machine that the step was planned for. A driver refuses any other machine.
	Machine Identity `json:"machine,omitzero"`
	Facet   Facet    `json:"facet"`
	Action  Action   `json:"action"`
	Changes []Change `json:"changes,omitempty"`
	Impact  Impact   `json:"impact"`
	Reason  string   `json:"reason"`
	// Expect is how long the step is expected to take.
	Expect Duration `json:"expect"`
	// Phase is the phase of the node's role that the step belongs to; empty for a role without
	// phases.
	Phase string `json:"phase,omitempty"`
	// Undo says how the step can be undone, or that it cannot be.
	Undo string `json:"undo,omitempty"`
	// Drift means that the facet once was as designed now: the machine has changed, not the design.
	Drift bool `json:"drift,omitempty"`
	// Renewal means that the step only replaces what Slipway signed, on a machine that has what it was given. Time
	// is the cause, not the machine.
	Renewal bool `json:"renewal,omitempty"`
	// Maybe marks a restart that the steps before it may make unnecessary. Until then it counts
	// like any other.
	Maybe bool `json:"maybe,omitempty"`
	// Force switches the power off without asking the operating system.
	Force bool `json:"force,omitempty"`
	// Unseen marks an installation on a machine that is not known to run a system. The driver cuts
	// its power without waiting for a shutdown.
	Unseen bool `json:"unseen,omitempty"`
	// FromMemory marks a step that boots from disk while the machine may run Slipway's agent. The
	// agent has nothing to lose, so the driver cuts the power.
	FromMemory bool `json:"fromMemory,omitempty"`
	// AsSet powers a machine on with its present boot override and media, because a person has set
	// them. Without it, the driver first takes back whatever would boot an installer.
	AsSet bool `json:"asSet,omitempty"`
	// Image and Generation are set for the steps of an installation.
	Image      *Image `json:"image,omitempty"`
	Generation int    `json:"generation,omitempty"`
	// Loses says what a destructive step destroys on the machine. Breaks, Layout, Hypervisor, Disks,
	// Attempt and Records are those of its Loss. A hypervisor's driver deletes only volumes that
	// Disks names.
	Loses  string `json:"loses,omitempty"`
	Breaks string `json:"breaks,omitempty"`
	Layout string `json:"layout,omitempty"`
	// Makes says what becomes of the disks, one line each, if Slipway lays them out.
	Makes      []string `json:"makes,omitempty"`
	Hypervisor string   `json:"hypervisor,omitempty"`
	Disks      string   `json:"disks,omitempty"`
	Attempt    int      `json:"attempt,omitempty"`
	Records    string   `json:"records,omitempty"`
	// Owned is the digest of the list of what Slipway made on the machine, according to the
	// records.
	Owned string `json:"owned,omitempty"`
	// Remove are the keys of items that Slipway made and that left the design. Each is removed, or
	// restored to what was there before.
	Remove []string `json:"remove,omitempty"`
	// Rotates names the accounts of the BMC whose derived password the step replaces or sets. Its machine
	// counts as out of service meanwhile: if it went wrong, nobody could manage it.
	Rotates []string `json:"rotates,omitempty"`
	// Again retries a network change that was rolled back before, because a person asked for it.
	Again bool `json:"again,omitempty"`
	// Once is set for a boot action.
	Once *item.Once `json:"once,omitempty"`
	// Resumed is set by the engine if the step was begun before a restart. The driver joins the
	// work under way instead of starting over.
	Resumed bool `json:"resumed,omitempty"`
}

// TakesPlace reports whether the step needs a place in the bounds of a rollout: it takes its machine out of
// service, or replaces a password by which the machine is managed.
func (s Step) TakesPlace() bool { return s.Impact >= ImpactInterrupts || len(s.Rotates) > 0 }

// Endpoint returns the kind of endpoint that the step is taken through: that of its facet, or the
// agent for a step that the agent takes.
func (s Step) Endpoint() EndpointKind {
	if s.ByAgent() {
		return Agent
	}
	return Facets[s.Facet].Endpoint
}

// ByAgent reports whether Slipway's agent takes the step.
func (s Step) ByAgent() bool { return s.Action == ActionInstall && s.Image.ByAgent() || s.Retires() }

// Retires reports whether Slipway's agent erases the disks of a machine that leaves the design, and
// installs nothing.
func (s Step) Retires() bool { return s.Action == ActionZeroize && s.Facet == FacetStorage }

// OverNetwork reports whether the step starts the agent over the network, without a medium.
func (s Step) OverNetwork() bool { return s.Action == ActionStartAgent && s.Image == nil }

// Digest identifies what the step does, independent of time and revision.
func (s Step) Digest() string {
	var b strings.Builder
	b.WriteString(string(s.Facet) + " " + string(s.Action))
	if s.Force {
		b.WriteString(" force")
	}
	for _, c := range s.Changes {
		b.WriteString("\n" + c.Field + "\x00" + c.Have + "\x00" + c.Want)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:8])
}

// Summary returns the step's changes in one line.
func (s Step) Summary() string {
	parts := make([]string, 0, len(s.Changes))
	for _, c := range s.Changes {
		parts = append(parts, c.Name()+" "+orNone(c.Have)+" → "+orNone(c.Want))
	}
	return string(s.Action) + ": " + strings.Join(parts, ", ")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// NodePlan lists the steps of one node, in order.
type NodePlan struct {
	Node string `json:"node"`
	// Hypervisor is where a virtual machine is placed.
	Hypervisor string `json:"hypervisor,omitempty"`
	Steps      []Step `json:"steps,omitempty"`
	// Blocked says why nothing can be planned for a part of the node, in sentences: a wrong
	// identity, a lower generation.
	Blocked []string `json:"blocked,omitempty"`
	// Release says what ends the first of these blocks. It is empty if that takes a commit that
	// changes what the block names.
	Release string `json:"release,omitempty"`
	// Spent is set if one of these blocks is that Slipway has interrupted the machine as often as
	// it may for one cause.
	Spent bool `json:"spent,omitempty"`
	// Waiting says what is under way on the machine and only needs time.
	Waiting string `json:"waiting,omitempty"`
	// Running is the boot action whose command is running, if the node waits for it.
	Running *Running `json:"running,omitempty"`
	// Foreign says why the system on the machine is not the one that was installed. Only an
	// installation is planned then.
	Foreign string `json:"foreign,omitempty"`
	// Unproven says what the machine claims about its installation without proof. A person has to
	// accept the claim or to install again.
	Unproven string `json:"unproven,omitempty"`
	// Reported are differences that the design wants reported or proposed, and not repaired.
	Reported []string `json:"reported,omitempty"`
	// Amendments are the reported differences that the design wants proposed, by facet.
	Amendments []Amendment `json:"amendments,omitempty"`
	// Phase is the first phase of the node's role with something left to do. It is empty if the
	// node has gone through all.
	Phase string `json:"phase,omitempty"`
	// Expect is how long all steps together are expected to take.
	Expect Duration `json:"expect,omitempty"`
	// NotActedOn are the parts of the design, by path, that no driver acts on. The machine is not
	// brought to the design there, and nobody looks.
	NotActedOn []string `json:"notActedOn,omitempty"`
	// Notes are worth knowing and block nothing.
	Notes []string `json:"notes,omitempty"`
	// Findings are differences between the machine and the designed hardware, failing parts, and
	// network links that are not as designed. They block nothing.
	Findings []Finding `json:"findings,omitempty"`
	// Upgrades are the package upgrades that the plan makes; nil for none.
	Upgrades *Upgrades `json:"upgrades,omitempty"`
	// Seen is the time of the observation that the plan is based on; zero means that the machine
	// was never seen.
	Seen time.Time `json:"seen,omitzero"`
}

// Pends reports whether the node is not as designed, or not known to be: something is to be done, to be
// waited for or to be decided.
func (n NodePlan) Pends() bool {
	return len(n.Steps)+len(n.Blocked)+len(n.Reported) > 0 || n.Waiting != "" || n.Foreign != "" || n.Unproven != ""
}

// IsEmpty reports whether the plan has nothing for people to read.
func (n NodePlan) IsEmpty() bool {
	return !n.Pends() && len(n.NotActedOn)+len(n.Notes)+len(n.Findings) == 0
}

// Upgrades are the package upgrades that a plan makes, by the package lists that the system had
// when it was seen. The step fetches fresh lists.
type Upgrades struct {
	// Packages are sorted by name. More is how many further upgrades, of every level, the machine
	// did not name.
	Packages []item.Upgrade `json:"packages,omitempty"`
	More     int            `json:"more,omitempty"`
	// Restart says whether the machine restarts for the upgrades, For which packages decide that.
	Restart Restarts `json:"restart"`
	For     []string `json:"for,omitempty"`
	// Doubt says why there may be other upgrades; empty for no reason.
	Doubt string `json:"doubt,omitempty"`
}

// Restarts says whether a machine restarts for upgrades.
type Restarts string

// The values of Restarts.
const (
	RestartNo    Restarts = "no"
	RestartYes   Restarts = "yes"
	RestartMaybe Restarts = "maybe" // known only after the upgrades
	RestartNever Restarts = "never" // the upgrades need or may need a restart, and the design forbids it
)

// Running is a boot action whose command is running on a machine.
type Running struct {
	Action string `json:"action"` // its name
	// Phase is the phase of the node's role after which it is done.
	Phase string `json:"phase"`
	// Timeout is how long it may take.
	Timeout Duration `json:"timeout"`
}

// Plan is the ordered steps of a site at a revision.
type Plan struct {
	Version  int        `json:"version"`
	Site     string     `json:"site"`
	Revision string     `json:"revision"`
	Nodes    []NodePlan `json:"nodes"`
	// Removes are the nodes that the revision drops, with the reason for each that is held.
	Removes []Removal `json:"removes,omitempty"`
	// NotActedOn are the parts of the design outside the nodes, by path, that no driver acts on.
	NotActedOn []string `json:"notActedOn,omitempty"`
	// Forecast predicts how the plan will run; nil if nobody asked.
	Forecast *Forecast `json:"forecast,omitempty"`
}

// Forecast predicts how a plan will run under the rollout's rules, as far as that is possible.
type Forecast struct {
	// Makespan is the time from the first step to the end of the last.
	Makespan Duration `json:"makespan"`
	// Path is the critical path: what the makespan consists of, in order.
	Path []Stretch `json:"path,omitempty"`
	// Order are the nodes that change, by when they begin.
	Order []Stretch `json:"order,omitempty"`
	// Budget is the designed time for the rollout; 0 for none.
	Budget Duration `json:"budget,omitempty"`
	// Warnings say what the plan cannot keep and what would help: a budget, a window that is too
	// short.
	Warnings []string `json:"warnings,omitempty"`
	// Basis says what the durations are based on.
	Basis string `json:"basis,omitempty"`
}

// Stretch is one stretch of time in a forecast: of a node, or of a wait.
type Stretch struct {
	Node string `json:"node,omitempty"`
	// What is done, or waited for.
	What string `json:"what"`
	// From and To are relative to the beginning.
	From Duration `json:"from"`
	To   Duration `json:"to"`
}

// Removal is a node that left the design.
type Removal struct {
	Node    string   `json:"node"`
	Machine Identity `json:"machine,omitzero"`
	// Held says why the removal is not carried out; empty when it is.
	Held string `json:"held,omitempty"`
}

// Counts returns how many nodes change, and for how many of them the worst impact is a reboot or
// destruction.
func (p *Plan) Counts() (change, reboot, destructive int) {
	for _, n := range p.Nodes {
		worst := Impact(-1)
		for _, s := range n.Steps {
			worst = max(worst, s.Impact)
		}
		if worst >= 0 {
			change++
		}
		switch worst {
		case ImpactReboot:
			reboot++
		case ImpactDestructive:
			destructive++
		}
	}
	return change, reboot, destructive
}

// MayReboot is how many of the nodes that Counts counts as reboots may turn out to need none.
func (p *Plan) MayReboot() (count int) {
	for _, n := range p.Nodes {
		if n.MayRestart() {
			count++
		}
	}
	return count
}

// MayRestart reports whether the worst that happens to a node is a restart that may not be needed.
func (n NodePlan) MayRestart() bool {
	may := false
	for _, s := range n.Steps {
		if s.Impact >= ImpactReboot && !s.Maybe {
			return false
		}
		may = may || s.Maybe
	}
	return may
}

// Destroys returns the set of losses that the plan causes.
func (p *Plan) Destroys() Losses {
	var all Losses
	for _, n := range p.Nodes {
		for _, s := range n.Steps {
			if l, ok := s.Destroys(); ok {
				all = append(all, l)
			}
		}
	}
	return all
}

// Destroys returns the loss that the step causes, if any.
func (s Step) Destroys() (Loss, bool) {
	if s.Impact != ImpactDestructive {
		return Loss{}, false
	}
	loss := Loss{Node: s.Node, Machine: s.Machine, Hypervisor: s.Hypervisor, Action: s.action(), Lost: s.Loses, Breaks: s.Breaks, Layout: s.Layout, Generation: s.Generation,
		Disks: s.Disks, Attempt: s.Attempt, Records: s.Records}
	loss.Image = s.imageDigest()
	return loss, true
}

// imageDigest returns the digest of the image that the step installs, empty for none.
func (s Step) imageDigest() string {
	if s.Image == nil {
		return ""
	}
	return s.Image.SHA256
}

func (s Step) action() string {
	if s.Generation == 0 {
		return string(s.Action)
	}
	return fmt.Sprintf("%s generation %d", s.Action, s.Generation)
}
