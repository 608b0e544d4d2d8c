package rule

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/window"
)

// windowRules: when may Slipway do disruptive steps?
var windowRules = []Rule{
	{
		Code: "window-shape", Severity: site.SeverityError,
		What:  "A window has `from` and `to`, and perhaps `days`, or else `cron` and `length`.",
		Why:   "Slipway cannot tell when it is open, and whatever waits for it may wait forever.",
		Wrong: `windows: night: {from: "22:00", length: "6h"}` + usedNight,
		Right: `windows: night: {cron: "0 22 * * *", length: "6h"}` + usedNight,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Windows) {
				found = append(found, refuseShape(s, key)...)
			}
			return found
		},
	},
	{
		Code: "window-empty", Severity: site.SeverityError,
		What:  "A window does not end when it begins.",
		Why:   "Slipway cannot tell whether it is always or never open, and a repair that waits for it may wait forever.",
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
		Why:   "You probably meant another day, on which nothing is done now; and an empty list looks like no day, but means every day.",
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
		Code: "window-cron", Severity: site.SeverityError,
		What:  "The `cron` of a window has the five fields of crontab(5), and names a time that comes.",
		Why:   "The window never opens, and whatever waits for it waits forever.",
		Wrong: `windows: night: {cron: "0 22 30 2 *", length: "6h"}` + usedNight,
		Right: `windows: night: {cron: "0 22 28 2 *", length: "6h"}` + usedNight,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Windows) {
				if w := s.Windows[key]; w.Cron != "" {
					found = append(found, refuseCron("windows."+key+".cron", w.Cron)...)
				}
			}
			return found
		},
	},
	{
		Code: "window-length", Severity: site.SeverityWarning,
		What:  "A window is open for at least five minutes, and closed now and then.",
		Why:   "Slipway never begins a step in a window that is shorter than the step is expected to take. A window that is always open delays nothing.",
		Wrong: `windows: night: {cron: "0 22 * * *", length: "24h"}` + usedNight,
		Right: `windows: night: {cron: "0 22 * * *", length: "23h"}` + usedNight,
		Site: func(s *site.Site) (found []site.Finding) {
			for _, key := range keys(s.Windows) {
				found = append(found, refuseLength(s, key)...)
			}
			return found
		},
	},
	{
		Code: "time-zone", Severity: site.SeverityError,
		What:  "A time zone is one of the tz database, by its full name.",
		Why:   "A node keeps UTC with an unknown zone, and a window would open at another hour. Short names such as CEST are not zones: they do not say when the clock changes.",
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
		What: "The windows of a node are entries in `windows`.", Why: noMeaning,
		Wrong: `windows: night: {from: "22:00", to: "04:00"}` + usedNight + "\nnodes: \"n1\": window: \"nigth\"",
		Right: `windows: night: {from: "22:00", to: "04:00"}` + usedNight + "\nnodes: \"n1\": window: \"night\"",
		Node: func(s *site.Site, n *site.Node) (found []site.Finding) {
			for _, w := range windowsOf(n) {
				found = append(found, refer(w.path, "windows", w.name, s.Windows)...)
			}
			return found
		},
	},
	{
		Code: "drift-facet", Severity: site.SeverityError,
		What:  "`drift` names only facets that exist.",
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
				if n.Drift[f] == "repair" && len(windowsOf(n)) == 0 {
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

// windowUse is a window that a node names; the name is empty if unknown.
type windowUse struct{ path, name string }

// windowsOf lists the windows that a node states.
func windowsOf(n *site.Node) []windowUse {
	return slices.DeleteFunc([]windowUse{
		{"window", n.Window},
		{"windows.online", n.Windows.Online},
		{"windows.reboot", n.Windows.Reboot},
		{"windows.destructive", n.Windows.Destructive},
	}, func(w windowUse) bool { return w.name == "" && !states(n, w.path) })
}

// refuseShape reports a window that lacks a part or has one too many.
func refuseShape(s *site.Site, key string) []site.Finding {
	path := "windows." + key
	has := func(field string) bool { return s.Origins.Has(path + "." + field) }
	const fix = "Write from and to, or cron and length."
	of := func(message string) []site.Finding {
		return []site.Finding{wrong(path, "the window "+key+" "+message, fix)}
	}
	switch clock, cron := has("from") || has("to"), has("cron") || has("length"); {
	case clock && cron, cron && has("days"):
		return of("has times of day or days, and cron or length as well")
	case !clock && !cron:
		return of("does not say when it begins")
	case clock && !has("from"), cron && !has("cron"):
		return of("says when it ends, and not when it begins")
	case clock && !has("to"), cron && !has("length"):
		return of("says when it begins, and not when it ends")
	}
	return nil
}

// refuseCron reports a cron expression that is invalid, that names no time, or
// that probably names other times than intended.
func refuseCron(path, expression string) []site.Finding {
	w, err := window.Parse(&site.Window{Cron: expression, Length: site.Duration(time.Hour)})
	if err != nil {
		return []site.Finding{wrong(path, err.Error(),
			"Write the minute (0-59), the hour (0-23), the day of the month (1-31), the month (1-12) and the day of the week (0-7, Sunday being 0 and 7).")}
	}
	if open, _, next := w.At(someTime); !open && next.IsZero() {
		return []site.Finding{wrong(path, fmt.Sprintf("cron %q: there is no such day", expression), "Correct the day or the month.")}
	}
	fields := strings.Fields(expression)
	if strings.HasPrefix(fields[2], "*") || strings.HasPrefix(fields[4], "*") {
		return nil
	}
	f := wrong(path, fmt.Sprintf("cron %q opens the window on the days %s of the month, and on the days %s of every week as well", expression, fields[2], fields[4]),
		`Write "*" for one of the two. Cron cannot combine them, as for the first Monday of a month.`)
	f.Severity, f.Why = site.SeverityWarning, "Where both days are restricted, one of them is enough (crontab(5)), and the window is open more often than it reads."
	return []site.Finding{f}
}

// someTime is a fixed time for finding when a window is open: a check has no
// clock.
var someTime = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// shortestWindow is the time for a step that takes a node out of service.
const shortestWindow = 5 * time.Minute

// refuseLength reports a window that is open for too short or too long.
func refuseLength(s *site.Site, key string) []site.Finding {
	w, path := *s.Windows[key], "windows."+key+".length"
	if w.Cron == "" {
		path = "windows." + key + ".to"
	} else if _, err := window.Parse(&site.Window{Cron: "0 0 * * *", Length: w.Length}); err != nil && w.Length != 0 {
		f := wrong(path, err.Error(), "Write a length of five minutes or more.")
		f.Severity = site.SeverityError
		return []site.Finding{f}
	}
	switch length := opening(w); {
	case length == 0:
	case length < shortestWindow:
		return []site.Finding{wrong(path, fmt.Sprintf("the window %s is open for %s", key, plainly(site.Duration(length))), "Let it be open for longer.")}
	case length > window.LongestLength:
		return []site.Finding{wrong(path, fmt.Sprintf("the window %s is always open", key), "Let it close, or remove it from the nodes that have it.")}
	}
	return nil
}

// opening returns how long a window stays open; 0 if unknown.
func opening(w site.Window) time.Duration {
	w.Zone = "" // time-zone checks it
	parsed, err := window.Parse(&w)
	if err != nil {
		return 0
	}
	at := someTime
	if open, until, next := parsed.At(at); !open || until.Sub(at) <= window.LongestLength {
		at = next
	}
	if at.IsZero() {
		return 0
	}
	_, until, _ := parsed.At(at)
	return until.Sub(at)
}

// facets are those for which a design can say what to do about drift. Some have
// no driver yet: a site may prepare for them.
var facets = []string{"base", "bios", "boot", "config", "definition", "disks", "firmware", "image", "inventory", "network", "packages", "power", "storage"}

//go:embed zones.txt
var zoneNames string

// zones returns the names of the tz database, one per line in zones.txt, from
// release 2025c. The list is part of Slipway and not read from the host, so
// that a design means the same everywhere.
var zones = sync.OnceValue(func() []string { return strings.Fields(zoneNames) })

func refuseZone(path, zone string) []site.Finding {
	if _, ok := slices.BinarySearch(zones(), zone); ok || zone == "" {
		return nil
	}
	return []site.Finding{wrong(path,
		fmt.Sprintf("there is no time zone %q%s", zone, DidYouMean(zone, zones())),
		`Write a name of the tz database such as "Europe/Zurich", or "UTC".`)}
}
