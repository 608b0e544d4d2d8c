package rule

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-gitops/slipway/engine/site"
)

// windowRules: when may what disrupts be done?
var windowRules = []Rule{
	{
		Code: "window-empty", Severity: site.SeverityError,
		What:  "A window does not end when it begins.",
		Why:   "It cannot be told whether it is never open or always, and a repair that waits for it may wait for good.",
		Wrong: `windows: night: {from: "22:00", to: "22:00"}` + usedNight,
		Right: `windows: night: {from: "22:00", to: "04:00"}` + usedNight,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Windows) {
				if w := s.Windows[key]; w.From == w.To && w.From != "" {
					found = append(found, also(s, "windows."+key+".from", wrong("windows."+key+".to",
						fmt.Sprintf("the window %s ends when it begins, at %s", key, w.From),
						"Write when it ends; for the whole day, 00:00 to 23:59.")))
				}
			}
			return found
		},
	},
	{
		Code: "window-days", Severity: site.SeverityWarning,
		What:  "A window has days, and each once.",
		Why:   "Another day was probably meant, on which nothing is done now; and an empty list reads as no day where it is every day.",
		Wrong: `windows: night: {days: ["mon", "tue", "mon"], from: "22:00", to: "04:00"}` + usedNight,
		Right: `windows: night: {days: ["mon", "tue", "wed"], from: "22:00", to: "04:00"}` + usedNight,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Windows) {
				days, path := s.Windows[key].Days, "windows."+key+".days"
				for _, day := range repeated(days) {
					found = append(found, wrong(path, fmt.Sprintf("the window %s has %s twice", key, day),
						"Remove one, or write the day that is meant."))
				}
				if days != nil && len(days) == 0 {
					found = append(found, wrong(path, fmt.Sprintf("the window %s lists no day", key),
						"List its days, or remove `days` for every day."))
				}
			}
			return found
		},
	},
	{
		Code: "time-zone", Severity: site.SeverityError,
		What:  "A time zone is one of the tz database, by its full name.",
		Why:   "A node keeps UTC with an unknown zone, and a window would open at another hour. Short names such as CEST are no zones: they do not say when the clock changes.",
		Wrong: `windows: night: {from: "22:00", to: "04:00", zone: "Europe/Zurch"}` + usedNight,
		Right: `windows: night: {from: "22:00", to: "04:00", zone: "Europe/Zurich"}` + usedNight,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Windows) {
				found = append(found, refuseZone("windows."+key+".zone", s.Windows[key].Zone)...)
			}
			return found
		},
		Node: eachSystem(func(path string, x site.System) []site.Finding {
			return refuseZone(path+".time.zone", x.Time.Zone)
		}),
	},
	{
		Code: "unknown-window", Severity: site.SeverityError, Firm: true,
		What: "The window of a node is an entry in `windows`.", Why: noMeaning,
		Wrong: `windows: night: {from: "22:00", to: "04:00"}` + usedNight + "\nnodes: \"n1\": window: \"nigth\"",
		Right: `windows: night: {from: "22:00", to: "04:00"}` + usedNight + "\nnodes: \"n1\": window: \"night\"",
		Node: func(s *site.Site, n *site.Node) []site.Finding {
			return refer("window", "windows", n.Window, s.Windows)
		},
	},
	{
		Code: "drift-facet", Severity: site.SeverityError,
		What:  "What is done about a difference is said of a facet that there is.",
		Why:   "Nothing reads the entry, so a difference that should be repaired is only reported.",
		Wrong: `nodes: "n1": drift: powr: "enforce"`,
		Right: `nodes: "n1": drift: power: "enforce"`,
		Node: func(_ *site.Site, n *site.Node) (found []site.Finding) {
			for _, f := range keys(n.Drift) {
				if !slices.Contains(facets, string(f)) {
					found = append(found, wrong("drift."+string(f),
						fmt.Sprintf("there is no facet %q%s", f, DidYouMean(string(f), facets)),
						"Use one of: "+strings.Join(facets, ", ")+"."))
				}
			}
			return found
		},
	},
	{
		Code: "drift-window", Severity: site.SeverityError,
		What:  `A node with "repair" in drift has a window.`,
		Why:   "The repair waits for a window that never comes, and the machine stays different from the design.",
		Wrong: `nodes: "n1": drift: power: "repair"`,
		Right: `windows: night: {from: "22:00", to: "04:00"}
nodes: "n1": {drift: power: "repair", window: "night"}`,
		Node: func(_ *site.Site, n *site.Node) (found []site.Finding) {
			for _, f := range keys(n.Drift) {
				if n.Drift[f] == "repair" && !states(n, "window") {
					found = append(found, wrong("drift."+string(f),
						fmt.Sprintf("differences of the facet %s are repaired in a window, and there is none", f),
						`Set window, or write "enforce" to have them repaired at once.`))
				}
			}
			return found
		},
	},
}

// usedNight puts a node into the window of the examples.
const usedNight = "\nnodes: \"n2\": window: \"night\""

// facets are those of which a design can say what is done about a difference.
// Those that no driver acts on yet are among them: a site may prepare for them.
var facets = []string{"bios", "boot", "config", "firmware", "image", "inventory", "network", "packages", "power", "storage"}

//go:embed zones.txt
var zoneNames string

// zones are the names of the tz database, one a line in zones.txt, from
// release 2025c. The list is ours and not the host's, so that a design means
// the same wherever it is evaluated.
var zones = sync.OnceValue(func() []string { return strings.Fields(zoneNames) })

func refuseZone(path, zone string) []site.Finding {
	if _, ok := slices.BinarySearch(zones(), zone); ok || zone == "" {
		return nil
	}
	return []site.Finding{wrong(path,
		fmt.Sprintf("there is no time zone %q%s", zone, DidYouMean(zone, zones())),
		`Write a name of the tz database such as "Europe/Zurich", or "UTC".`)}
}
