package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
)

// opens follows a page as a browser does, and gives the parts that change.
func opens(t *testing.T, address, page string) <-chan map[string]string {
	t.Helper()
	resp := follows(t, address, page)
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	all := make(chan map[string]string, 100)
	go func() {
		reads(resp.Body, func(parts map[string]string) { all <- parts })
	}()
	return all
}

// reads has each change of a page seen, until its stream ends.
func reads(stream io.Reader, see func(parts map[string]string)) {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text, is := strings.CutPrefix(lines.Text(), "data: "); is {
			parts := map[string]string{}
			if json.Unmarshal([]byte(text), &parts) == nil {
				see(parts)
			}
		}
	}
}

// Everybody who has a page open is shown a change, and of the page only what is different.
func TestChangesAreShown(t *testing.T) {
	f := &fleet{said: "quiet"}
	srv := httptest.NewServer(opened(t, f))
	t.Cleanup(srv.Close) // after the viewers have left
	first := opens(t, srv.URL, "/sites/berlin/nodes/web-1")
	if whole := <-first; whole["now"] == "" || whole["events"] == "" {
		t.Fatalf("parts %v", whole)
	}
	second := opens(t, srv.URL, "/sites/berlin/nodes/web-1") // shares the rendering, and begins with the whole
	if whole := <-second; whole["now"] == "" {
		t.Fatalf("parts %v", whole)
	}
	began := time.Now()
	f.happens("Boots <from> disk")
	for _, viewer := range []<-chan map[string]string{first, second} {
		change := <-viewer
		if !strings.Contains(change["now"], "Boots &lt;from&gt; disk") || len(change) != 2 || change["timeline"] == "" {
			t.Errorf("change %v", change)
		}
	}
	t.Logf("shown after %v", time.Since(began))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("shown after %v", took)
	}
}

// No stream is opened of what is no page.
func TestOnlyPagesAreFollowed(t *testing.T) {
	srv := httptest.NewServer(opened(t, &fleet{}))
	t.Cleanup(srv.Close)
	for page, want := range map[string]int{
		"/sites/berlin": 200, "/sites/berlin/nodes?state=blocked": 200,
		"": 400, "/": 400, "https://evil.example.org/sites/berlin": 400, "//evil/sites/berlin": 400,
		"/sites/berlin/nodes/web-1/console": 200, "/sites/paris": 404, "/sites/berlin/do/pause": 404, "/sites/berlin/live": 404,
	} {
		if resp := follows(t, srv.URL, page); resp.StatusCode != want {
			t.Errorf("%q: %d, want %d", page, resp.StatusCode, want)
		}
	}
}

// A page that cannot be made any more says so to whoever has it open, with the reason.
func TestEndIsTold(t *testing.T) {
	f := &fleet{said: "quiet"}
	srv := httptest.NewServer(opened(t, f))
	t.Cleanup(srv.Close)
	lines := bufio.NewScanner(follows(t, srv.URL, "/sites/berlin/nodes/web-1").Body)
	lines.Buffer(nil, 1<<20)
	var last []string
	for lines.Scan() {
		text := lines.Text()
		if text == "event: change" {
			f.breaks()
		}
		if text != "" {
			last = append(last[max(0, len(last)-1):], text)
		}
	}
	if got := strings.Join(last, "|"); got != `event: over|data: "the records cannot be read"` {
		t.Errorf("the stream ends with %q", got)
	}
}

// A daemon that is gone is not a reason of the page: its stream ends, and the browser tries again.
func TestGoneDaemonIsNoReason(t *testing.T) {
	srv := httptest.NewServer(New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/whoami"):
			w.Write([]byte("{}"))
		case strings.HasSuffix(r.URL.Path, "/v1/sites"):
			w.Write([]byte(`["berlin"]`))
		case strings.HasSuffix(r.URL.Path, "/events"):
			<-r.Context().Done()
		default:
			w.WriteHeader(http.StatusBadGateway)
			w.Write([]byte(`{"error":"no daemon listens"}`))
		}
	})))
	t.Cleanup(srv.Close)
	resp := follows(t, srv.URL, "/sites/berlin/nodes/web-1")
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || strings.Contains(string(text), "event:") {
		t.Errorf("%s %v\n%s", resp.Status, err, text)
	}
}

// follows opens the stream of changes of a page.
func follows(t *testing.T, address, page string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/sites/berlin/live?"+url.Values{"page": {page}}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		resp.Body.Close()
	})
	return resp
}

// What changes by time alone is no change; anything else is one.
func TestTimeIsNoChange(t *testing.T) {
	part := func(ago, text string) map[string]string {
		return fragments([]byte(`<p>x</p><section id="now" class="c"><time datetime="2000-01-01T00:00:00Z">` + ago + `</time> ` + text + `<time title="a">` + ago + `</time></section><i></i><section id="rest"></section>`))
	}
	if got := part("1 s ago", "a"); len(got) != 2 || !strings.HasPrefix(got["now"], `<section id="now" class="c">`) || got["rest"] != `<section id="rest"></section>` {
		t.Errorf("parts %q", got)
	}
	if got := differing(part("1 s ago", "a"), part("2 min ago", "a")); len(got) != 0 {
		t.Errorf("changed %q", got)
	}
	if got := differing(part("1 s ago", "a"), part("1 s ago", "b")); len(got) != 1 || !strings.Contains(got["now"], "b<time") {
		t.Errorf("changed %q", got)
	}
}

// Of a table some rows are sent where nothing else has changed, and all of it where rows came, went or moved.
func TestRowsThatChanged(t *testing.T) {
	part := func(around string, rows ...string) map[string]string {
		text := `<section id="list"><p>` + around + `</p><table>`
		for _, r := range rows {
			name, what, _ := strings.Cut(r, " ")
			text += `<tr id="row-` + name + `"><td><time datetime="x">1 s ago</time>` + what + `</td></tr>`
		}
		return fragments([]byte(text + `</table></section><section id="rest">r</section>`))
	}
	before := part("2 nodes", "a in-sync", "b in-sync", "c&amp;d in-sync")
	for name, x := range map[string]struct {
		now  map[string]string
		want []string
	}{
		"one row":             {part("2 nodes", "a in-sync", "b stalled", "c&amp;d in-sync"), []string{"row-b"}},
		"escaped":             {part("2 nodes", "a in-sync", "b in-sync", "c&amp;d stalled"), []string{"row-c&d"}},
		"two rows":            {part("2 nodes", "a stalled", "b stalled", "c&amp;d in-sync"), []string{"row-a", "row-b"}},
		"what is around":      {part("3 nodes", "a in-sync", "b stalled", "c&amp;d in-sync"), []string{"list"}},
		"one went":            {part("2 nodes", "a in-sync", "b in-sync"), []string{"list"}},
		"they changed places": {part("2 nodes", "b in-sync", "a in-sync", "c&amp;d in-sync"), []string{"list"}},
		"nothing":             {before, nil},
	} {
		if got := slices.Sorted(maps.Keys(differing(before, x.now))); !slices.Equal(got, x.want) {
			t.Errorf("%s: got %q, want %q", name, got, x.want)
		}
	}
	var all, stalled []string
	for i := range 20 {
		all, stalled = append(all, fmt.Sprintf("x%d in-sync", i)), append(stalled, fmt.Sprintf("x%d stalled", i))
	}
	if got := differing(part("20 nodes", all...), part("20 nodes", stalled...)); len(got) != 1 || got["list"] == "" {
		t.Errorf("all at once: %q", slices.Sorted(maps.Keys(got)))
	}
	if got := differing(before, part("2 nodes", "a in-sync", "b stalled", "c&amp;d in-sync")); !strings.HasPrefix(got["row-b"], `<tr id="row-b">`) || !strings.HasSuffix(got["row-b"], "stalled</td></tr>") {
		t.Errorf("the row is %q", got)
	}
}

// What a page offers is drawn again when a right is lost or given, also one to some of the nodes.
func TestRightsOfSomeNodes(t *testing.T) {
	t.Parallel()
	who := func(verbs, whole []access.Verb) control.Identity {
		return control.Identity{Caller: access.Caller{Name: "ana"}, Verbs: map[string][]access.Verb{"berlin": verbs}, Whole: map[string][]access.Verb{"berlin": whole}}
	}
	all := map[string]string{}
	for name, is := range map[string]control.Identity{
		"reads all":                who([]access.Verb{"read"}, []access.Verb{"read"}),
		"approves on some nodes":   who([]access.Verb{"approve", "read"}, []access.Verb{"read"}),
		"approves on all":          who([]access.Verb{"approve", "read"}, []access.Verb{"approve", "read"}),
		"reads and approves some":  who([]access.Verb{"approve", "read"}, nil),
		"reads and pauses on some": who([]access.Verb{"pause", "read"}, nil),
	} {
		key := rightsOf(is, "berlin")
		if other, there := all[key]; there {
			t.Errorf("%s and %s are the same: %s", name, other, key)
		}
		all[key] = name
	}
}

// Of pictures, all that differ are sent, each by itself, however many they are; where something around them differs, the section
// is sent with all of them.
func TestChangedPicturesAreSentAlone(t *testing.T) {
	part := func(total string, states ...string) map[string]string {
		text := `<section id="glyphs"></section><section id="list"><p>` + total + `</p>`
		for i, state := range states {
			text += fmt.Sprintf(`<figure id="rack-r%d"><svg><a><title>%s</title></a></svg></figure>`, i, state)
		}
		return fragments([]byte(text + `</section>`))
	}
	calm, storm := make([]string, 3*mostAlone), make([]string, 3*mostAlone)
	for i := range calm {
		calm[i], storm[i] = "in-sync", "stalled"
	}
	one := slices.Clone(calm)
	one[2] = "stalled"
	if got := differing(part("24 racks", calm...), part("24 racks", one...)); len(got) != 1 || !strings.HasPrefix(got["rack-r2"], `<figure id="rack-r2">`) || !strings.HasSuffix(got["rack-r2"], "</figure>") {
		t.Errorf("one rack: %v", got)
	}
	if got := differing(part("24 racks", calm...), part("24 racks", storm...)); len(got) != len(calm) || got["list"] != "" {
		t.Errorf("all racks: %v", got)
	}
	for name, now := range map[string]map[string]string{"more racks in all": part("25 racks", one...), "one rack less": part("24 racks", one[1:]...)} {
		if got := differing(part("24 racks", calm...), now); len(got) != 1 || got["list"] != now["list"] {
			t.Errorf("%s: %v", name, got)
		}
	}
}
