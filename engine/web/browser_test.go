package web

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/tests/browser"
)

// screens are what people read pages on: a phone, a desk and a wall.
var screens = []browser.Screen{
	{Width: 360, Height: 800}, {Width: 360, Height: 800, Dark: true},
	{Width: 1280, Height: 900}, {Width: 1280, Height: 900, Dark: true},
	{Width: 3840, Height: 2160}, {Width: 3840, Height: 2160, Dark: true},
}

var desk = browser.Screen{Width: 1280, Height: 900}

// isProof says whether everything is tried, and not a part.
func isProof() bool { return os.Getenv("SLIPWAY_PROVE") != "" }

// house has a daemon and its pages, each of which can end and begin again at the same address.
type house struct {
	t       testing.TB
	fleet   *fleet
	socket  string
	address string // of the pages
	pages   http.Handler
	daemon  func() // ends the daemon; nil without one
	server  func() // ends what serves the pages; nil without it
}

// houseOf serves the pages of a fleet as the daemon does, with its policy.
func houseOf(t testing.TB, f *fleet) *house {
	t.Helper()
	f.now = time.Now()
	h := &house{t: t, fleet: f, socket: filepath.Join(t.TempDir(), "s"), address: "127.0.0.1:0"}
	client := control.Dial(h.socket)
	h.pages = New(client.Handler())
	t.Cleanup(func() {
		h.endPages()
		client.Close()
		h.endDaemon()
	})
	h.beginDaemon()
	h.beginPages()
	return h
}

func (h *house) beginDaemon() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- control.Serve(ctx, h.socket, "", h.fleet, slog.New(slog.DiscardHandler)) }()
	h.daemon = func() {
		cancel()
		<-ended
	}
	client := control.Dial(h.socket)
	defer client.Close()
	for {
		if _, err := client.WhoAmI(ctx); err == nil { // it listens
			return
		}
		select {
		case err := <-ended:
			ended <- err // for the end of the test
			h.t.Fatalf("the daemon ended: %v", err)
		default:
		}
	}
}

func (h *house) endDaemon() {
	if h.daemon != nil {
		h.daemon()
		h.daemon = nil
	}
}

func (h *house) beginPages() {
	l, err := net.Listen("tcp", h.address)
	if err != nil {
		h.t.Fatal(err)
	}
	h.address = l.Addr().String()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", control.PagePolicy)
		h.pages.ServeHTTP(w, r)
	})}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	h.server = func() {
		srv.Close()
		<-ended
	}
}

func (h *house) endPages() {
	if h.server != nil {
		h.server()
		h.server = nil
	}
}

// at is the address of a page.
func (h *house) at(path string) string { return "http://" + h.address + path }

// pictures is the folder for screenshots: SLIPWAY_PICTURES, or the test's own artifacts.
func pictures(t *testing.T) string {
	dir := os.Getenv("SLIPWAY_PICTURES")
	if dir == "" {
		dir = t.ArtifactDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Logf("pictures are in %s", dir)
	return dir
}

// Each page can be used on each screen: nothing is wider than the window or too small to read, the console
// says nothing, and axe-core finds nothing serious. CI looks at some, chosen by SLIPWAY_FIRST_SEED.
func TestBrowserShowsEveryPage(t *testing.T) {
	b := browser.Open(t)
	h := houseOf(t, &fleet{said: "as it says", reason: "Installs generation 2"})
	type look struct {
		path   string
		screen browser.Screen
	}
	var all []look
	for _, path := range every() {
		for _, s := range screens {
			all = append(all, look{path, s})
		}
	}
	if !isProof() {
		seed, err := strconv.ParseUint(os.Getenv("SLIPWAY_FIRST_SEED"), 10, 64)
		if err != nil {
			seed = rand.Uint64()
		}
		t.Logf("SLIPWAY_FIRST_SEED=%d", seed)
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:8]
	}
	dir, window := pictures(t), b.Window(t, desk)
	for _, l := range all {
		scheme := "light"
		if l.screen.Dark {
			scheme = "dark"
		}
		name := fmt.Sprintf("page%s-%d-%s", strings.NewReplacer("/", "_", "?", "_", "=", "-").Replace(strings.TrimPrefix(l.path, "/sites/berlin")), l.screen.Width, scheme)
		window.Show(l.screen)
		window.Go(h.at(l.path))
		var wrong []string
		window.Get(probe, &wrong)
		for _, text := range window.Complaints() {
			if !isMissing(l.path) || !strings.Contains(text, "status of 404") {
				wrong = append(wrong, text)
			}
		}
		if l.screen.Width <= 1280 {
			for _, f := range window.Axe() {
				wrong = append(wrong, fmt.Sprintf("%s %s: %s\n  %s", f.Impact, f.Rule, f.Help, strings.Join(f.Where, "\n  ")))
			}
		}
		window.Shoot(filepath.Join(dir, name+".png"))
		for _, text := range wrong {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// isMissing says whether a page is not there, and says so.
func isMissing(path string) bool {
	return slices.Contains([]string{"/none", "/sites/paris", "/sites/berlin/nodes/none"}, path)
}

// probe is what is wrong with a page, whatever it shows.
const probe = `(() => {
	const wrong = [], root = document.documentElement, wide = root.scrollWidth - innerWidth;
	if (wide > 0) wrong.push(wide + " pixels too wide: " + [...document.querySelectorAll("main *, header *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map(e => e.tagName + "." + e.className).join(", "));
	for (const e of document.querySelectorAll("input, select")) if (e.type !== "hidden" && !e.labels.length) wrong.push("no label: " + e.name);
	const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
	if (new Set(ids).size !== ids.length) wrong.push("an id is there twice");
	if (document.querySelectorAll("h1").length !== 1) wrong.push(document.querySelectorAll("h1").length + " titles");
	const small = new Set();
	const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) {
		const e = walk.currentNode.parentElement;
		if (!walk.currentNode.textContent.trim() || !e.getClientRects().length || e.tagName === "TITLE" || e.tagName === "SCRIPT") continue;
		const size = parseFloat(getComputedStyle(e).fontSize) * (e.ownerSVGElement ? e.getScreenCTM().a : 1);
		if (size < 9.5) small.add(size.toFixed(1) + " pixels: " + walk.currentNode.textContent.trim().slice(0, 30));
	}
	if (small.size) wrong.push("too small to read: " + [...small].slice(0, 3).join("; "));
	return wrong;
})()`

// Without scripts each page says the same, and an act can be asked, confirmed and carried out.
func TestBrowserWithoutScripts(t *testing.T) {
	b := browser.Open(t)
	f := &fleet{said: "as it says", reason: "Installs generation 2"}
	h := houseOf(t, f)
	with, without := b.Window(t, desk), b.Window(t, browser.Screen{Width: 1280, Height: 900, NoScript: true})
	without.Early("document.documentElement.dataset.scripts = 'run'") // runs in any case
	paths := every()
	if !isProof() {
		rand.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		paths = paths[:3]
	}
	const text = `document.querySelector("main").innerText`
	times := regexp.MustCompile(`\bnow\b|\d+ (s|min) ago|in \d+ (s|min)|\d\d:\d\d:\d\d`)
	for _, path := range paths {
		with.Go(h.at(path))
		without.Go(h.at(path))
		a, c := times.ReplaceAllString(with.Text(text), "T"), times.ReplaceAllString(without.Text(text), "T")
		if a != c || len(c) < 20 {
			t.Errorf("%s says with scripts\n%s\nand without\n%s", path, a, c)
		}
	}
	without.Go(h.at("/sites/berlin"))
	if without.Text(`document.getElementById("alive").textContent`) != "" {
		t.Error("scripts run in a window without scripts")
	}
	without.Click(`a[href*="do/approve?digest="]`)
	without.Until(`document.title.startsWith("Approve")`)
	without.Click(`form.confirm button`) // the browser asks for the box first
	without.Click(`input[name=sure]`)
	without.Click(`form.confirm button`)
	without.Until(`document.querySelector("h1").textContent === "Done"`)
	if got := f.ordered(); len(got) != 1 || got[0].Digest != digestOfSet {
		t.Errorf("orders %+v", got)
	}
	without.Click(`main a.button`)
	without.Until(`location.pathname === "/sites/berlin"`)
	without.Go(h.at("/sites/berlin/nodes"))
	without.Write(`.filter input[name=q]`, "web-3")
	without.Press("Enter")
	without.Until(`document.querySelectorAll("#list tbody tr").length === 1`)
}

// The keys of the help do what it says, with the mouse left alone.
func TestBrowserKeys(t *testing.T) {
	b := browser.Open(t)
	h := houseOf(t, &fleet{said: "as it says", reason: "Installs generation 2"})
	w := b.Window(t, desk)
	w.Go(h.at("/sites/berlin"))
	w.Press("?")
	w.Until(`document.getElementById("keys").matches(":popover-open")`)
	w.Press("Escape")
	w.Until(`!document.getElementById("keys").matches(":popover-open")`)
	w.Press("g", "n")
	w.Until(`location.pathname.endsWith("/nodes") && document.readyState === "complete"`)
	const chosen = `document.querySelectorAll("tr.chosen").length === 1 && document.querySelector("tr.chosen a").textContent === `
	w.Press("j")
	w.Until(chosen + `"db-1"`)
	w.Press("j", "j")
	w.Until(chosen + `"web-1"`)
	w.Press("k")
	w.Until(chosen + `"db-2"`)
	h.fleet.happens("Boots from disk") // a change keeps the choice
	w.Until(`document.getElementById("list").textContent.includes("Boots from disk") && ` + chosen + `"db-2"`)
	w.Press("Enter")
	w.Until(`location.pathname.endsWith("/nodes/db-2") && document.readyState === "complete"`)
	w.Press("/")
	w.Until(`document.activeElement.id === "find"`)
	w.Press("j", "Escape") // a letter in a field is a letter, and Escape leaves it
	w.Until(`document.activeElement.id !== "find"`)
	w.Press("/")
	w.Write("#find", "web-4")
	w.Press("Enter")
	w.Until(`location.search.includes("web-4") && document.querySelectorAll("#list tbody tr").length === 1`)
	// A page with a list of its own has that searched first.
	w.Go(h.at("/sites/berlin/history"))
	w.Press("/")
	w.Until(`document.activeElement.matches("main input[name=q]")`)
	w.Write("main input[name=q]", "fan 3")
	w.Press("Enter")
	w.Until(`location.search.includes("fan") && document.querySelectorAll("#list tbody tr").length === 1`)
	w.Click(`#list a.perma`)
	w.Until(`location.hash.startsWith("#event-") && document.querySelector(":target")?.textContent.includes("fan 3")`)
	// From the top of a page the first tab leads past the menu.
	w.Go(h.at("/sites/berlin/approvals"))
	w.Press("Tab")
	w.Until(`document.activeElement.className === "skip" && document.activeElement.getBoundingClientRect().left >= 0`)
	w.Press("Enter")
	w.Until(`document.activeElement.id === "main"`)
	w.Press("j", "j", "Enter")
	w.Until(`/nodes\/|do\/approve/.test(location.pathname)`)
	if all := w.Complaints(); len(all) > 0 {
		t.Error(all)
	}
}

// A screen on a wall can be read from afar, and paper has no buttons and dark text.
func TestBrowserOnWallAndPaper(t *testing.T) {
	b := browser.Open(t)
	h := houseOf(t, &fleet{said: "as it says", reason: "Installs generation 2", size: 200})
	dir := pictures(t)
	w := b.Window(t, browser.Screen{Width: 3840, Height: 2160, Dark: true})
	walls := []string{"", "/nodes", "/racks", "/rollout"}
	papers := []string{"", "/nodes", "/racks", "/rollout", "/approvals", "/incidents?name=shell-in-rack-2", "/nodes/web-2"}
	if !isProof() {
		i := rand.IntN(len(walls))
		walls, papers = walls[i:i+1], papers[i:i+1]
	}
	for _, path := range walls {
		w.Go(h.at("/sites/berlin" + path + "?wall"))
		var got struct{ Title, Small, Wide, Shown float64 }
		w.Get(`({ Title: parseFloat(getComputedStyle(document.querySelector("h1")).fontSize), Wide: document.documentElement.scrollWidth - innerWidth,
			Small: Math.min(...[...document.querySelectorAll("main td, main p, main li")].map(e => parseFloat(getComputedStyle(e).fontSize))),
			Shown: [".menu", ".find", ".who"].filter(s => document.querySelector(s)?.getClientRects().length).length })`, &got)
		if got.Title < 60 || got.Small < 24 || got.Wide > 0 || got.Shown > 0 {
			t.Errorf("%s on a wall: %+v", path, got)
		}
		w.Shoot(filepath.Join(dir, "wall"+strings.ReplaceAll(path, "/", "-")+".png"))
	}
	p := b.Window(t, browser.Screen{Width: 780, Height: 1100, Dark: true, Print: true})
	for _, path := range papers {
		p.Go(h.at("/sites/berlin" + path))
		var shown int
		p.Get(`[...document.querySelectorAll(".menu, .button, .filter, .find, footer button, .skip")].filter(e => e.getClientRects().length).length`, &shown)
		if shown > 0 {
			t.Errorf("%s on paper has %d buttons", path, shown)
		}
		for _, f := range p.Axe() {
			if f.Rule == "color-contrast" {
				t.Errorf("%s on paper: %s\n%s", path, f.Help, strings.Join(f.Where, "\n"))
			}
		}
		p.Shoot(filepath.Join(dir, "paper"+strings.NewReplacer("/", "-", "?", "-", "=", "-").Replace(path)+".png"))
	}
}
