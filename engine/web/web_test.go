package web

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/net/html"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Whatever machines, designs and people say is shown as text: it makes no element, no attribute, no
// other direction and no page of megabytes.
func TestHostileTextIsText(t *testing.T) {
	for name, said := range map[string]string{
		"markup":     `<script>alert(1)</script><img src=x onerror=alert(1)>"'><a href="javascript:alert(1)">x</a>{{.}}</section><!--`,
		"controls":   "\x1b[31mred\x1b[0m\x00\a\r\nforged line",
		"directions": "abc\u202egpj.exe\u2066\u2069\u200b\u200d\ufeff",
		"long":       strings.Repeat("naïve name ", 10_000),
	} {
		t.Run(name, func(t *testing.T) {
			plain, hostile := opened(t, &fleet{said: "quiet"}), opened(t, &fleet{said: said})
			for _, path := range every() {
				_, before := asked(plain, "GET", path, "")
				_, after := asked(hostile, "GET", path, "")
				if strings.HasSuffix(path, "/console") {
					continue // has the lines of the machine as they are; see below
				}
				if a, b := elements(t, before), elements(t, after); !slices.Equal(a, b) {
					t.Errorf("%s: %d elements became %d", path, len(a), len(b))
				}
				if i := strings.IndexFunc(after, func(r rune) bool {
					return r != '\n' && r != '\t' && !unicode.IsPrint(r)
				}); i >= 0 {
					t.Errorf("%s has %q", path, after[i:min(len(after), i+20)])
				}
				if name == "long" && len(after) > 400_000 && !strings.Contains(path, "/do/") {
					t.Errorf("%s has %d bytes", path, len(after))
				}
			}
			_, text := asked(hostile, "GET", "/sites/berlin/nodes/web-2/console", "")
			if strings.Contains(text, "<img") || strings.ContainsAny(text, "\x1b\u202e\r") {
				t.Errorf("the console has %q", text)
			}
		})
	}
}

// elements are those of a page with the names of their attributes, but for cells and breaks.
func elements(t *testing.T, page string) (all []string) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode || n.Data == "br" || n.Data == "tspan" || n.Data == "text" {
			continue
		}
		text := n.Data
		for _, a := range n.Attr {
			text += " " + a.Key
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.HasPrefix(strings.ToLower(a.Val), "javascript:") {
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
		all = append(all, text)
	}
	return all
}

// Each part that changes by itself is found, and has no other part in it.
func TestEveryPageHasPartsThatChange(t *testing.T) {
	h := opened(t, &fleet{})
	for _, v := range views {
		path := strings.NewReplacer("{site}", "berlin", "{node}", "web-2", "{number}", "7", "{commit}", newRack).Replace(v.path)
		status, text := asked(h, "GET", path, "")
		if status != 200 {
			t.Errorf("%s: %d", path, status)
		}
		parts := fragments([]byte(text))
		for id, part := range parts {
			if strings.Count(part, "<section") != 1 {
				t.Errorf("%s: part %s has another one in it", path, id)
			}
		}
		if len(parts) != strings.Count(text, "<section") || len(parts) == 0 && !v.costly {
			t.Errorf("%s: %d parts of %d", path, len(parts), strings.Count(text, "<section"))
		}
		if got := strings.Count(text, "/api/v1/"); got == 0 {
			t.Errorf("%s has no link to its JSON", path)
		}
		if found, _, _ := find(path); found == nil || found.path != v.path {
			t.Errorf("%s is not found again", path)
		}
	}
}

// What is sent to the API is what the form said, with what was shown.
func TestActs(t *testing.T) {
	f := &fleet{}
	h := opened(t, f)
	own := []string{"Sec-Fetch-Site", "same-origin"}
	for form, want := range map[string]site.Order{
		"approve?digest=" + digestOfSet + "&sure=yes":                                       {Verb: site.VerbApprove, Digest: digestOfSet},
		"approve?node=db-1&shown=" + digestOfSet + "&sure=yes&reason=ok":                    {Verb: site.VerbApprove, Node: "db-1", Shown: digestOfSet, Reason: "ok"},
		"disapprove?node=db-1&sure=yes":                                                     {Verb: site.VerbDisapprove, Node: "db-1"},
		"pause?reason=smoke&sure=yes":                                                       {Verb: site.VerbPause, Reason: "smoke"},
		"pause?node=db-1&reason=smoke&sure=yes":                                             {Verb: site.VerbPause, Node: "db-1", Reason: "smoke"},
		"resume?sure=yes":                                                                   {Verb: site.VerbResume},
		"retry?node=db-1&sure=yes":                                                          {Verb: site.VerbRetry, Node: "db-1"},
		"quarantine?node=db-1&reason=x&sure=yes":                                            {Verb: site.VerbQuarantine, Node: "db-1", Reason: "x"},
		"release?node=db-1&sure=yes":                                                        {Verb: site.VerbRelease, Node: "db-1"},
		"incident?confirm=" + digestOfIncident + "&sure=yes":                                {Verb: site.VerbIncident, Digest: digestOfIncident},
		"incident?nodes=db-1+web-1&since=2026-03-01T18:00:00Z&name=shell&reason=x&sure=yes": {Verb: site.VerbIncident, Incident: "shell", Nodes: []string{"db-1", "web-1"}, CompromisedSince: time.Date(2026, 3, 1, 18, 0, 0, 0, time.UTC), Reason: "x"},
		"release?node=db-2&incident=shell-in-rack-2&sure=yes":                               {Verb: site.VerbRelease, Node: "db-2", Incident: "shell-in-rack-2"},
		"verify?sure=yes":                                                                   {Verb: site.VerbVerify},
		"verify?node=db-1&sure=yes":                                                         {Verb: site.VerbVerify, Nodes: []string{"db-1"}},
		"take-over?reason=gone&sure=yes":                                                    {Verb: site.VerbTakeOver, Reason: "gone"},
	} {
		path, body, _ := strings.Cut(form, "?")
		f.orders = nil
		status, text := asked(h, "POST", "/sites/berlin/do/"+path, body, own...)
		if path == "verify" {
			if status != 303 || len(f.orders) != 1 {
				t.Errorf("%s: %d, %v", form, status, f.orders)
			}
		} else if status != 200 || len(f.orders) != 1 || !strings.Contains(text, "is done") {
			t.Errorf("%s: %d, %v", form, status, f.orders)
			continue
		}
		got := f.orders[0]
		got.By = ""
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", form, got, want)
		}
	}
}

// Nothing is done without a confirmation, a reason where one is needed, or for a page of others.
func TestNothingIsDone(t *testing.T) {
	f := &fleet{}
	h := opened(t, f)
	own := []string{"Sec-Fetch-Site", "same-origin"}
	for _, x := range []struct {
		form    string
		headers []string
		status  int
		says    string
	}{
		{"approve?digest=" + digestOfSet, own, 400, "Tick the box"},
		{"pause?sure=yes", own, 400, "Write a reason"},
		{"approve?sure=yes", own, 400, "names neither a node nor what was shown"},
		{"retry?sure=yes", nil, 403, "not sent by a page of this host"},
		{"retry?sure=yes", []string{"Sec-Fetch-Site", "cross-site"}, 403, "not sent by a page of this host"},
		{"retry?sure=yes", []string{"Origin", "https://evil.example.org"}, 403, "not sent by a page of this host"},
		{"pause?sure=yes&reason=refuse", own, 409, "Nothing was done: refused: not now"},
		{"pause?sure=yes&reason=x&for=later", own, 400, "a time like 30m"},
		{"incident?nodes=db-1&reason=x&since=2026-03-01T18:00:00Z&name=shell", own, 400, "Tick the box"},
		{"incident?nodes=db-1&reason=x&since=yesterday&name=shell&sure=yes", own, 400, "one like 2026-03-01T18:00:00Z"},
		{"incident?nodes=db-1&since=2026-03-01T18:00:00Z&name=shell&step=look", own, 400, "Write what is known"},
		{"incident?nodes=db-1&reason=x&since=2026-03-01T18:00:00Z&name=shell&step=look&sure=yes", own, 200, "1. credential bmc"},
		{"erase?sure=yes", own, 404, "no such action"},
	} {
		path, body, _ := strings.Cut(x.form, "?")
		status, text := asked(h, "POST", "/sites/berlin/do/"+path, body, x.headers...)
		if status != x.status || !strings.Contains(text, x.says) || len(f.orders) > 0 {
			t.Errorf("%s: %d, %v", x.form, status, f.orders)
		}
	}
	if status, _ := asked(h, "GET", "/sites/berlin/do/pause?"+url.Values{"sure": {"yes"}, "reason": {"x"}}.Encode(), "", own...); status != 200 || len(f.orders) > 0 {
		t.Errorf("a read: %d, %v", status, f.orders)
	}
}

// Whoever confirms an approval sees everything that is lost, however long it is.
func TestApprovalShowsAllOfIt(t *testing.T) {
	said := strings.Repeat("disk ", 2000) + "the last one"
	h := opened(t, &fleet{said: said})
	if _, text := asked(h, "GET", "/sites/berlin/do/approve?digest="+digestOfSet, ""); !strings.Contains(text, "the last one") || !strings.Contains(text, `name="digest" value="`+digestOfSet+`"`) {
		t.Error("the set is cut")
	}
	_, text := asked(h, "GET", "/sites/berlin/do/approve?digest=ffffffffffffffffffffffffffffffff", "")
	if !strings.Contains(text, "has changed since you read it") {
		t.Error("another set is shown without a word")
	}
}

// Whoever confirms an incident or releases a node of one sees what people have to replace, and what is
// not proven.
func TestIncidentsAreShown(t *testing.T) {
	h := opened(t, &fleet{said: "there"})
	for path, says := range map[string][]string{
		"":                                {"2 compromised machines are not proven off, 1 incident waits for confirmation", "2 of 3 seen off, secrets known to be replaced: 1 of 2; not proven off now: db-3, web-4"},
		"/incidents":                      {"waiting-one", "shell-in-rack-2", "Waits for confirmation. Nothing was switched off."},
		"/incidents?name=shell-in-rack-2": {"not proven off: the BMC does not answer", "power seen off", "credential bmc", "also held by", "Slipway gives no secret a new value", "web-3 (recorded), web-4 (assumed", "NEW VALUE", "reported by there"},
		"/do/incident?confirm=" + digestOfIncident: {"it came by a commit", "web-3, web-4", "credential bmc", "name=\"confirm\" value=\"" + digestOfIncident},
		"/do/incident?confirm=" + digestOfSet:      {"No incident waits as it was shown"}, // Slipway acts on that one already
		"/do/release?node=db-2":                    {"Part of incident shell-in-rack-2", "credential bmc", "name=\"incident\""},
		"/nodes/web-4":                             {"Part of incident", "the BMC does not answer"},
		"/nodes/web-1":                             {"Compromised…"},
		"/do/incident?node=web-1":                  {"name=\"nodes\" size=\"60\" value=\"web-1\"", "forces their power off at once"},
	} {
		_, text := asked(h, "GET", "/sites/berlin"+path, "")
		for _, say := range says {
			if !strings.Contains(text, say) {
				t.Errorf("%s does not say %q", path, say)
			}
		}
	}
	if status, _ := asked(h, "GET", "/sites/berlin/incidents?name=none", ""); status != 404 {
		t.Errorf("an incident that is not known: %d", status)
	}
}

// A console is read only for somebody who asks for it here.
func TestLinkElsewhereReadsNoConsole(t *testing.T) {
	h := opened(t, &fleet{said: "kernel"})
	const path = "/sites/berlin/nodes/web-2/console"
	if _, text := asked(h, "GET", path, "", "Sec-Fetch-Site", "cross-site"); strings.Contains(text, "booting") || !strings.Contains(text, "Read the console") {
		t.Error("a link on another site reads it")
	}
	if _, text := asked(h, "GET", path, ""); !strings.Contains(text, "booting kernel") {
		t.Error("it is not shown")
	}
}

func TestBounded(t *testing.T) {
	for given, want := range map[string]string{
		`{"a":"0123456789","b":"01234567890123456789"}`: `{"a":"0123456789","b":"0123456789 … (cut)"}`,
		`["012345678\u202e","0123456789\"x\\y"]`:        `["012345678 … (cut)","0123456789 … (cut)"]`,
		`["ääääääää"]`:                                  `["äääää … (cut)"]`,
		`["\\\\"]`:                                      `["\\\\"]`,
	} {
		if got := string(bounded([]byte(given), 10)); got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}

// While the daemon follows, each page says so and who leads, and asks again by itself; a form does not. Files of pages are
// served.
func TestPagesOfAFollower(t *testing.T) {
	f := &fleet{said: "there", follows: func() error {
		return fmt.Errorf("%w; site berlin is led by: host-a, process 8 <b>", control.ErrFollows)
	}}
	address, as := onNetwork(t, f)
	ana, nobody := as("ana@example.org"), as("")
	for _, x := range []struct {
		client       *http.Client
		method, path string
		again        bool
	}{
		{ana, "GET", "/", true}, {ana, "GET", "/sites/berlin/nodes/web-1?wall", true}, {ana, "GET", "/login", true}, {ana, "POST", "/sites/berlin/do/pause", false},
		{ana, "GET", "/sites/berlin/live?page=%2Fsites%2Fberlin", true}, {nobody, "GET", "/sites/berlin", true}, {nobody, "POST", "/logout", false},
	} {
		status, text, header := sends(t, x.client, x.method, address+x.path, "")
		if status != 503 || header.Get("Refresh") != map[bool]string{true: "5"}[x.again] || strings.Contains(text, "led by: host-a, process 8 &lt;b&gt;") != (x.client == ana) || !strings.Contains(text, "Nothing was done") {
			t.Errorf("%s %s: %d, again %q: %s", x.method, x.path, status, header.Get("Refresh"), text)
		}
	}
	_, text, _ := sends(t, nobody, "GET", address+"/", "")
	_, style, _ := strings.Cut(text, `rel="stylesheet" href="`)
	style, _, _ = strings.Cut(style, `"`)
	if status, _, header := sends(t, nobody, "GET", address+style, ""); status != 200 || header.Get("Refresh") != "" {
		t.Errorf("the style %s: %d", style, status)
	}
	f.leads()
	if status, text, _ := sends(t, ana, "GET", address+"/sites/berlin", ""); status != 200 || !strings.Contains(text, "web-2") {
		t.Errorf("once it leads: %d", status)
	}
}
