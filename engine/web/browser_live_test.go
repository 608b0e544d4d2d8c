package web

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/browser"
)

// An open page about a console shows what the machine writes, with its end in view, unless somebody reads further up.
func TestBrowserFollowsConsole(t *testing.T) {
	b := browser.Open(t)
	f := &fleet{said: "as it says", wrote: strings.Repeat("a line\n", 500)}
	h := houseOf(t, f)
	w := b.Window(t, desk)
	writes := func(text string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.wrote += text
	}
	const log, end = `document.querySelector("pre.log")`, `(l => l.scrollHeight - l.scrollTop - l.clientHeight < 8)(document.querySelector("pre.log"))`
	w.Go(h.at("/sites/berlin/nodes/web-1/console"))
	w.Until(end)
	writes("first news\n")
	w.Until(log + `.textContent.includes("first news") && ` + end)
	w.Get(log+`.scrollTop = 100`, nil)
	writes("second news\n")
	w.Until(log + `.textContent.includes("second news") && ` + log + `.scrollTop === 100`)
	if all := w.Complaints(); len(all) > 0 {
		t.Error(all)
	}
}

// What one person does, another one sees within a second, without loading the page again.
func TestBrowserShowsWhatOthersDo(t *testing.T) {
	b := browser.Open(t)
	f := &fleet{said: "as it says", reason: "Installs generation 2", obeys: true}
	h := houseOf(t, f)
	acts, node, overview := b.Window(t, desk), b.Window(t, desk), b.Window(t, browser.Screen{Width: 360, Height: 800})
	node.Go(h.at("/sites/berlin/nodes/web-1"))
	overview.Go(h.at("/sites/berlin"))
	node.Get(`window.same = true`, nil)
	overview.Get(`window.same = true`, nil)
	for _, w := range []*browser.Page{node, overview} {
		w.Until(`document.getElementById("alive").textContent === "· live"`)
	}
	most := 5 * time.Second // where much else runs
	if isProof() {
		most = time.Second
	}
	seen := func(what string, w *browser.Page, expression string) {
		t.Helper()
		took := w.Until(expression + ` && window.same`)
		t.Logf("%s: seen after %v", what, took.Round(time.Millisecond))
		if took > most {
			t.Errorf("%s: seen after %v", what, took)
		}
	}
	acts.Go(h.at("/sites/berlin/nodes/web-1"))
	acts.Click(`a[href*="do/pause?node="]`)
	acts.Until(`document.querySelector("form.confirm")`)
	acts.Write(`input[name=reason]`, "I replace a disk")
	acts.Click(`input[name=sure]`)
	acts.Click(`form.confirm button`)
	seen("pause of a node", node, `document.getElementById("now").textContent.includes("I replace a disk")`)
	acts.Until(`document.querySelector("h1").textContent === "Done"`)
	acts.Go(h.at("/sites/berlin"))
	acts.Click(`a[href*="do/approve?digest="]`)
	acts.Until(`document.querySelector("form.confirm")`)
	acts.Click(`input[name=sure]`)
	acts.Click(`form.confirm button`)
	seen("approval of a set", overview, `!document.body.textContent.includes("Review and approve 1 loss")`)
}

// By HTTPS and the guard of the network, a browser shows pages, keeps them up to date, and sends forms: what
// it says of where a form is from is enough for the guard.
func TestBrowserOnTheNetwork(t *testing.T) {
	b := browser.Open(t)
	f, dir := &fleet{said: "as it says", reason: "Installs generation 2"}, t.TempDir()
	address, _ := inFolder(t, f, dir, people)
	token, err := (access.Tokens{Folder: filepath.Join(dir, "tokens.d"), Owner: uint32(os.Geteuid())}).Make("screen", "a test", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	w := b.Window(t, desk)
	w.Headers(map[string]string{"Authorization": "Bearer " + token}) // in place of a certificate, which only people can choose
	w.Go(address + "/sites/berlin/nodes/web-1")
	w.Until(`document.getElementById("alive").textContent === "· live"`)
	f.happens("Boots from disk")
	w.Until(`document.getElementById("now").textContent.includes("Boots from disk")`)
	w.Click(`a[href*="do/pause?node="]`)
	w.Until(`document.querySelector("form.confirm")`)
	w.Write(`input[name=reason]`, "I replace a disk")
	w.Click(`input[name=sure]`)
	w.Click(`form.confirm button`)
	w.Until(`document.querySelector("h1")?.textContent === "Done"`)
	if got := f.ordered(); len(got) != 1 || got[0].Verb != site.VerbPause || !strings.Contains(got[0].By, "screen") {
		t.Errorf("orders %+v", got)
	}
	if all := w.Complaints(); len(all) > 0 {
		t.Error(all)
	}
}

// Somebody who has opened many pages can open one more: a browser has six connections to a host, and pages
// in the background keep none. One that comes to the front again is up to date.
func TestBrowserOpensManyPages(t *testing.T) {
	b := browser.Open(t)
	f := &fleet{said: "as it says", reason: "Installs generation 2"}
	h := houseOf(t, f)
	first := b.Window(t, desk).Tab()
	all := []*browser.Page{first}
	for range 7 {
		all = append(all, first.Tab())
	}
	const live = `document.getElementById("alive").textContent === "· live"`
	for _, w := range all {
		w.Front()
		w.Go(h.at("/sites/berlin/nodes/web-1"))
		w.Until(live)
	}
	first.Until(`document.getElementById("alive").textContent === ""`)
	f.happens("Boots from disk")
	first.Front()
	took := first.Until(live + ` && document.getElementById("now").textContent.includes("Boots from disk")`)
	t.Logf("a page that comes to the front is up to date after %v", took.Round(time.Millisecond))
}

// A change that comes while somebody clicks takes no click away, and what is selected stays selected until
// it is copied.
func TestBrowserKeepsClicksAndSelections(t *testing.T) {
	b := browser.Open(t)
	f := &fleet{said: "as it says", reason: "Installs generation 2"}
	h := houseOf(t, f)
	w, other := b.Window(t, desk), b.Window(t, desk)
	const live = `document.getElementById("alive").textContent === "· live"`
	for _, page := range []*browser.Page{w, other} {
		page.Go(h.at("/sites/berlin/nodes"))
		page.Until(live)
	}
	shows := func(page *browser.Page, text string) {
		t.Helper()
		page.Until(`document.getElementById("list").textContent.includes("` + text + `")`)
	}
	w.Get(`getSelection().selectAllChildren(document.querySelector("#list td"))`, nil)
	f.happens("Boots the ramdisk")
	shows(other, "Boots the ramdisk")
	if got := w.Text(`getSelection().toString()`); got != "db-1" {
		t.Errorf("selected is %q", got)
	}
	w.Get(`getSelection().removeAllRanges()`, nil)
	shows(w, "Boots the ramdisk")
	up := w.Down(`#list tr:nth-child(3) a`)
	f.happens("Boots from disk")
	shows(other, "Boots from disk")
	up()
	w.Until(`location.pathname === "/sites/berlin/nodes/web-1"`)
}

// untold has the daemon tell an open page nothing more: the test tells it parts. Placed waits for two frames: what was told before is
// in its place after them, as far as it is placed at once.
const untold = `
	window.EventSource = class extends EventTarget {
		static CLOSED = 2;
		readyState = 1;
		constructor() { super(); window.stream = this; }
		close() { this.readyState = 2; }
	};
	dispatchEvent(new Event("pagehide"));
	dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
	window.told = parts => stream.dispatchEvent(new MessageEvent("change", { data: JSON.stringify(parts) }));
	window.placed = () => new Promise(then => requestAnimationFrame(() => requestAnimationFrame(then)));`

// A row that joins a section while that waits, and then changes alone, is shown as it is in the end.
func TestBrowserKeepsRowsOfWaitingSections(t *testing.T) {
	b := browser.Open(t)
	h := houseOf(t, &fleet{said: "as it says", reason: "Installs generation 2"})
	w := b.Window(t, desk)
	w.Go(h.at("/sites/berlin/nodes"))
	w.Until(`document.getElementById("alive").textContent === "· live"`)
	w.Get(`(async () => {
		`+untold+`
		getSelection().selectAllChildren(document.querySelector("#list td"));
		const list = document.getElementById("list").cloneNode(true), row = list.querySelector("tbody tr").cloneNode(true);
		row.id = "row-new";
		row.lastElementChild.textContent = "joins";
		list.querySelector("tbody").append(row);
		told({ list: list.outerHTML });
		await placed();
		row.lastElementChild.textContent = "ends";
		told({ "row-new": row.outerHTML });
		await placed();
		window.waited = !document.getElementById("row-new");
		getSelection().removeAllRanges();
	})()`, nil)
	w.Until(`waited && document.getElementById("row-new")?.lastElementChild.textContent === "ends"`)
}

// A page says that it has lost the daemon, and goes on by itself once that is back: where the daemon alone
// ends, as behind slipway web, and where what serves the pages ends with it.
func TestBrowserSurvivesRestart(t *testing.T) {
	b := browser.Open(t)
	f := &fleet{said: "as it says", reason: "Installs generation 2"}
	h := houseOf(t, f)
	w := b.Window(t, desk)
	w.Go(h.at("/sites/berlin/nodes/web-1"))
	w.Get(`window.same = true`, nil)
	const live, lost = `document.getElementById("alive").textContent === "· live" && window.same`, `!document.getElementById("lost").hidden`
	w.Until(live)
	for _, x := range []struct {
		what       string
		end, begin func()
	}{
		{"the daemon", h.endDaemon, h.beginDaemon},
		{"the daemon with its pages", func() { h.endPages(); h.endDaemon() }, func() { h.beginDaemon(); h.beginPages() }},
	} {
		x.end()
		said := w.Until(lost)
		text := w.Text(`document.getElementById("lost").textContent`)
		t.Logf("%s ends: after %v the page says %q", x.what, said.Round(time.Millisecond), text)
		if !strings.Contains(text, "does not answer") || said > 10*time.Second {
			t.Errorf("%s ends: after %v the page says %q", x.what, said, text)
		}
		x.begin()
		f.happens("Boots after " + x.what)
		back := w.Until(`document.getElementById("lost").hidden && document.getElementById("now").textContent.includes("Boots after ` + x.what + `") && ` + live)
		t.Logf("%s begins: the page is up to date after %v", x.what, back.Round(time.Millisecond))
		if back > 10*time.Second {
			t.Errorf("%s begins: the page is up to date after %v", x.what, back)
		}
	}
}

// While the states of all nodes change all the time, a page stays usable: no task takes 200 ms, it answers
// keys, and it goes on changing. Measured with 10,000 nodes in the proof.
func TestBrowserInStorm(t *testing.T) {
	size, lasts, paths := 1_000, 2*time.Second, []string{"", "/nodes"}
	if isProof() {
		size, lasts, paths = 9_994, 30*time.Second, append(paths, "/nodes?state=blocked", "/racks")
	}
	b := browser.Open(t)
	f := &fleet{said: "as it says", reason: "Installs generation 2", size: size, racked: true}
	h := houseOf(t, f)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
				f.turns(50)
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-ended
	})
	for _, path := range paths {
		w := b.Window(t, desk)
		w.Early(`window.longs = []; window.changes = 0;
			new PerformanceObserver(l => { for (const e of l.getEntries()) longs.push([Math.round(e.startTime), Math.round(e.duration)]); }).observe({ type: "longtask", buffered: true });
			addEventListener("DOMContentLoaded", () => new MutationObserver(() => changes++).observe(document.querySelector("main"), { childList: true, subtree: true }));`)
		w.Go(h.at("/sites/berlin" + path))
		var first struct{ Answer, Ready, Interactive float64 }
		w.Get(`(() => { const n = performance.getEntriesByType("navigation")[0];
			return { Answer: n.responseStart, Ready: n.domContentLoadedEventEnd, Interactive: Math.max(n.domContentLoadedEventEnd, ...longs.filter(l => l[0] < n.loadEventEnd).map(l => l[0] + l[1])) }; })()`, &first)
		var slowest time.Duration
		for began := time.Now(); time.Since(began) < lasts; {
			w.Press("?")
			slowest = max(slowest, w.Until(`document.getElementById("keys").matches(":popover-open")`))
			w.Press("Escape")
			w.Until(`!document.getElementById("keys").matches(":popover-open")`)
		}
		late := w.Until("changes > 0") // a page that takes long to make is also made seldom
		var longs [][2]int
		w.Get("longs", &longs)
		longest := 0
		for _, l := range longs {
			longest = max(longest, l[1])
		}
		var changes int
		w.Get("changes", &changes)
		t.Logf("%d nodes in a storm, /sites/berlin%s: answer after %.0f ms, interactive after %.0f ms; in %v %d changes, %d long tasks, the longest %d ms; the slowest key %v",
			size, path, first.Answer, first.Interactive, lasts, changes, len(longs), longest, slowest.Round(time.Millisecond))
		if isProof() && (longest >= 200 || late > 30*time.Second) { // CI has other work beside
			t.Errorf("/sites/berlin%s: the longest task takes %d ms, the first change is shown %v after %v", path, longest, late, lasts)
		}
		if all := w.Complaints(); len(all) > 0 {
			t.Error(all)
		}
	}
}

// A change of one machine replaces the picture of its rack and no other. Where all racks change, each is put into its place by
// itself, and in the end all of them are as on a page that is opened then.
func TestBrowserReplacesOneRack(t *testing.T) {
	b := browser.Open(t)
	f := &fleet{said: "as it says", reason: "Installs generation 2", size: 954, racked: true}
	h := houseOf(t, f)
	w := b.Window(t, desk)
	w.Early(`window.sent = []; window.EventSource = class extends EventSource { constructor(of) { super(of); this.addEventListener("change", e => sent.push(Object.keys(JSON.parse(e.data)).join(" "))); } };`)
	w.Go(h.at("/sites/berlin/racks"))
	w.Until(`sent.length && document.getElementById("alive").textContent === "· live"`)
	w.Get(`window.sent = [], window.of = name => document.getElementById("rack-" + name), window.first = of("r1"), window.other = of("r2"), null`, nil)
	f.happens("Installs generation 3")
	w.Until(`of("r1").textContent.includes("Installs generation 3")`)
	var got struct {
		Sent            []string
		Replaced, Other bool
	}
	w.Get(`({ Sent: sent, Replaced: of("r1") !== first, Other: of("r2") === other })`, &got)
	if !got.Replaced || !got.Other || len(got.Sent) != 1 || got.Sent[0] != "rack-r1" {
		t.Errorf("a change in rack r1: %+v", got)
	}
	for range 3 {
		f.turns(1)
		w.Until(fmt.Sprintf(`[...document.querySelectorAll("#list figure")].every(r => r.textContent.includes("Turn %d of the storm"))`, f.storm))
	}
	var same []bool
	w.Get(`fetch(location.href).then(answer => answer.text()).then(text => {
		const now = new DOMParser().parseFromString(text, "text/html");
		return ["glyphs", "list"].map(id => now.getElementById(id).outerHTML === document.getElementById(id).outerHTML);
	})`, &same)
	if !slices.Equal(same, []bool{true, true}) {
		t.Errorf("the open page is as one that is opened now: its shapes and its racks %v", same)
	}
	if all := w.Complaints(); len(all) > 0 {
		t.Error(all)
	}
}

// A page whose login has ended says so, offers another one, and does not ask again and again.
func TestBrowserSaysThatTheLoginHasEnded(t *testing.T) {
	b := browser.Open(t)
	v := visiting(t)
	w := b.Window(t, desk)
	w.Early(`window.asked = 0; window.EventSource = class extends EventSource { constructor(of) { super(of); window.asked++; } };`)
	const live = `document.getElementById("alive")?.textContent === "· live"`
	w.Go(v.url + "/login/start?to=%2Fsites%2Fberlin%2Fnodes%3Fq%3Dweb")
	w.Until(live)
	v.allow(strings.Replace(v.lines, "person ana@example.org: all\n", "", 1))
	w.Until(`document.getElementById("lost").textContent.startsWith("✕ Your login has ended.")`)
	w.Complaints() // of the answers 401
	w.Get(`window.before = window.asked, window.since = Date.now()`, nil)
	w.Until(`Date.now() - window.since > 7000`) // it used to ask every three seconds
	var more int
	if w.Get(`window.asked - window.before`, &more); more != 0 {
		t.Errorf("it has asked %d times more", more)
	}
	v.allow(v.lines)
	w.Click(`#lost a`)
	w.Until(`document.querySelector("h1").textContent === "Log in to Slipway"`)
	w.Click(`a.go`)
	w.Until(live + ` && location.pathname + location.search === "/sites/berlin/nodes?q=web"`)
}

// A page of a daemon that follows becomes the page that was asked for once that daemon leads. A page that was open with the
// leader before says meanwhile that the daemon follows, and goes on.
func TestBrowserFollows(t *testing.T) {
	b := browser.Open(t)
	dir := t.TempDir()
	f := &fleet{said: "as it says", reason: "Installs generation 2", follows: func() error { return fmt.Errorf("%w; site berlin is led by: host-a", control.ErrFollows) }}
	led := &fleet{said: "as it says", reason: "Installs generation 2"}
	address, _ := inFolder(t, led, dir, people)
	token, err := (access.Tokens{Folder: filepath.Join(dir, "tokens.d"), Owner: uint32(os.Geteuid())}).Make("screen", "a test", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	open, waits, shots := b.Window(t, desk), b.Window(t, desk), pictures(t)
	for _, w := range []*browser.Page{open, waits} {
		w.Headers(map[string]string{"Authorization": "Bearer " + token})
	}
	open.Go(address + "/sites/berlin/nodes/web-1")
	open.Until(`document.getElementById("alive").textContent === "· live"`)
	open.Get(`window.same = true`, nil)
	led.ends()
	l, err := net.Listen("tcp", strings.TrimPrefix(address, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	serves(t, f, dir, people, l, nil)
	open.Until(`document.getElementById("lost").textContent.includes("led by: host-a") && window.same`)
	open.Shoot(filepath.Join(shots, "open-follows.png"))
	waits.Go(address + "/sites/berlin/nodes/web-1")
	waits.Until(`document.querySelector("h1").textContent === "This daemon follows" && document.body.textContent.includes("led by: host-a")`)
	waits.Shoot(filepath.Join(shots, "follows.png"))
	f.leads()
	f.happens("Boots from disk")
	for what, w := range map[string]*browser.Page{"that was open": open, "that was asked for": waits} {
		w.Front()
		took := w.Until(`document.getElementById("now")?.textContent.includes("Boots from disk") && document.getElementById("lost").hidden && document.getElementById("alive").textContent === "· live"`)
		t.Logf("the page %s is there after %v", what, took.Round(time.Millisecond))
	}
	if open.Text(`String(window.same)`) != "true" {
		t.Error("the open page was loaded again")
	}
}
