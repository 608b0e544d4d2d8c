package web

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// crowd is a fleet with many of everything that can be searched, and one of each with the text "Näedle".
func crowd(n int) *fleet {
	f := &fleet{said: "quiet", many: n, now: time.Now()}
	for i := range n {
		text := fmt.Sprintf("event %d", i)
		if i == n/2 {
			text = "a Näedle in the events"
		}
		f.past = append(f.past, site.Event{Seq: uint64(1000 + i), When: f.now.Add(time.Duration(i-n) * time.Second), Node: "web-1", Kind: site.EventState, State: site.States[i%len(site.States)], Text: text})
		f.audit = append(f.audit, site.AuditEntry{Seq: uint64(i + 2), When: f.now, By: "ben", Kind: "person", Verb: "pause", Outcome: site.AuditDone, Text: strings.ReplaceAll(text, "events", "audit log")})
	}
	return f
}

var anchors = regexp.MustCompile(`id="((?:event|entry|finding|approval|incident)-[^"]+)"`)

// A list is searched on the server, in upper or lower case, over all of its pages. Each entry has a place, and a link that shows
// it alone.
func TestListsAreSearched(t *testing.T) {
	f := crowd(250)
	h := opened(t, f)
	for path, c := range map[string]struct{ text, finds, without string }{
		"/sites/berlin/history":             {"näEDLE", "a Näedle in the events", "event 3<"},
		"/sites/berlin/nodes/web-1/history": {"näEDLE", "a Näedle in the events", "event 3<"},
		"/sites/berlin/audit":               {"NÄEDLE", "a Näedle in the audit log", "event 3<"},
		"/sites/berlin/findings":            {"NOBODY uses", "nobody uses it", "disk-failing"},
		"/sites/berlin/approvals":           {"GENERATION 2", "install generation 2", "powers off db-1"},
		"/sites/berlin/incidents":           {"SHELL-in", "shell-in-rack-2", "waiting-one"},
	} {
		t.Run(path, func(t *testing.T) {
			_, text := asked(h, "GET", path+"?q="+url.QueryEscape(c.text), "")
			if !strings.Contains(text, c.finds) || strings.Contains(text, c.without) || !strings.Contains(text, `value="`+c.text+`"`) || !strings.Contains(text, `href="?">Clear`) {
				t.Errorf("a search for %q gives %s", c.text, section(text))
			}
			if !strings.Contains(text, `href="/api/v1`+path) || !strings.Contains(html.UnescapeString(text), "q="+url.QueryEscape(c.text)) {
				t.Error("the JSON is not of the same search")
			}
			found := anchors.FindStringSubmatch(text)
			if found == nil {
				t.Fatal("no entry has a place")
			}
			id := found[1][strings.IndexByte(found[1], '-')+1:]
			if len(id) >= site.IDLength {
				part := id[1:7] // which no text has
				if _, text := asked(h, "GET", path+"?q="+part, ""); strings.Contains(text, found[0]) {
					t.Errorf("%q, which is nowhere but in a link, finds %s", part, found[0])
				}
			}
			_, alone := asked(h, "GET", path+"?q="+id, "")
			if all := anchors.FindAllString(alone, -1); len(all) > 2 || !slices.Contains(all, found[0]) { // another one may name it
				t.Errorf("the link to %s shows %v", found[1], all)
			}
			_, none := asked(h, "GET", path+"?q=nothing-has-this", "")
			if anchors.MatchString(none) || !strings.Contains(strings.ToLower(none), "matches this filter") && !strings.Contains(strings.ToLower(none), "this text") {
				t.Errorf("a search in vain says %s", section(none))
			}
			if status, long := asked(h, "GET", path+"?q="+strings.Repeat("ä", 201), ""); status != http.StatusBadRequest || !strings.Contains(long, "it may have at most 200") {
				t.Errorf("a long text: %d", status)
			}
			if status, _ := asked(h, "GET", path+"?q="+strings.Repeat("ä", 200), ""); status != http.StatusOK {
				t.Errorf("a text that is just short enough: %d", status)
			}
			for _, hostile := range []string{`"><script>alert(1)</script>`, "\x1b[31m\u202e\x00", "{{.}}", "%", `\`, "</section><!--"} {
				_, text := asked(h, "GET", path+"?q="+url.QueryEscape(hostile), "")
				if strings.Contains(text, "<script>alert") || strings.ContainsAny(text, "\x1b\u202e\x00") || len(fragments([]byte(text))) != len(fragments([]byte(none))) {
					t.Errorf("%q is not text", hostile)
				}
			}
		})
	}
}

func section(text string) string {
	_, text, _ = strings.Cut(text, "<section")
	return text[:min(len(text), 1500)]
}

var rel = regexp.MustCompile(`<a href="([^"]+)" rel="next">`)

// However many there are, a page has 100, and all of them are on one page each.
func TestListsArePaged(t *testing.T) {
	h := opened(t, crowd(250))
	for path, want := range map[string]int{"/sites/berlin/history": 250, "/sites/berlin/nodes/web-1/history?kind=state": 250, "/sites/berlin/audit?q=event": 249, "/sites/berlin/findings": 251} {
		seen, pages := map[string]int{}, 0
		for next := path; next != ""; pages++ {
			status, text := asked(h, "GET", next, "")
			all := anchors.FindAllStringSubmatch(text, -1)
			if status != 200 || len(all) > perPage || pages > 5 {
				t.Fatalf("%s: %d with %d entries on page %d", next, status, len(all), pages)
			}
			for _, a := range all {
				seen[a[1]]++
			}
			if more := rel.FindStringSubmatch(text); more != nil {
				base, _, _ := strings.Cut(path, "?")
				next = base + strings.ReplaceAll(more[1], "&amp;", "&")
			} else {
				next = ""
			}
		}
		if strings.Contains(path, "findings") { // most of them are the same
			if pages != 3 {
				t.Errorf("%s has %d pages", path, pages)
			}
			continue
		}
		if len(seen) != want || pages != 3 {
			t.Errorf("%s has %d entries on %d pages", path, len(seen), pages)
		}
	}
}

// A node with very many events has a page of usual size.
func TestNodeWithManyEventsHasBoundedPages(t *testing.T) {
	f := crowd(100_000)
	f.many, f.audit = 0, nil
	h := opened(t, f)
	for _, path := range []string{"/sites/berlin/nodes/web-1?range=all", "/sites/berlin/nodes/web-1?range=hour", "/sites/berlin/nodes/web-1/history", "/sites/berlin/history?q=event"} {
		began := time.Now()
		status, text := asked(h, "GET", path, "")
		t.Logf("%s: %d bytes in %v", path, len(text), time.Since(began))
		if status != 200 || len(text) > 400_000 || strings.Count(text, "<tr") > 250 {
			t.Errorf("%s: %d, %d bytes, %d rows", path, status, len(text), strings.Count(text, "<tr"))
		}
	}
}

// The picture of a node over time has its states with what is not known, leads to the history, and says it all in words too.
func TestTimelineOfNode(t *testing.T) {
	h := opened(t, &fleet{said: "quiet", now: time.Now().Truncate(time.Minute)})
	_, text := asked(h, "GET", "/sites/berlin/nodes/web-2", "")
	life := fragments([]byte(text))["timeline"]
	for _, part := range []string{
		`<desc>web-2 over`, `aria-current="true">last day`, `class="gap"`, "no daemon acted for the site", "no event of this time is kept", `class="is stalled held"`,
		`href="/sites/berlin/nodes/web-2/history?q=2#event-2"`, "quarantined", "its state is not known for ", "not recorded: this is before",
	} {
		if !strings.Contains(life, part) {
			t.Errorf("no %q in %s", part, life)
		}
	}
	if !strings.Contains(text, "/api/v1/sites/berlin/nodes/web-2/timeline?range=day") {
		t.Error("no link to its JSON")
	}
	for name, says := range map[string]string{"hour": "last hour", "week": "last week", "all": "all that is kept", "nonsense": "last day"} {
		_, text := asked(h, "GET", "/sites/berlin/nodes/web-2?range="+name, "")
		if !strings.Contains(fragments([]byte(text))["timeline"], `aria-current="true">`+says) {
			t.Errorf("range %s is not chosen", name)
		}
	}
	empty := opened(t, &fleet{said: "quiet", past: []site.Event{}})
	_, text = asked(empty, "GET", "/sites/berlin/nodes/web-2", "")
	if life := fragments([]byte(text))["timeline"]; !strings.Contains(life, "no event of this time is kept") || !strings.Contains(life, "0 events") {
		t.Errorf("without events: %s", life)
	}
}
