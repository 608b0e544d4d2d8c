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

// Impact is what a step does to the service of its machine.
type Impact int

// The impacts, least first.
const (
	ImpactNone        Impact = iota // nothing a workload could notice
	ImpactOnline                    // changes a running machine without interrupting it, or brings it up
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

// Action is what a step does, in one word that a driver understands.
type Action string

// The actions.
const (
	ActionPowerOn   Action = "power-on"
	ActionPowerOff  Action = "power-off"
	ActionBootOrder Action = "boot-order"
	// ActionStartAgent powers the machine off, inserts the medium of Slipway's agent and
	// boots it once, or boots it once over the network where the step has no image; it has
	// succeeded when the machine runs from that. It erases nothing, and is permitted as the
	// installation is that it is for.
	ActionStartAgent Action = "start-agent"
	// ActionInstall powers the machine off, inserts the image and boots it
	// once; it has succeeded when the machine runs from the image. An image of a root file
	// system is put there by the agent instead, and then it has succeeded when the agent has
	// read the system back from the disks.
	ActionInstall Action = "install"
	// ActionFinishInstall ejects the image, or the medium of the agent, and boots from
	// disk; it is planned when the installer has powered the machine off, or the agent has
	// installed.
	ActionFinishInstall Action = "finish-install"
	// ActionRestart boots the machine again, so that what is pending takes
	// effect.
	ActionRestart Action = "restart"
	// These make one facet as designed. What firmware and BIOS are set to
	// may be pending until the machine is booted.
	ActionFirmware Action = "update-firmware"
	ActionBIOS     Action = "set-bios"
	ActionAccounts Action = "set-accounts"
	ActionBase     Action = "apply-base"
	ActionNetwork  Action = "apply-network"
	ActionPackages Action = "install-packages"
	ActionConfig   Action = "apply-config"
	ActionKernel   Action = "set-kernel"
	// ActionOnce does a boot action of the installation.
	ActionOnce Action = "boot-action"
	// ActionDefine makes the definition of a virtual machine as designed; what
	// a running one takes over at a boot alone is pending until then.
	ActionDefine Action = "define"
	// ActionDisks adds disks to a virtual machine and lets them grow. It never
	// takes a disk away, and none becomes smaller.
	ActionDisks Action = "set-disks"
	// ActionRemoveSeed takes away what the first boot of a virtual machine was
	// given, once its system has proven itself.
	ActionRemoveSeed Action = "remove-seed"
	// ActionZeroize takes a virtual machine away with all that it has. On a physical machine
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
	// Intent is the design's name of the field, where it has another one there.
	Intent string `json:"intent,omitempty"`
}

// Name is the field as people read it: with the intent that it comes from.
func (c Change) Name() string {
	if c.Intent == "" {
		return c.Field
	}
	return c.Field + " (" + c.Intent + ")"
}

// Step is one action on one node for one facet.
type Step struct {
	Node string `json:"node"`
	// Machine is the machine that the step was planned for; a driver refuses
	// another one.
	Machine Identity `json:"machine,omitzero"`
	Facet   Facet    `json:"facet"`
	Action  Action   `json:"action"`
	Changes []Change `json:"changes,omitempty"`
	Impact  Impact   `json:"impact"`
	Reason  string   `json:"reason"`
	// Expect is how long the step is expected to take.
	Expect Duration `json:"expect"`
	// Phase is the phase of the node's role that the step belongs to; empty
	// for a role without phases.
	Phase string `json:"phase,omitempty"`
	// Undo says how the step can be undone, or that it cannot be.
	Undo string `json:"undo,omitempty"`
	// Drift is set when the facet was once as designed now: the machine has
	// changed, not the design.
	Drift bool `json:"drift,omitempty"`
	// Maybe says of a restart that the steps before it decide whether it is needed. It
	// counts as any other until then.
	Maybe bool `json:"maybe,omitempty"`
	// Force switches the power off without asking the operating system.
	Force bool `json:"force,omitempty"`
	// Unseen says of an installation that no system is known to run on the machine:
	// its power is switched off without waiting for one to shut down.
	Unseen bool `json:"unseen,omitempty"`
	// FromMemory says of a step that boots from disk that the machine may run Slipway's agent:
	// that has nothing to lose, so its power is switched off.
	FromMemory bool `json:"fromMemory,omitempty"`
	// AsSet powers a machine on with the boot override and the media that it has:
	// a person has set them. Without it whatever would boot an installer is taken
	// back first.
	AsSet bool `json:"asSet,omitempty"`
	// Image and Generation are set for the steps of an installation.
	Image      *Image `json:"image,omitempty"`
	Generation int    `json:"generation,omitempty"`
	// Loses says what is lost on the machine, for a destructive step. Breaks, Layout,
	// Hypervisor, Disks, Attempt and Records are those of its Loss. A hypervisor's driver deletes no
	// volume that Disks does not name.
	Loses  string `json:"loses,omitempty"`
	Breaks string `json:"breaks,omitempty"`
	Layout string `json:"layout,omitempty"`
	// Makes says what the disks become, a line for each, where Slipway lays them out.
	Makes      []string `json:"makes,omitempty"`
	Hypervisor string   `json:"hypervisor,omitempty"`
	Disks      string   `json:"disks,omitempty"`
	Attempt    int      `json:"attempt,omitempty"`
	Records    string   `json:"records,omitempty"`
	// Owned is the digest of the list of what Slipway made on the machine, as the
	// records have it.
	Owned string `json:"owned,omitempty"`
	// Remove are the keys of items that Slipway made and that left the design. Each
	// is removed, or set back to what was there before.
	Remove []string `json:"remove,omitempty"`
	// Again has a change of the network made that was set back before: a person wants
	// it to be tried once more.
	Again bool `json:"again,omitempty"`
	// Once is set for a boot action.
	Once *item.Once `json:"once,omitempty"`
	// Resumed is set by the engine when the step was begun before a restart:
	// the driver joins what is under way instead of starting over.
	Resumed bool `json:"resumed,omitempty"`
}

// Endpoint is the kind of endpoint that the step is taken through: that of its facet, and
// the agent for an installation that it takes.
func (s Step) Endpoint() EndpointKind {
	if s.ByAgent() {
		return Agent
	}
	return Facets[s.Facet].Endpoint
}

// ByAgent says whether Slipway's agent takes the step.
func (s Step) ByAgent() bool { return s.Action == ActionInstall && s.Image.ByAgent() || s.Retires() }

// Retires says whether Slipway's agent erases the disks of a machine that leaves the design, and
// installs nothing.
func (s Step) Retires() bool { return s.Action == ActionZeroize && s.Facet == FacetStorage }

// OverNetwork says whether a step starts the agent over the network: without a medium.
func (s Step) OverNetwork() bool { return s.Action == ActionStartAgent && s.Image == nil }

// Digest names what the step does, free of time and revision.
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

// Summary is the step's changes in one line.
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

// NodePlan is what is to be done to one node, in order.
type NodePlan struct {
	Node string `json:"node"`
	// Hypervisor is where a virtual machine is placed.
	Hypervisor string `json:"hypervisor,omitempty"`
	Steps      []Step `json:"steps,omitempty"`
	// Blocked says why nothing can be planned for a part of the node, in
	// sentences: a wrong identity, a lower generation.
	Blocked []string `json:"blocked,omitempty"`
	// Release says what ends the first of these, where it is not a commit that changes
	// what that names.
	Release string `json:"release,omitempty"`
	// Spent is set when one of these is that Slipway interrupted the machine as
	// often as it may for one cause.
	Spent bool `json:"spent,omitempty"`
	// Waiting says what is under way on the machine and only needs time.
	Waiting string `json:"waiting,omitempty"`
	// Running is the boot action whose command runs, where that is waited for.
	Running *Running `json:"running,omitempty"`
	// Foreign says why the system on the machine is not the one that was
	// installed; nothing but an installation is planned then.
	Foreign string `json:"foreign,omitempty"`
	// Unproven says what the machine claims of its installation, where nothing
	// proves that; a person has to accept it or to install it again.
	Unproven string `json:"unproven,omitempty"`
	// Reported are differences that the design wants reported or proposed, and not undone.
	Reported []string `json:"reported,omitempty"`
	// Amendments are those of these differences that the design wants proposed, by facet.
	Amendments []Amendment `json:"amendments,omitempty"`
	// Phase is the phase of its role that the node is in: the first in which
	// something is left to do. It is empty when it has gone through all.
	Phase string `json:"phase,omitempty"`
	// Expect is how long all steps together are expected to take.
	Expect Duration `json:"expect,omitempty"`
	// NotActedOn are the parts of the design, by path, that no driver acts on: the
	// machine is not as designed there, and nobody looks.
	NotActedOn []string `json:"notActedOn,omitempty"`
	// Notes are worth knowing and stop nothing.
	Notes []string `json:"notes,omitempty"`
	// Findings are where the machine is not made of what the design expects, its
	// parts that are not well, and where its network links are not as designed.
	// They stop nothing.
	Findings []Finding `json:"findings,omitempty"`
	// Upgrades are those of packages that the plan makes; nil for none.
	Upgrades *Upgrades `json:"upgrades,omitempty"`
	// Seen is how old the observation is that the plan rests on; zero means
	// the machine was never seen.
	Seen time.Time `json:"seen,omitzero"`
}

// Upgrades are the upgrades of packages that a plan makes, by the lists of packages that the
// system had when it was seen. The step fetches these anew.
type Upgrades struct {
	// Packages are in the order of their names. More are so many that the machine did not
	// name, of every level.
	Packages []item.Upgrade `json:"packages,omitempty"`
	More     int            `json:"more,omitempty"`
	// Restart says whether the machine restarts for them, For which of them decide that.
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
	RestartMaybe Restarts = "maybe" // what is needed shows after the upgrades
	RestartNever Restarts = "never" // they need it, or may, and the design forbids it
)

// Running is a boot action whose command runs on a machine.
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
	// Removes are nodes that the revision drops, and why each is held or
	// goes.
	Removes []Removal `json:"removes,omitempty"`
	// NotActedOn are the parts of the design outside the nodes, by path, that no
	// driver acts on.
	NotActedOn []string `json:"notActedOn,omitempty"`
	// Forecast says how the plan will run; nil where nobody asked.
	Forecast *Forecast `json:"forecast,omitempty"`
}

// Forecast is how a plan will run under the rules of the rollout, as far as it
// can be told before.
type Forecast struct {
	// Makespan is the time from the first step to the end of the last.
	Makespan Duration `json:"makespan"`
	// Path is the critical path: what the makespan consists of, in order.
	Path []Stretch `json:"path,omitempty"`
	// Order are the nodes that change, by when they begin.
	Order []Stretch `json:"order,omitempty"`
	// Budget is the time that the rollout is meant to take; 0 for none.
	Budget Duration `json:"budget,omitempty"`
	// Warnings say what the plan cannot keep and what would help: a budget, a
	// window that is too short.
	Warnings []string `json:"warnings,omitempty"`
	// Basis says what the durations rest on.
	Basis string `json:"basis,omitempty"`
}

// Stretch is one stretch of time of a forecast: of a node, or of a wait.
type Stretch struct {
	Node string `json:"node,omitempty"`
	// What is done, or waited for.
	What string `json:"what"`
	// From and To are counted from the beginning.
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

// Counts are how many nodes change, and how many of them are taken out of
// service or lose data at worst.
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

// MayReboot is how many of the nodes that Counts takes for restarted may also stay in service.
func (p *Plan) MayReboot() (count int) {
	for _, n := range p.Nodes {
		if n.MayRestart() {
			count++
		}
	}
	return count
}

// MayRestart says whether the worst that happens to a node is a restart that may not be needed.
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

// Destroys is the set of what the plan destroys.
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

// Destroys is what the step destroys, if it does.
func (s Step) Destroys() (Loss, bool) {
	if s.Impact != ImpactDestructive {
		return Loss{}, false
	}
	loss := Loss{Node: s.Node, Machine: s.Machine, Hypervisor: s.Hypervisor, Action: s.action(), Lost: s.Loses, Breaks: s.Breaks, Layout: s.Layout, Generation: s.Generation,
		Disks: s.Disks, Attempt: s.Attempt, Records: s.Records}
	loss.Image = s.imageDigest()
	return loss, true
}

// imageDigest is the digest of the image that the step installs, empty for none.
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
