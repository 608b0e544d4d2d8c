package redfish

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// quirk is a habit of some BMCs that the rest of the driver asks for by name.
// What each one means, and who has it, is in quirkTable and in docs/redfish.md.
type quirk string

const (
	// serviceTag: SerialNumber is the board's; what people know the machine by
	// is the SKU.
	serviceTag quirk = "service-tag-is-sku"
	// noContinuous: the boot override is for one boot at most.
	noContinuous quirk = "no-continuous-override"
	// resendEnabled: an override whose Enabled is not sent falls back to Once.
	resendEnabled quirk = "resend-override-enabled"
	// fullOverride: Enabled, Target and Mode are all wanted in each request.
	fullOverride quirk = "full-override"
	// leastOverride: an override with anything but Enabled and Target is refused.
	leastOverride quirk = "least-override"
	// explicitMode: an override without Mode is taken for legacy BIOS.
	explicitMode quirk = "explicit-override-mode"
	// noMode: an override with Mode is refused.
	noMode quirk = "no-override-mode"
	// usbCD: the virtual CD is the boot source UsbCd, although Cd is listed.
	usbCD quirk = "virtual-cd-is-usbcd"
	// plainCD: the virtual CD is Cd, where the vendor's others want UsbCd.
	plainCD quirk = "virtual-cd-is-cd"
	// pxeAsBootNext: an override to Pxe is shown as UefiBootNext, which itself is
	// refused.
	pxeAsBootNext quirk = "pxe-is-boot-next"
	// slowPowerOn: On is answered with a conflict for a minute after power-off.
	slowPowerOn quirk = "slow-power-on"
	// resetsInActionInfo: which resets there are is said in an ActionInfo only.
	resetsInActionInfo quirk = "resets-in-action-info"
	// patchMedia: virtual media slots have no actions and are written to.
	patchMedia quirk = "insert-by-patch"
	// plainInsert: Inserted and WriteProtected are read-only and refused.
	plainInsert quirk = "insert-image-only"
	// staleInserted: Inserted stays true after an ejection.
	staleInserted quirk = "stale-inserted"
	// firstSlot: only the first virtual media slot can be booted from.
	firstSlot quirk = "first-slot-only"
	// insertParameters: InsertMedia wants other parameters than DSP0268 has as
	// required.
	insertParameters quirk = "insert-parameters"
	// nextSlot: a slot that lists InsertMedia does not take it.
	nextSlot quirk = "next-slot"
	// overrideForm: a boot override is taken in another form than usual.
	overrideForm quirk = "override-form"
	// mediumFirst: an override to a CD is refused while no medium is in.
	mediumFirst quirk = "medium-before-override"
	// onceLasts: an override for one boot is kept for all of them.
	onceLasts quirk = "once-lasts"
	// bootSettings: the boot is set at the system's settings object.
	bootSettings quirk = "boot-in-settings-object"
	// etagForm: a write with the ETag as it was given is refused.
	etagForm quirk = "etag-form"
	// stayingETags: the ETag of a resource stays when the resource does not.
	stayingETags quirk = "etags-that-stay"
	// compressedOnly: some resources are served compressed only.
	compressedOnly quirk = "compressed-only"
	// firstAccountFixed: nobody may use the first slot for accounts.
	firstAccountFixed quirk = "first-account-fixed"
	// hiddenRoot: the service root is shown to nobody who is not logged in.
	hiddenRoot quirk = "hidden-service-root"
	// slashes: paths are known with or without a slash at the end only.
	slashes quirk = "slashes"
)

// habit is one row of the table: the machines and what they are known for. An
// empty field holds for any; a firmware version that is not known yet is taken
// to be in the range, since to handle a quirk that is not there does no harm.
type habit struct {
	vendors []string // how a name of the vendor begins, in lower case
	model   string   // glob (path.Match) over the system's model, in lower case
	from    string   // the first firmware version of the manager
	before  string   // the first firmware version that is free of it
	quirks  []quirk
}

// quirkTable is all that is known of vendors by name. What a BMC shows or
// answers by itself (missing actions, refused parameters, ETags) is gone by
// without it. docs/redfish.md says where each row comes from.
var quirkTable = []habit{
	{vendors: []string{"dell"}, quirks: []quirk{serviceTag, staleInserted, firstAccountFixed}},
	{vendors: []string{"dell"}, from: "1.0", before: "2.0", quirks: []quirk{slowPowerOn}}, // iDRAC10 counts anew
	{vendors: []string{"dell"}, model: "*[rtcxm][0-9]7[0-9]*", quirks: []quirk{slowPowerOn, firstSlot}},
	{vendors: []string{"hpe", "hewlett"}, model: "*dl160 gen10*", quirks: []quirk{leastOverride}},
	{vendors: []string{"lenovo"}, quirks: []quirk{noContinuous, patchMedia}},
	{vendors: []string{"supermicro", "super micro"}, quirks: []quirk{resendEnabled, explicitMode, usbCD, pxeAsBootNext}},
	{vendors: []string{"supermicro", "super micro"}, model: "*x10*", quirks: []quirk{noMode}},
	{vendors: []string{"supermicro", "super micro"}, model: "*x1[12]*", quirks: []quirk{plainInsert}},
	{vendors: []string{"supermicro", "super micro"}, model: "*ars-111gl-nhr*", quirks: []quirk{plainCD}},
	{vendors: []string{"dell"}, quirks: []quirk{biosByJob}},
	{vendors: []string{"lenovo"}, quirks: []quirk{noApplyTime}},
	{vendors: []string{"giga"}, quirks: []quirk{stayingETags, staleInserted}},
	{vendors: []string{"ami", "american megatrends", "asrockrack"}, quirks: []quirk{fullOverride}},
}

// careful is what a BMC of a vendor that is not in the table is taken for.
var careful = []quirk{staleInserted, stayingETags}

// makers are the names and versions that a BMC was seen to give itself, from
// answers that are read anyway.
type makers struct {
	root         string // Vendor of the service root, or the name of its only OEM part
	product      string // Product of the service root
	manufacturer string // of the system
	model        string // of the system
	firmware     string // of the manager
}

// habits are what a BMC is known for, and which of it came up.
type habits struct {
	mu    sync.Mutex
	of    makers
	known []quirk
	fired []quirk
}

// learn takes names in; those that stay empty are kept as they were.
func (h *habits) learn(of makers) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of.root = cmp.Or(of.root, h.of.root)
	of.product = cmp.Or(of.product, h.of.product)
	of.manufacturer = cmp.Or(of.manufacturer, h.of.manufacturer)
	of.model = cmp.Or(of.model, h.of.model)
	of.firmware = cmp.Or(of.firmware, h.of.firmware)
	if of != h.of || h.known == nil {
		h.of, h.known = of, quirksOf(of)
	}
}

// has says whether the BMC is known for a quirk, and remembers that it came up.
func (h *habits) has(q quirk) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.Contains(h.known, q) {
		return false
	}
	h.fire(q)
	return true
}

// met notes a quirk that the BMC itself showed.
func (h *habits) met(q quirk) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fire(q)
}

// seen is who the BMC said that it is of, and what came up.
func (h *habits) seen() (makers, []quirk) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of, slices.Clone(h.fired)
}

func (h *habits) fire(q quirk) {
	if !slices.Contains(h.fired, q) {
		h.fired = append(h.fired, q)
	}
}

// quirksOf are the quirks that the table has for a machine.
func quirksOf(of makers) []quirk {
	var all []quirk
	known := false
	for _, row := range quirkTable {
		if !row.vendor(of) {
			continue
		}
		known = true
		if row.fits(of) {
			all = append(all, row.quirks...)
		}
	}
	if !known {
		return careful
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// vendor says whether the row is about the maker of the system or of its BMC.
func (r habit) vendor(of makers) bool {
	for _, name := range []string{of.root, of.manufacturer} {
		name = strings.ToLower(name)
		if slices.ContainsFunc(r.vendors, func(v string) bool { return strings.HasPrefix(name, v) }) {
			return true
		}
	}
	return false
}

func (r habit) fits(of makers) bool {
	if r.model != "" {
		if ok, err := path.Match(r.model, strings.ToLower(of.model)); !ok || err != nil {
			return false
		}
	}
	if of.firmware == "" {
		return true
	}
	return (r.from == "" || compareVersions(of.firmware, r.from) >= 0) &&
		(r.before == "" || compareVersions(of.firmware, r.before) < 0)
}

// compareVersions compares by the numbers in the first word that has a dot:
// "iLO 5 v2.72" is 2.72, "TGBT42S 2.83 2023-07-05" is 2.83.
func compareVersions(a, b string) int { return slices.Compare(numbers(a), numbers(b)) }

func numbers(version string) []int {
	for _, word := range strings.Fields(version) {
		if !strings.Contains(word, ".") {
			continue
		}
		var all []int
		for _, digits := range strings.FieldsFunc(word, func(r rune) bool { return r < '0' || r > '9' }) {
			n, _ := strconv.Atoi(digits) // the largest there is, if too long
			all = append(all, n)
		}
		return all
	}
	return nil
}

// Habits is what the BMC was seen to be and to have: for people, and for bug
// reports.
type Habits struct {
	Vendor, Product, Manufacturer, Model, Firmware string
	// Known are the quirks that the table has for it, Met those that came up.
	Known, Met []string
}

// Habits implements the ability that "slipway bmc check" shows.
func (m *machine) Habits() Habits {
	_, atBMC := m.client.habits.seen()
	h := &m.habits
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, q := range atBMC {
		h.fire(q)
	}
	return Habits{
		Vendor: h.of.root, Product: h.of.product, Manufacturer: h.of.manufacturer, Model: h.of.model, Firmware: h.of.firmware,
		Known: texts(h.known), Met: texts(h.fired),
	}
}

func texts(all []quirk) []string {
	out := make([]string, len(all))
	for i, q := range all {
		out[i] = string(q)
	}
	return out
}

// learn takes in what a ComputerSystem says of its maker.
func (m *machine) learn(s system) {
	of, _ := m.client.habits.seen()
	m.habits.learn(makers{root: of.root, product: of.product, manufacturer: words(s.object, "Manufacturer"), model: words(s.object, "Model")})
}

// has says whether the machine is known for a quirk.
func (m *machine) has(q quirk) bool { return m.habits.has(q) }

// rootMakers is what a service root says of the BMC's maker. Its OEM part
// names the maker where Vendor is missing (DSP0266 section 9.7.2).
func rootMakers(root object) makers {
	of := makers{root: words(root, "Vendor"), product: words(root, "Product")}
	if oem := at[object](root, "Oem"); of.root == "" && len(oem) == 1 {
		for name := range oem {
			of.root = printable(name)
		}
	}
	return of
}

// managerMakers is what a manager says of itself.
func managerMakers(manager object) makers { return makers{firmware: words(manager, "FirmwareVersion")} }
