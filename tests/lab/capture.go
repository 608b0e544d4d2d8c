package lab

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// maxCapture is the largest capture that is read, unpacked.
const maxCapture = 256 << 20

// captured is the tree of a real BMC, as somebody read it once: path to
// resource. Bodies are decoded as they are asked for.
type captured map[string]json.RawMessage

func (c captured) at(_ *Machine, at string) body {
	var b body
	if json.Unmarshal(c[at], &b) != nil {
		return nil
	}
	return b
}

// readCapture makes a personality of a capture: a JSON object of resources by
// their paths, packed with gzip or not. Nothing of it depends on the vendor:
// where the parts of a BMC are and what they can do is in what they say.
// With several systems the machine is the one with the id, or else the first that
// can be reset and has boot settings.
func readCapture(file, id string) (*personality, error) {
	tree, err := readTree(file)
	if err != nil {
		return nil, fmt.Errorf("capture %s: %w", file, err)
	}
	p := tree.personality(id)
	switch {
	case p == nil:
		return nil, fmt.Errorf("capture %s: it has no service root at %s", file, root)
	case id != "" && path.Base(p.system) != id:
		return nil, fmt.Errorf("capture %s: it has no system %q", file, id)
	}
	return p, nil
}

// CapturedSystems are the ids of the systems of a capture that are machines: those
// that can be reset. The first is the one that a machine without a SystemID is.
func CapturedSystems(file string) ([]string, error) {
	p, err := readCapture(file, "")
	if err != nil || p.system == "" {
		return nil, err
	}
	ids := []string{path.Base(p.system)}
	for _, at := range p.systems() {
		actions, _ := p.found(at)["Actions"].(body)
		if id := path.Base(at); actions["#ComputerSystem.Reset"] != nil && id != ids[0] {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func readTree(file string) (captured, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = bufio.NewReader(f)
	if magic, _ := r.(*bufio.Reader).Peek(2); string(magic) == "\x1f\x8b" {
		if r, err = gzip.NewReader(r); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(io.LimitReader(r, maxCapture+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxCapture:
		return nil, fmt.Errorf("it is larger than %d MiB", maxCapture>>20)
	}
	raw := captured{}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, errors.New("it is not a JSON object of resources by their paths")
	}
	tree := captured{}
	for at, b := range raw {
		tree[strings.TrimRight(at, "/")] = b
	}
	return tree, nil
}

// linkOf is the path that a property of a resource leads to, empty for none.
func linkOf(b body, names ...string) string {
	for _, name := range names {
		b, _ = b[name].(body)
	}
	at, _ := b["@odata.id"].(string)
	return strings.TrimRight(at, "/")
}

// linksOf are the paths of a list of references.
func linksOf(v any) (all []string) {
	for _, of := range items(v) {
		if of, ok := of.(body); ok {
			all = append(all, linkOf(of))
		}
	}
	return all
}

// personality reads off a capture where things are, and what is done how.
func (c captured) personality(id string) *personality {
	p := &personality{name: "capture", foldCase: true, cased: map[string]string{}, server: "capture", tree: c, redfish: "1.0.0"}
	for _, at := range slices.Sorted(maps.Keys(c)) {
		p.cased[strings.ToLower(at)] = at
	}
	service := c.at(nil, p.canonical(root))
	if service == nil {
		return nil
	}
	p.vendor, _ = service["Vendor"].(string)
	p.contexts = service["@odata.context"] != nil
	p.speech = speech{base: "Base.1.8"}
	p.captureSystem(service, id)
	p.captureQueries(service)
	p.captureSessions(service)
	p.captureMedia(service)
	p.captureBIOS()
	for _, at := range p.places() {
		p.cased[strings.ToLower(at)] = at
	}
	return p
}

// places are the paths that a personality knows things by.
func (p *personality) places() []string {
	all := []string{p.system, p.manager, p.chassis, p.settings, p.bios.path, p.bios.settings, p.bios.store, p.bios.jobs}
	for _, s := range p.media.slots {
		all = append(all, s.paths...)
	}
	return slices.DeleteFunc(all, func(at string) bool { return at == "" })
}

// found is a resource of a capture, empty when it is not there.
func (p *personality) found(at string) body {
	if b := p.tree.at(nil, p.canonical(strings.TrimRight(at, "/"))); b != nil {
		return b
	}
	return body{}
}

// systems are the paths of all systems.
func (p *personality) systems() []string {
	return linksOf(p.found(linkOf(p.found(root), "Systems"))["Members"])
}

// captureSystem finds the machine among the systems: the one with the id, or the
// one that can be reset and has boot settings, before others.
func (p *personality) captureSystem(service body, id string) {
	fitness := func(at string) int {
		b := p.found(at)
		actions, _ := b["Actions"].(body)
		boot, _ := b["Boot"].(body)
		return map[bool]int{true: 4}[path.Base(at) == id] + map[bool]int{true: 2}[actions["#ComputerSystem.Reset"] != nil] + map[bool]int{true: 1}[len(boot) > 0]
	}
	if systems := p.systems(); len(systems) > 0 {
		p.system = p.canonical(slices.MaxFunc(systems, func(a, b string) int { return cmp.Compare(fitness(a), fitness(b)) }))
	}
	b := p.found(p.system)
	links, _ := b["Links"].(body)
	first := func(of any, collection string) string {
		if all := append(linksOf(of), linksOf(p.found(linkOf(service, collection))["Members"])...); len(all) > 0 {
			return p.canonical(all[0])
		}
		return ""
	}
	p.manager, p.chassis = first(links["ManagedBy"], "Managers"), first(links["Chassis"], "Chassis")
	if at := p.canonical(linkOf(b, "@Redfish.Settings", "SettingsObject")); p.found(at)["Boot"] != nil {
		p.settings = at
	}
	p.etags = etagsOf(b["@odata.etag"])
	p.power = powerHabits{already: http.StatusNoContent, managerResets: p.managerResets()}
	boot := body{}
	for _, at := range []string{p.settings, p.system} {
		more, _ := p.found(at)["Boot"].(body)
		maps.Copy(boot, more)
	}
	p.captureBoot(b, boot)
}

// etagsOf is the style of an ETag.
func etagsOf(tag any) etagStyle {
	s, ok := tag.(string)
	switch {
	case !ok || s == "":
		return etagsNone
	case strings.HasPrefix(s, "W/"):
		return etagsWeak
	}
	return etagsStrong
}

func (p *personality) managerResets() []string {
	actions, _ := p.found(p.manager)["Actions"].(body)
	a, _ := actions["#Manager.Reset"].(body)
	return texts(a["ResetType@Redfish.AllowableValues"])
}

// captureBoot reads the boot options, and what the settings may be.
func (p *personality) captureBoot(system, boot body) {
	p.boot.states = texts(boot["BootSourceOverrideEnabled@Redfish.AllowableValues"])
	if p.boot.states == nil {
		p.boot.states = overrideStates
	}
	p.boot.modes = texts(boot["BootSourceOverrideMode@Redfish.AllowableValues"])
	if p.boot.modes == nil {
		p.boot.modes = []string{"UEFI", "Legacy"}
	}
	p.boot.progress = system["BootProgress"] != nil
	_, p.boot.http = boot["HttpBootUri"]
	known := map[string]bool{}
	add := func(ref, alias, name string) {
		if ref != "" && !known[ref] {
			known[ref] = true
			p.boot.options = append(p.boot.options, option{ref: ref, alias: alias, name: name})
		}
	}
	for _, at := range linksOf(p.found(linkOf(boot, "BootOptions"))["Members"]) {
		o := p.found(at)
		ref, _ := o["BootOptionReference"].(string)
		name, _ := o["DisplayName"].(string)
		device, _ := o["UefiDevicePath"].(string)
		alias, _ := o["Alias"].(string)
		if !slices.Contains(bootTargets, alias) {
			alias = guess(name + " " + device)
		}
		add(ref, alias, name)
	}
	p.boot.order = texts(boot["BootOrder"])
	for _, ref := range p.boot.order {
		add(ref, guess(ref), ref)
	}
}

// guess is the target that a boot option's description speaks of; what speaks
// of none is taken for a disk.
func guess(description string) string {
	d := strings.ToLower(description)
	for _, g := range []struct{ word, target string }{
		{"http", "UefiHttp"}, {"/uri(", "UefiHttp"}, {"pxe", "Pxe"}, {"network", "Pxe"}, {"/mac(", "Pxe"}, {"/ipv", "Pxe"},
		{"cdrom", "Cd"}, {"cd/dvd", "Cd"}, {"dvd", "Cd"}, {"virtual cd", "Cd"}, {"usb", "Usb"},
	} {
		if strings.Contains(d, g.word) {
			return g.target
		}
	}
	return "Hdd"
}

func (p *personality) captureQueries(service body) {
	features, _ := service["ProtocolFeaturesSupported"].(body)
	expand, _ := features["ExpandQuery"].(body)
	if expand["NoLinks"] == true {
		levels, _ := number(expand["MaxLevels"])
		p.query.expand = max(1, int(levels))
	}
	p.query.links, p.query.all = expand["Links"] == true, expand["ExpandAll"] == true
	p.query.selects, p.query.only, p.query.pages = features["SelectQuery"] == true, features["OnlyMemberQuery"] == true, true
}

func (p *personality) captureSessions(service body) {
	p.sessions = sessionHabits{path: p.canonical(or(linkOf(service, "Links", "Sessions"), sessionsPath)), max: 16, idle: 30 * time.Minute, full: "SessionLimitExceeded"}
	accounts := p.found(linkOf(service, "AccountService"))
	tries, _ := number(accounts["AccountLockoutThreshold"])
	wait, _ := number(accounts["AccountLockoutDuration"])
	p.sessions.tries, p.sessions.locked = int(tries), time.Duration(wait)*time.Second
}

// captureMedia finds the slots, at the system and the managers. Slots of two
// collections with the same ids are the same slots.
func (p *personality) captureMedia(service body) {
	owners := append([]string{p.system, p.manager}, linksOf(p.found(linkOf(service, "Managers"))["Members"])...)
	byIDs := map[string]int{} // where the slots of these ids begin
	seen := map[string]bool{}
	for _, owner := range owners {
		at := p.canonical(linkOf(p.found(owner), "VirtualMedia"))
		if at == "" || seen[at] {
			continue
		}
		seen[at] = true
		members := linksOf(p.found(at)["Members"])
		var ids []string
		for _, m := range members {
			ids = append(ids, path.Base(m))
		}
		key := strings.Join(ids, "\n")
		begin, same := byIDs[key]
		if !same {
			begin = len(p.media.slots)
			byIDs[key] = begin
			p.media.slots = append(p.media.slots, make([]slot, len(members))...)
		}
		for i, m := range members {
			p.media.slots[begin+i].paths = append(p.media.slots[begin+i].paths, p.canonical(m))
		}
	}
	p.media.patched = len(p.media.slots) > 0
	for i, s := range p.media.slots {
		b := p.found(s.paths[0])
		actions, _ := b["Actions"].(body)
		p.media.patched = p.media.patched && actions["#VirtualMedia.InsertMedia"] == nil
		p.media.hidesEject = p.media.hidesEject || actions["#VirtualMedia.InsertMedia"] != nil && actions["#VirtualMedia.EjectMedia"] == nil
		if b["Inserted"] == true {
			p.media.slots[i].inserted, _ = b["Image"].(string)
		} else {
			p.media.empty = b["Image"]
		}
	}
}

// captureBIOS finds the settings of the firmware and their registry.
func (p *personality) captureBIOS() {
	at := linkOf(p.found(p.system), "Bios")
	if at == "" {
		return
	}
	b := p.found(at)
	settings := linkOf(b, "@Redfish.Settings", "SettingsObject")
	pending := p.found(settings)
	waiting, _ := pending["Attributes"].(body)
	more, _ := b["@Redfish.Settings"].(body)
	p.bios = biosHabits{path: p.canonical(at), applyTimes: texts(more["SupportedApplyTimes"]), mirrors: len(waiting) > 0, takesApplyTime: applyTimeIgnored}
	if settings != "" {
		p.bios.settings = p.canonical(settings)
	}
	if when, _ := pending[applyTimeAnnotation].(body); p.bios.applyTimes == nil && when != nil {
		p.bios.applyTimes = texts(when["ApplyTime@Redfish.AllowableValues"])
		if one, ok := when["ApplyTime"].(string); ok && p.bios.applyTimes == nil {
			p.bios.applyTimes = []string{one}
		}
	}
	if p.bios.applyTimes != nil {
		p.bios.takesApplyTime = applyTimeTaken
	}
	vendors, _ := pending["Oem"].(body)
	for v := range vendors {
		if jobs := linkOf(vendors, v, "Jobs"); jobs != "" {
			p.bios.jobs = p.canonical(jobs)
		}
	}
	p.bios.registry, _ = b["AttributeRegistry"].(string)
	p.bios.store = p.tree.(captured).registry(p.bios.registry)
}

// registry is where the attribute registry with an id is, the English one if
// there are several.
func (c captured) registry(id string) (at string) {
	for _, candidate := range slices.Sorted(maps.Keys(c)) {
		if !strings.Contains(string(c[candidate]), "AttributeRegistry.v") {
			continue
		}
		b := c.at(nil, candidate)
		if kindOf(b) == "AttributeRegistry" && b["Id"] == id && (at == "" || strings.HasPrefix(fmt.Sprint(b["Language"]), "en")) {
			at = candidate
		}
	}
	return at
}

// capturedError answers with the error that was captured for a path, and says
// whether there is one.
func (x *exchange) capturedError(b body) bool {
	e, ok := b["error"].(body)
	if !ok || b["@odata.id"] != nil {
		return false
	}
	status, said := http.StatusNotFound, fmt.Sprint(e)
	for _, word := range []string{"Privilege", "Unauthorized", "Forbidden", "AccessDenied", "LIC"} {
		if strings.Contains(said, word) {
			status = http.StatusForbidden
		}
	}
	x.send(status, encode(b))
	return true
}

// identify fills in, from a capture, who a machine is that is configured
// without it.
func (c *MachineConfig) identify(p *personality) {
	b := p.found(p.system)
	id, _ := b["UUID"].(string)
	serial, _ := b["SerialNumber"].(string)
	c.Identity.UUID, c.Identity.Serial = or(c.Identity.UUID, id), or(c.Identity.Serial, serial)
}
