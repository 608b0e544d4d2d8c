package lab

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Personalities are the kinds of BMC that MachineConfig.Personality names. The
// first is what a machine has without one: as DSP0266 and DSP0268 want it.
var Personalities = []string{"plain", "idrac9", "ilo5", "xcc"}

// personality is a kind of BMC: data, and a few strategies where data is not
// enough. Machines share it, so it holds nothing of theirs.
type personality struct {
	name    string
	vendor  string // as the service root has it
	product string
	redfish string // the version of the protocol that is claimed
	server  string // the Server header
	// manufacturer, model, bmcVersion and biosVersion are the machine's,
	// unless its configuration says others.
	manufacturer, model, bmcModel, bmcVersion, biosVersion string

	system, manager, chassis string // paths
	settings                 string // path of the system's settings object, empty for none
	versions                 map[string]string
	contexts                 bool              // each resource has its @odata.context
	complete                 bool              // it has services that its clients do not need
	foldCase                 bool              // paths are found in any case
	cased                    map[string]string // the tree's paths, by their lower case

	etags    etagStyle
	speech   speech
	power    powerHabits
	boot     bootHabits
	media    mediaHabits
	bios     biosHabits
	parts    partHabits
	sessions sessionHabits
	tasks    taskHabits
	query    queryHabits
	waits    waitHabits
	tree     tree
}

// etagStyle is how a BMC writes its ETags.
type etagStyle string

const (
	etagsWeak   etagStyle = "weak"
	etagsStrong etagStyle = "strong"
	etagsNone   etagStyle = "none"
)

// powerHabits is what a BMC makes of ComputerSystem.Reset.
type powerHabits struct {
	resets []string // in the order in which they are listed
	// info is where the ActionInfo is that lists them; listed says whether the
	// action lists them itself.
	info   string
	listed bool
	// already is the answer to a reset that would change nothing.
	already       int
	managerResets []string
	// starts has a forced restart and a power cycle switch on what is off, as
	// OpenBMC does; elsewhere they are refused.
	starts bool
}

// bootHabits is how a BMC has its boot settings.
type bootHabits struct {
	options []option
	order   []string // of a machine that is configured without one; nil for disk, then network
	states  []string // of the override
	listed  bool     // states and modes have their AllowableValues
	targets []string
	modes   []string
	// progress says whether the system has a BootProgress.
	progress bool
	// http says whether a URL to boot from can be given.
	http bool
	// postLocks has the settings refused while the machine runs its POST.
	postLocks bool
}

// mediaHabits is how a BMC has its virtual media.
type mediaHabits struct {
	slots []slot
	// patched says that media are inserted and ejected by PATCH, and that
	// there are no actions.
	patched bool
	// hidesEject has no EjectMedia while a slot is empty.
	hidesEject bool
	empty      any // Image of an empty slot
}

// slot is a drive for virtual media; the same slot may be at several paths.
type slot struct {
	paths    []string
	types    []string
	inserted string // what is in it from the start
}

// sessionHabits is how many sessions a BMC has, and what it does about bad
// logins.
type sessionHabits struct {
	path string // of the collection
	max  int
	idle time.Duration
	// shown is the SessionTimeout, which is not in seconds everywhere.
	shown int
	full  string // message of a login that finds no room
	// tries is how many bad logins lock an account, 0 for any number; blocks
	// has them block their sender, of which the AccountService says nothing.
	tries  int
	locked time.Duration
	blocks bool
	// delay is how long a login takes that comes after a bad one.
	delay time.Duration
	// password is the length of the longest, 40 by default.
	password int
	// shortest is the length of the shortest password, 1 by default; mixed wants a letter and a
	// digit in it, and again refuses so many of the passwords that an account had before.
	shortest int
	mixed    bool
	again    int
	// slots is how many accounts there are, empty ones included; 0 lets
	// accounts be made by POST.
	slots int
	first int // the slot of the configured account
}

// shownTries is the AccountLockoutThreshold.
func (h sessionHabits) shownTries() int {
	if h.blocks {
		return 0
	}
	return h.tries
}

// least is the length of the shortest password.
func (h sessionHabits) least() int { return max(1, h.shortest) }

// longest is the length of the longest password.
func (h sessionHabits) longest() int { return cmp.Or(h.password, 40) }

// taskHabits is where the monitors of tasks are, empty for BMCs that name the
// task itself.
type taskHabits struct {
	monitors string
	// forgets has a task gone that has ended, once its monitor was read.
	forgets bool
}

// queryHabits is which of the query parameters of DSP0266 are understood.
type queryHabits struct {
	expand                     int // levels, 0 for none
	links, all, selects, pages bool
	only                       bool
}

// waitHabits is how a BMC's answers vary around the fleet's latency.
type waitHabits struct {
	// spread is the sigma of the log-normal distribution; 0 has none.
	spread float64
	// logs is how many times longer a page of a log takes.
	logs float64
}

// kind makes the personality of a machine, which may be one of an enclosure.
func kind(c MachineConfig, enclosed bool) (*personality, error) {
	if c.Capture != "" {
		return readCapture(c.Capture, c.SystemID)
	}
	standard := func() *personality { return plain(or(c.SystemID, "1"), enclosed) }
	of := map[string]func() *personality{"": standard, "plain": standard, "idrac9": idrac9, "ilo5": ilo5, "xcc": xcc}[c.Personality]
	if of == nil {
		return nil, fmt.Errorf("there is no personality %q; there are: %v", c.Personality, Personalities)
	}
	return of().fitted(c), nil
}

// fitted is a personality with what a machine's configuration changes of it.
func (p *personality) fitted(c MachineConfig) *personality {
	if c.HTTPBoot {
		p.boot.http = true
		if !slices.Contains(p.boot.targets, "UefiHttp") {
			p.boot.targets = append(slices.Clone(p.boot.targets), "UefiHttp")
		}
	}
	if c.Real != nil {
		p.real(c.Real)
	}
	if c.NoMedia {
		p.media.slots = nil
	}
	if c.Real != nil || c.NoMedia {
		return p.grown()
	}
	return p
}

// The usual values of overrides.
var (
	overrideStates = []string{"Disabled", "Once", "Continuous"}
	usualTargets   = []string{"None", "Hdd", "Pxe", "Cd", "UefiHttp", "Usb"}
)

// option is a boot option (DSP0268, BootOption).
type option struct{ ref, id, alias, name, path string }

// usualOptions are those of a machine, with references from a number on.
func usualOptions(from int, ids func(n int, ref string) string) []option {
	o := []option{
		{alias: "Hdd", name: "Disk 0", path: "HD(1,GPT,5E1D0000-0000-4000-8000-0000000000D0)/\\EFI\\boot\\bootx64.efi"},
		{alias: "Pxe", name: "NIC 0 PXE IPv4", path: "PciRoot(0x0)/Pci(0x1,0x0)/MAC(025E1D000001,0x1)/IPv4(0.0.0.0)"},
		{alias: "Cd", name: "Virtual CD", path: "PciRoot(0x0)/Pci(0x14,0x0)/USB(0xD,0x0)/CDROM(0x0)"},
		{alias: "UefiHttp", name: "NIC 0 HTTP IPv4", path: "PciRoot(0x0)/Pci(0x1,0x0)/MAC(025E1D000001,0x1)/IPv4(0.0.0.0)/Uri()"},
		{alias: "Usb", name: "Virtual USB", path: "PciRoot(0x0)/Pci(0x14,0x0)/USB(0xD,0x1)"},
	}
	for i := range o {
		o[i].ref = fmt.Sprintf("Boot%04X", from+i)
		o[i].id = ids(i, o[i].ref)
	}
	return o
}

func byRef(_ int, ref string) string  { return ref }
func byNumber(n int, _ string) string { return fmt.Sprint(n + 1) }

// alias is the target of a boot option, empty when there is none such.
func (h bootHabits) alias(ref string) string {
	for _, o := range h.options {
		if o.ref == ref {
			return o.alias
		}
	}
	return ""
}

// reference is the first boot option of a target, empty when there is none.
func (h bootHabits) reference(target string) string {
	for _, o := range h.options {
		if o.alias == target {
			return o.ref
		}
	}
	return ""
}

// plain is a BMC that does what the specification says, and OpenBMC's modest
// set of resources. The machines of an enclosure have a chassis and virtual
// media each.
func plain(id string, enclosed bool) *personality {
	system := root + "/Systems/" + id
	p := &personality{
		name: "plain", product: "Slipway lab", redfish: "1.18.0", server: "slipway-lab",
		manufacturer: "Lab", model: "Simulated", bmcModel: "Lab BMC", bmcVersion: "1.0.0", biosVersion: "1.0.0",
		system: system, manager: root + "/Managers/1", chassis: root + "/Chassis/1",
		complete: true, etags: etagsWeak, speech: speech{base: "Base.1.18"},
		power: powerHabits{
			resets: []string{"On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart", "ForceOn", "PowerCycle"},
			info:   system + "/ResetActionInfo", listed: true, already: 204, managerResets: []string{"GracefulRestart", "ForceRestart"}, starts: true,
		},
		boot:     bootHabits{options: usualOptions(1, byRef), states: overrideStates, listed: true, targets: usualTargets, modes: []string{"UEFI"}, progress: true, http: true},
		sessions: sessionHabits{max: 16, idle: 30 * time.Minute, shown: 1800, full: "SessionLimitExceeded"},
		tasks:    taskHabits{monitors: monitorsPath},
		query:    queryHabits{expand: 3, links: true, all: true, selects: true, pages: true, only: true},
	}
	if p.media.slots = []slot{{paths: []string{p.manager + "/VirtualMedia/1"}, types: []string{"CD", "DVD"}}}; enclosed {
		p.chassis = root + "/Chassis/" + id
		p.media.slots[0].paths[0] = p.system + "/VirtualMedia/1"
	}
	p.bios, p.parts = plainBIOS(p.system), p.plainParts()
	return p.grown()
}

// idrac9 has the habits of an iDRAC9 with firmware 6: no ETags but on
// accounts, media at the system and at the manager, a job for every change of
// the BIOS, accounts in slots. Three bad logins within a minute block their
// sender for one, which is IPBlocking.1 of its attributes as they come.
func idrac9() *personality {
	p := &personality{
		name: "idrac9", vendor: "Dell", product: "Integrated Dell Remote Access Controller", redfish: "1.13.1", server: "Appweb/4.5.4",
		manufacturer: "Dell Inc.", model: "PowerEdge R750", bmcModel: "15G Monolithic", bmcVersion: "6.00.30.00", biosVersion: "1.8.2",
		system: root + "/Systems/System.Embedded.1", manager: root + "/Managers/iDRAC.Embedded.1", chassis: root + "/Chassis/System.Embedded.1",
		contexts: true, etags: etagsNone,
		speech: speech{base: "Base.1.12", own: "IDRAC.2.7", code: "Base.1.12.GeneralError"},
		power: powerHabits{
			resets: []string{"On", "ForceOff", "ForceRestart", "GracefulRestart", "GracefulShutdown", "PushPowerButton", "Nmi", "PowerCycle"},
			listed: true, already: 409, managerResets: []string{"GracefulRestart"},
		},
		boot: bootHabits{options: usualOptions(0, byRef), states: overrideStates,
			targets: []string{"None", "Pxe", "Floppy", "Cd", "Hdd", "BiosSetup", "Utilities", "UefiTarget", "SDCard", "UefiHttp"}, modes: []string{"UEFI", "Legacy"}},
		sessions: sessionHabits{max: 8, idle: 30 * time.Minute, shown: 1800, full: "RAC0218", slots: 16, first: 2, tries: 3, locked: time.Minute, blocks: true},
		query:    queryHabits{expand: 1, links: true, all: true, selects: true, pages: true, only: true},
		waits:    waitHabits{spread: 0.6, logs: 60},
	}
	p.bios, p.parts = dellBIOS(p.system, p.manager), p.dellParts()
	p.media = mediaHabits{slots: []slot{
		{paths: []string{p.manager + "/VirtualMedia/CD"}, types: []string{"CD", "DVD"}},
		{paths: []string{p.manager + "/VirtualMedia/RemovableDisk"}, types: []string{"USBStick"}},
		{paths: []string{p.system + "/VirtualMedia/1"}, types: []string{"CD", "DVD", "USBStick"}},
		{paths: []string{p.system + "/VirtualMedia/2"}, types: []string{"CD", "DVD", "USBStick"}},
	}}
	return p.grown()
}

// ilo5 has the habits of an iLO 5 with firmware 2.7: weak ETags in every
// resource, paths in any case, boot settings that are locked during POST,
// errors that name a message and say nothing. After a bad login the next takes
// ten seconds (HPE iLO 5 User Guide, Authentication Failure Delay Time).
func ilo5() *personality {
	p := &personality{
		name: "ilo5", vendor: "HPE", product: "ProLiant DL385 Gen10 Plus v2", redfish: "1.6.0", server: "HPE-iLO-Server/1.30",
		manufacturer: "HPE", model: "ProLiant DL385 Gen10 Plus v2", bmcModel: "iLO 5", bmcVersion: "iLO 5 v2.72", biosVersion: "A42 v2.60 (08/11/2022)",
		system: root + "/Systems/1", manager: root + "/Managers/1", chassis: root + "/Chassis/1",
		contexts: true, foldCase: true, etags: etagsWeak,
		speech: speech{base: "Base.1.4", own: "iLO.2.19", code: "iLO.0.10.ExtendedInfo", terse: true, talks: true},
		power: powerHabits{
			resets: []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi", "PushPowerButton", "GracefulRestart"},
			listed: true, already: 400, managerResets: []string{"ForceRestart", "GracefulRestart"},
		},
		boot: bootHabits{options: usualOptions(0x21, byNumber), states: overrideStates, postLocks: true,
			targets: []string{"None", "Cd", "Hdd", "Usb", "SDCard", "Utilities", "Diags", "BiosSetup", "Pxe", "UefiShell", "UefiHttp", "UefiTarget"}, modes: []string{"UEFI", "Legacy"}},
		sessions: sessionHabits{max: 13, idle: 30 * time.Minute, shown: 30, full: "MaxSessionsReached", first: 1, slots: 0, delay: 10 * time.Second, shortest: 8, password: 39},
		tasks:    taskHabits{monitors: monitorsPath},
		query:    queryHabits{expand: 1, selects: true, only: true},
		waits:    waitHabits{spread: 0.5, logs: 8},
	}
	p.bios, p.parts = hpeBIOS(), p.hpeParts()
	p.media = mediaHabits{empty: "", slots: []slot{
		{paths: []string{p.manager + "/VirtualMedia/1"}, types: []string{"Floppy", "USBStick"}},
		{paths: []string{p.manager + "/VirtualMedia/2"}, types: []string{"CD", "DVD"}},
	}}
	return p.grown()
}

// xcc has the habits of an XClarity Controller with firmware 2.8: strong
// ETags, no lasting override, ten slots for media that are driven by PATCH,
// tasks that are gone once their monitor was read.
func xcc() *personality {
	p := &personality{
		name: "xcc", vendor: "Lenovo", product: "Lenovo XClarity Controller", redfish: "1.15.0", server: "XCC Web Server",
		manufacturer: "Lenovo", model: "ThinkSystem SR670 V2", bmcModel: "Lenovo XClarity Controller", bmcVersion: "TGBT42S 2.83 2023-07-05", biosVersion: "U8E122J",
		system: root + "/Systems/1", manager: root + "/Managers/1", chassis: root + "/Chassis/1", settings: root + "/Systems/1/Pending",
		contexts: true, etags: etagsStrong,
		speech: speech{base: "Base.1.12", own: "ExtendedError.1.2", code: "Base.1.12.GeneralError"},
		power: powerHabits{
			resets: []string{"On", "Nmi", "GracefulShutdown", "GracefulRestart", "ForceOn", "ForceOff", "ForceRestart"},
			info:   root + "/Systems/1/ResetActionInfo", listed: true, already: 204, managerResets: []string{"GracefulRestart", "ForceRestart"},
		},
		boot: bootHabits{options: usualOptions(2, byRef), states: []string{"Once", "Disabled"}, listed: true,
			targets: []string{"None", "Pxe", "Cd", "Usb", "Hdd", "BiosSetup", "Diags", "UefiTarget"}, modes: []string{"UEFI", "Legacy"}},
		sessions: sessionHabits{max: 16, idle: 5 * time.Minute, shown: 300, full: "CreateLimitReachedForResource", slots: 12, first: 1, tries: 5, locked: time.Hour, shortest: 10, password: 32, mixed: true, again: 5},
		tasks:    taskHabits{monitors: monitorsPath, forgets: true},
		query:    queryHabits{expand: 2, links: true, all: true, selects: true, pages: true, only: true},
		waits:    waitHabits{spread: 0.7, logs: 20},
	}
	p.bios, p.parts = lenovoBIOS(p.system), p.lenovoParts()
	p.media = mediaHabits{patched: true}
	for _, id := range []string{"EXT1", "EXT2", "EXT3", "EXT4", "Remote1", "Remote2", "Remote3", "Remote4", "RDOC1", "RDOC2"} {
		p.media.slots = append(p.media.slots, slot{
			paths: []string{p.system + "/VirtualMedia/" + id, p.manager + "/VirtualMedia/" + id}, types: []string{"CD", "DVD", "Floppy", "USBStick"},
		})
	}
	return p.grown()
}
