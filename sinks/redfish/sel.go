package redfish

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// mostEntries is how many of the newest entries of a log are told.
const mostEntries = 16

// logNames are what vendors call the log of what happened to the hardware, in
// lower case, best first: the system event log, HPE's and Lenovo's, and those
// that hold other things too.
var logNames = []string{"sel", "iml", "platformlog", "standardlog", "eventlog", "log1", "event"}

// events shows the newest entries of the machine's log. Where it is, is looked
// up once; from then on it takes one request, or two where the newest are not
// in the first page.
func (m *machine) events(ctx context.Context, s system) (site.FacetState, []site.Entry, bool, error) {
	if m.logPath == nil {
		found, err := m.findLog(ctx, s)
		if err != nil {
			return site.FacetState{}, nil, false, err
		}
		m.logPath = &found
	}
	if *m.logPath == "" {
		return site.FacetState{}, nil, false, nil
	}
	o, err := m.client.get(ctx, *m.logPath)
	if err != nil {
		if hasStatus(err, http.StatusNotFound) {
			m.logPath = nil
		}
		return site.FacetState{}, nil, false, err
	}
	entries := entriesOf(o)
	if skip := number(o, "Members@odata.count") - mostEntries; at[string](o, "Members@odata.nextLink") != "" && skip > 0 && oldestFirst(items(o, "Members")) {
		last, err := m.client.get(ctx, fmt.Sprintf("%s?$skip=%d", *m.logPath, skip))
		if err != nil {
			return site.FacetState{}, nil, false, err
		}
		entries = append(entries, entriesOf(last)...)
	}
	entries = newest(entries)
	have := site.Values{"last": "none"}
	if n := len(entries); n > 0 {
		have["last"] = entries[n-1].ID
	}
	return site.FacetState{Have: have}, entries, true, nil
}

// findLog is the path of the entries of the log of the hardware, empty for
// none: the system's (DSP0268, LogService), or that of its manager.
func (m *machine) findLog(ctx context.Context, s system) (string, error) {
	services := link(s.object, "LogServices")
	if services == "" {
		paths, err := m.relatives(ctx, s, itsManagers)
		if err != nil || len(paths) == 0 {
			return "", err
		}
		manager, err := m.client.get(ctx, paths[0])
		if err != nil {
			return "", err
		}
		services = link(manager, "LogServices")
	}
	if services == "" {
		return "", nil
	}
	all, err := m.client.listed(ctx, services)
	if err != nil {
		return "", err
	}
	for _, service := range byName(all) {
		log, err := m.client.get(ctx, service)
		if err != nil && !lasting(err) {
			return "", err
		}
		if entries := link(log, "Entries"); entries != "" {
			return entries, nil
		}
	}
	return "", nil
}

// byName are the logs that may be meant, best first: by their names, or the only
// one that there is.
func byName(paths []string) []string {
	if len(paths) == 1 {
		return paths
	}
	rank := func(p string) int {
		called := strings.ToLower(path.Base(strings.TrimRight(p, "/")))
		if at := slices.Index(logNames, called); at >= 0 || !strings.Contains(called, "eventlog") {
			return at
		}
		return len(logNames)
	}
	known := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return rank(p) < 0 })
	slices.SortStableFunc(known, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	return known
}

// entriesOf are the entries that a page of a log holds; those that are mere
// references are left out.
func entriesOf(o object) []site.Entry {
	var all []site.Entry
	for _, e := range items(o, "Members") {
		id := name(e, "Id")
		if id == "" {
			continue
		}
		created := name(e, "Created")
		when, _ := time.Parse(time.RFC3339, created) // zero where it is none
		all = append(all, site.Entry{
			ID: strings.TrimSpace(created + " " + id), When: when, Severity: name(e, "Severity"),
			Text: cmp.Or(words(e, "Message"), words(e, "MessageId"), "no text"),
		})
	}
	return all
}

// oldestFirst says how the entries of a page are ordered.
func oldestFirst(members []object) bool {
	if len(members) < 2 {
		return true
	}
	first, last := members[0], members[len(members)-1]
	if a, b := name(first, "Created"), name(last, "Created"); a != b {
		return a < b
	}
	return number(first, "Id") < number(last, "Id")
}

// newest are the last entries by time, and by number where that is the same,
// oldest first.
func newest(all []site.Entry) []site.Entry {
	serial := func(e site.Entry) int {
		n, _ := strconv.Atoi(e.ID[strings.LastIndex(e.ID, " ")+1:])
		return n
	}
	slices.SortStableFunc(all, func(a, b site.Entry) int {
		return cmp.Or(a.When.Compare(b.When), cmp.Compare(serial(a), serial(b)))
	})
	all = slices.CompactFunc(all, func(a, b site.Entry) bool { return a.ID == b.ID })
	return all[max(len(all)-mostEntries, 0):]
}
