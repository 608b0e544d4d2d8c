package web

import (
	"compress/gzip"
	"fmt"
	"html"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// The next page of the plan is there also when its last node has nothing more, and an empty page does not
// say that nothing is pending.
func TestPlanGoesOn(t *testing.T) {
	f := &fleet{said: "there"}
	for i := range 120 {
		f.plans = append(f.plans, site.NodePlan{Node: fmt.Sprintf("x-%05d", i), Waiting: "the installer runs"})
	}
	h := opened(t, f)
	_, text := asked(h, "GET", "/sites/berlin/plan?after=x-00005a", "") // which is there no more
	if !strings.Contains(text, ">x-00006<") || strings.Contains(text, ">x-00005<") || strings.Contains(text, "Nothing is pending") {
		t.Error("the page does not go on after a node that has left the plan")
	}
	if _, text := asked(h, "GET", "/sites/berlin/plan?after=zz", ""); strings.Contains(text, "Nothing is pending") || !strings.Contains(text, "121 nodes") {
		t.Error("says that nothing is pending after the last node")
	}
}

// All approvals that wait are listed, also those of the nodes that the overview has no room for.
func TestAllApprovalsAreListed(t *testing.T) {
	f := &fleet{said: "there", size: 100, waiting: true}
	address, as := onNetwork(t, f)
	for _, who := range []string{"ana@example.org", "carol@example.org"} {
		_, text, _ := sends(t, as(who), "GET", address+"/sites/berlin/approvals", "")
		_, next, _ := sends(t, as(who), "GET", address+"/sites/berlin/approvals?after=x-00098", "")
		if n, m := strings.Count(text, "<b>Approval causes:</b>"), strings.Count(next, "<b>Approval causes:</b>"); n != 100 || m != 1 || !strings.Contains(text, `href="?after=x-00098"`) || !strings.Contains(text, "101 nodes wait for an approval of their own.") {
			t.Errorf("%s: %d and then %d of 101 are listed", who, n, m)
		}
		if _, text, _ := sends(t, as(who), "GET", address+"/sites/berlin", ""); !strings.Contains(text, "52 more nodes wait for a person") {
			t.Errorf("%s: the overview does not say how many more wait", who)
		}
	}
	_, text, _ := sends(t, as("carol@example.org"), "GET", address+"/sites/berlin/approvals", "")
	if strings.Contains(text, "No approved loss") || strings.Contains(text, "<p>Nothing.</p>") || !strings.Contains(text, "You may not read which losses of the whole site wait or were approved.") {
		t.Error("somebody who may see some nodes is told about the site")
	}
}

// The list of sites says of each what a person has to know first: "none" hides no incident, halt or problem.
func TestSitesSayWhatWaits(t *testing.T) {
	_, text := asked(opened(t, &fleet{said: "there", more: []string{"paris"}}), "GET", "/", "")
	if strings.Count(text, "2 compromised machines are not proven off, 1 incident waits for confirmation") != 2 || strings.Contains(text, ">none<") {
		t.Error("the sites do not say that incidents wait")
	}
}

// A page without anything says why: a filter, what the caller may see, or the design.
func TestEmptyPagesSayWhy(t *testing.T) {
	racked, unracked := &fleet{said: "there"}, &fleet{said: "there", unracked: true}
	at, as := onNetwork(t, unracked)
	for path, says := range map[string]string{
		"/racks?q=nothing": "No rack matches this filter.",
		"/racks?after=r99": "There are no more racks.",
	} {
		if _, text := asked(opened(t, racked), "GET", "/sites/berlin"+path, ""); !strings.Contains(text, says) {
			t.Errorf("%s does not say %q", path, says)
		}
	}
	for who, says := range map[string]string{"ana@example.org": "No rack is in the design.", "carol@example.org": "No node that you may see is in a rack."} {
		if _, text, _ := sends(t, as(who), "GET", at+"/sites/berlin/racks", ""); !strings.Contains(text, says) {
			t.Errorf("%s is not told %q", who, says)
		}
	}
	if status, text := asked(opened(t, racked), "GET", "/sites/berlin/incidents?name=none", ""); status != 404 || !strings.Contains(text, "neither the records nor the design in force has an incident of this name") {
		t.Errorf("an incident that is not known: %d", status)
	}
}

// "Nothing is pending" is said of a node only where its plan has nothing at all and the node does not leave.
func TestNothingPendsOnNode(t *testing.T) {
	for name, x := range map[string]struct {
		plan    site.NodePlan
		removes []site.Removal
		says    string
	}{
		"nothing":    {site.NodePlan{Notes: []string{"a note"}, Seen: time.Now()}, nil, "Nothing is pending."},
		"never seen": {site.NodePlan{Notes: []string{"a note"}}, nil, "Not known: the machine was never seen."},
		"none":       {site.NodePlan{Node: "db-2"}, nil, "Nothing is pending."},
		"blocked":    {site.NodePlan{Blocked: []string{"the generation is lower"}}, nil, "the generation is lower"},
		"waiting":    {site.NodePlan{Waiting: "the installer runs"}, nil, "the installer runs"},
		"foreign":    {site.NodePlan{Foreign: "another system answers"}, nil, "another system answers"},
		"unproven":   {site.NodePlan{Unproven: "it claims generation 2"}, nil, "it claims generation 2"},
		"reported":   {site.NodePlan{Reported: []string{"the time zone differs"}}, nil, "the time zone differs"},
		"leaves":     {site.NodePlan{Node: "db-2"}, []site.Removal{{Node: "db-1", Held: "more than the limit"}}, "This node leaves the design. Slipway does not change its machine. Not carried out yet: more than the limit"},
	} {
		if x.plan.Node == "" {
			x.plan.Node = "db-1"
		}
		h := opened(t, &fleet{said: "there", plans: []site.NodePlan{x.plan}, removes: x.removes})
		_, text := asked(h, "GET", "/sites/berlin/nodes/db-1", "")
		if !strings.Contains(text, x.says) || strings.Contains(text, "Nothing is pending.") != (x.says == "Nothing is pending.") {
			t.Errorf("%s: does not say %q, or says that nothing is pending", name, x.says)
		}
		if _, text := asked(h, "GET", "/sites/berlin/do/approve?node=db-1", ""); x.removes != nil && !strings.Contains(text, x.says) {
			t.Errorf("%s: the approval does not say %q", name, x.says)
		}
	}
}

// A list that is cut says so, and how much it leaves out.
func TestCutListsSaySo(t *testing.T) {
	f := &fleet{said: "there", size: 600, waiting: true, many: 600}
	h := opened(t, f)
	for path, says := range map[string]string{
		"/verify":                "The first 500 of 603 are shown.",
		"/nodes/web-1/agent-log": "The last 500 of 601 are shown.",
	} {
		if _, text := asked(h, "GET", "/sites/berlin"+path, ""); strings.Count(text, says) != strings.Count(text, " are shown.") || !strings.Contains(text, says) {
			t.Errorf("%s does not say %q", path, says)
		}
	}
	if _, text := asked(h, "GET", "/sites/berlin/verify?outcome=ok", ""); strings.Contains(text, "are shown") {
		t.Error("a list that is whole says that it is cut")
	}
}

// Long pages have a way back to their beginning.
func TestPagersLeadBack(t *testing.T) {
	h := opened(t, &fleet{said: "there", removes: []site.Removal{{Node: "old-1", Held: "more than the limit"}}})
	for _, path := range []string{"/plan", "/rollout", "/nodes", "/racks", "/findings", "/approvals"} {
		_, first := asked(h, "GET", "/sites/berlin"+path, "")
		_, next := asked(h, "GET", "/sites/berlin"+path+"?after=web-1", "")
		if strings.Contains(first, "First page") || !strings.Contains(next, `<a href="?">First page</a>`) {
			t.Errorf("%s: the first page has a way to itself, or the next one none", path)
		}
	}
	if _, text := asked(h, "GET", "/sites/berlin/plan", ""); !strings.Contains(text, "Not carried out yet: more than the limit") || strings.Contains(text, "Held:") {
		t.Error("the plan does not say why a removal is not carried out")
	}
}

// Racks come some at a time, in order of their names, each with its nodes, also by a filter.
func TestRacksArePaged(t *testing.T) {
	f := &fleet{said: "there", size: 1994, racked: true} // 50 racks
	h := opened(t, f)
	figures := func(query string) (names []string, text string) {
		_, text = asked(h, "GET", "/sites/berlin/racks"+query, "")
		for _, part := range strings.Split(text, "<figcaption>")[1:] {
			name, _, _ := strings.Cut(part, "<")
			names = append(names, name)
		}
		return names, text
	}
	first, text := figures("")
	if len(first) != 24 || !strings.HasPrefix(first[0], "r1: 40 nodes") || !strings.HasPrefix(first[9], "r10: 40 nodes") || !strings.Contains(text, `href="?after=r24"`) || !strings.Contains(text, "50 racks") {
		t.Errorf("first %q", first)
	}
	if last, text := figures("?after=r48"); len(last) != 2 || !strings.HasPrefix(last[1], "r50: ") || strings.Contains(text, "Next page") {
		t.Errorf("last %q", last)
	}
	found, text := figures("?q=x-00100")
	if len(found) != 1 || !strings.HasPrefix(found[0], "r3: 40 nodes") || strings.Count(text, `other" href`) != 39 {
		t.Errorf("by a filter %q, %d faint", found, strings.Count(text, `other" href`))
	}
}

// Who may see some nodes sees the racks of these alone, without what the design says of them. A filter that is none is refused.
func TestRacksOfSomeNodes(t *testing.T) {
	granted := (&site.Site{Nodes: map[string]*site.Node{"web-1": {Name: "web-1"}, "web-2": {Name: "web-2"}}, Access: site.Access{
		Roles:  map[string]site.AccessRole{"viewer": {Verbs: []string{"read"}, Nodes: &site.Selector{Match: site.Match{Names: []string{"web-1"}}}}},
		People: map[string][]string{"erin@example.org": {"viewer"}}}}).Granted()
	at, as := onNetwork(t, &fleet{said: "there", size: 100, racked: true, granted: site.GrantedState{Granted: granted}})
	for who, want := range map[string][]string{
		"erin@example.org": {`"name":"r1","nodes":[{"name":"web-1"`, `"all":1,`, `"total":1,`, `"some":true`},
		"ana@example.org":  {`"name":"r1","rack":{`, `"all":40,`, `"name":"r2","rack":{}`, `"total":3,`},
	} {
		_, text, _ := sends(t, as(who), "GET", at+"/api/v1/sites/berlin/racks", "")
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s is not told %s: %.600s", who, part, text)
			}
		}
		if strings.Contains(text, "web-2") != (who == "ana@example.org") {
			t.Errorf("%s: %.600s", who, text)
		}
	}
	for query, want := range map[string]int{"with=findings": 200, "with=approval": 200, "with=nothing": 400, "limit=101": 400} {
		if status, text, _ := sends(t, as("ana@example.org"), "GET", at+"/api/v1/sites/berlin/racks?"+query, ""); status != want {
			t.Errorf("%s: %d %.300s", query, status, text)
		}
	}
}

// A page has a size that does not grow with the site, and travels compressed to a browser that asks for it from a page here,
// or typed its address: what others have a browser load is not, for its size would tell what is in it.
func TestSizesOfPages(t *testing.T) {
	f := large()
	f.links = func(string) *item.LinksSeen { return nil }
	address, as := onNetwork(t, f)
	ana := as("ana@example.org")
	ana.Transport.(*http.Transport).DisableCompression = true
	for path, most := range map[string]int{"": 60, "/nodes": 60, "/racks": 175, "/network": 90} {
		_, plain, _ := sends(t, ana, "GET", address+"/sites/berlin"+path, "", "Accept-Encoding", "gzip")
		_, short, header := sends(t, ana, "GET", address+"/sites/berlin"+path, "", "Accept-Encoding", "br, gzip", "Sec-Fetch-Site", "same-origin")
		t.Logf("%s: %d KB, %d KB compressed", path, len(plain)>>10, len(short)>>10)
		if len(plain)>>10 > most || len(short)*2 > len(plain) {
			t.Errorf("%s: %d KB, %d KB compressed", path, len(plain)>>10, len(short)>>10)
		}
		z, err := gzip.NewReader(strings.NewReader(short))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(z); err != nil || !strings.HasSuffix(string(text), "</html>\n") || header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: %v, %d bytes", path, err, len(text))
		}
		for _, headers := range [][]string{{"Accept-Encoding", "gzip;q=0", "Sec-Fetch-Site", "none"}, {"Accept-Encoding", "br", "Sec-Fetch-Site", "none"},
			{"Accept-Encoding", "gzip", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}} {
			if status, text, header := sends(t, ana, "GET", address+"/sites/berlin"+path, "", headers...); header.Get("Content-Encoding") != "" || status != 200 || !strings.Contains(text, "</html>") {
				t.Errorf("%s with %q is compressed", path, headers)
			}
		}
	}
}

// A rack with more nodes than can be drawn is drawn from its lowest unit up, whatever they are called.
func TestCrowdedRack(t *testing.T) {
	h := opened(t, &fleet{said: "there", size: 600, crowded: true})
	_, text := asked(h, "GET", "/sites/berlin/racks", "")
	if !strings.Contains(text, "<title>x-00592; ") || strings.Contains(text, "<title>x-00000; ") || !strings.Contains(text, "606 nodes") {
		t.Error("the rack is cut by name")
	}
}

// Cables come by 20 nodes, those that differ first, and each node once, by filters that the daemon applies.
func TestLinksArePaged(t *testing.T) {
	f := &fleet{said: "there", size: 60, racked: true}
	h := opened(t, f)
	var all []string
	pages := 0
	for at := "/sites/berlin/network"; at != ""; pages++ {
		_, text := asked(h, "GET", at, "")
		for _, part := range strings.Split(text, `/nodes/`)[1:] {
			if name, _, isRow := strings.Cut(part, `">`); isRow && !strings.Contains(name, "?") {
				all = append(all, name)
			}
		}
		_, next, _ := strings.Cut(text, `href="?after=`)
		if at, _, _ = strings.Cut(next, `"`); at != "" {
			at = "/sites/berlin/network?after=" + html.UnescapeString(at)
		}
		if pages == 0 && !strings.Contains(text, "66 nodes with designed links, 1 differ, 65 as designed. 20 nodes on this page; those with differences come first.") {
			t.Errorf("the first page says\n%s", text)
		}
	}
	if slices.Sort(all); pages != 4 || len(slices.Compact(all)) != 66 {
		t.Errorf("%d pages have %d nodes: %q", pages, len(all), all)
	}
	for query, want := range map[string]string{
		"?state=differ": "1 match.", "?differ": "1 match.", "?state=as+designed&rack=r2": "26 match.", "?q=X-0001": "10 match.", "?switch=leaf-1": "66 match.", "?switch=leaf-9": "No node with designed links matches this filter.",
	} {
		if status, text := asked(h, "GET", "/sites/berlin/network"+query, ""); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s does not say %q", query, want)
		}
	}
	for _, query := range []string{"?after=compute-1", "?after=nothing/x", "?state=x"} {
		if status, _ := asked(h, "GET", "/sites/berlin/network"+query, ""); status != 400 {
			t.Errorf("%s: %d", query, status)
		}
	}
}

// Nodes and racks are chosen by the labels of the design.
func TestFilterByLabel(t *testing.T) {
	h := opened(t, &fleet{said: "there=1"})
	for path, want := range map[string]string{
		"nodes?label=note": "6 nodes match", "nodes?label=note%3Dthere%3D1": "6 nodes match", "nodes?label=note%3D": "No node matches", "nodes?label=nothing": "No node matches",
		"nodes?label=note&q=web": "4 nodes match", "racks?label=note": "1 rack", "racks?label=nothing": "No rack matches",
	} {
		if status, text := asked(h, "GET", "/sites/berlin/"+path, ""); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%s does not say %q", path, want)
		}
	}
}

// The origin of a value leads to its line at the forge, and of a value of the schema nowhere.
func TestOriginsLeadToTheForge(t *testing.T) {
	f := &fleet{said: "there", files: "https://git.example/acme/site/blob/0123/"}
	h := opened(t, f)
	_, text := asked(h, "GET", "/sites/berlin/nodes/web-2/design", "")
	const link = `<a href="https://git.example/acme/site/blob/0123/sites/berlin/site.cue#L12" rel="noreferrer">sites/berlin/site.cue:12:3</a>`
	if !strings.Contains(text, link) {
		t.Errorf("no %s in\n%s", link, text)
	}
	for _, page := range []string{"/nodes/web-2", "/plan"} {
		if _, text := asked(h, "GET", "/sites/berlin"+page, ""); !strings.Contains(text, `<a href="https://git.example/acme/site/blob/0123/sites/berlin/site.cue#L3" rel="noreferrer">sites/berlin/site.cue:3:4</a>`) {
			t.Errorf("%s: a change does not lead to its line", page)
		}
	}
	f.files = "javascript:alert(1)"
	if _, text := asked(h, "GET", "/sites/berlin/nodes/web-2/design", ""); strings.Contains(text, `href="javascript`) {
		t.Error("a forge without a web address is a link")
	}
	f.files = ""
	if _, text := asked(h, "GET", "/sites/berlin/nodes/web-2/design", ""); strings.Contains(text, "noreferrer") {
		t.Error("there is a link without a forge")
	}
}
