package browser

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Screen is what a page is shown on, and how.
type Screen struct {
	Width, Height int // in pixels
	Dark          bool
	Print         bool // as on paper
	NoScript      bool // scripts are off
}

// Page is one window of a person, who shares no cookies with others.
type Page struct {
	t       testing.TB
	browser *Browser
	profile string
	session string
	screen  Screen
	loaded  chan string // the loaders of what has been loaded
	said    complaints
}

// complaints are what a page has said in its console and what it has been refused.
type complaints struct {
	mu  sync.Mutex
	all []string
}

func (c *complaints) add(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, text)
}

func (c *complaints) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.all
	c.all = nil
	return all
}

// Window opens an empty window, as of another person's browser. It is closed when the test ends.
func (b *Browser) Window(t testing.TB, s Screen) *Page {
	t.Helper()
	var profile struct {
		ID string `json:"browserContextId"`
	}
	p := &Page{t: t, browser: b}
	p.must(b.ask("", "Target.createBrowserContext", map[string]any{"disposeOnDetach": true}, &profile))
	t.Cleanup(func() { b.ask("", "Target.disposeBrowserContext", map[string]any{"browserContextId": profile.ID}, nil) })
	p = b.open(t, profile.ID, true, s)
	p.do("Emulation.setFocusEmulationEnabled", map[string]any{"enabled": true})
	return p
}

// Tab opens another page of the same person in front of this one.
func (p *Page) Tab() *Page {
	p.t.Helper()
	return p.browser.open(p.t, p.profile, false, p.screen)
}

// Front brings the page before the others of its window.
func (p *Page) Front() {
	p.t.Helper()
	p.do("Page.bringToFront", nil)
}

// Headers are sent with each request from now on.
func (p *Page) Headers(all map[string]string) {
	p.t.Helper()
	p.do("Network.setExtraHTTPHeaders", map[string]any{"headers": all})
}

func (b *Browser) open(t testing.TB, profile string, window bool, s Screen) *Page {
	t.Helper()
	p := &Page{t: t, browser: b, profile: profile, loaded: make(chan string, 100)}
	var target struct {
		ID string `json:"targetId"`
	}
	var session struct {
		ID string `json:"sessionId"`
	}
	p.must(b.ask("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": profile, "newWindow": window}, &target))
	p.must(b.ask("", "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &session))
	p.session = session.ID
	b.add(p)
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.do(domain+".enable", nil)
	}
	p.do("Page.setLifecycleEventsEnabled", map[string]any{"enabled": true})
	p.Show(s)
	return p
}

func (b *Browser) add(p *Page) {
	b.asked.Lock()
	defer b.asked.Unlock()
	b.pages[p.session] = p
}

// Show changes the screen. Scripts that are off are off from the next page on.
func (p *Page) Show(s Screen) {
	p.t.Helper()
	p.screen = s
	scheme, medium := "light", ""
	if s.Dark {
		scheme = "dark"
	}
	if s.Print {
		medium = "print"
	}
	p.do("Emulation.setDeviceMetricsOverride", map[string]any{"width": s.Width, "height": s.Height, "deviceScaleFactor": 1, "mobile": false})
	p.do("Emulation.setEmulatedMedia", map[string]any{"media": medium, "features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}})
	p.do("Emulation.setScriptExecutionDisabled", map[string]any{"value": s.NoScript})
}

// Early has a script run in each page before its own.
func (p *Page) Early(script string) {
	p.t.Helper()
	p.do("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": script})
}

// Go opens an address and waits until the page with all that it loads is there.
func (p *Page) Go(address string) {
	p.t.Helper()
	for len(p.loaded) > 0 {
		<-p.loaded
	}
	var told struct {
		Loader string `json:"loaderId"`
		Error  string `json:"errorText"`
	}
	p.must(p.browser.ask(p.session, "Page.navigate", map[string]any{"url": address}, &told))
	if told.Error != "" {
		p.t.Fatalf("%s: %s", address, told.Error)
	}
	tired := time.After(patience)
	for {
		select {
		case loader := <-p.loaded:
			if loader == told.Loader { // and not what was being loaded before
				return
			}
		case <-tired:
			p.t.Fatalf("%s is not loaded within %v", address, patience)
		}
	}
}

// Get evaluates an expression in the page, waits for what it promises, and reads it into a value.
func (p *Page) Get(expression string, into any) {
	p.t.Helper()
	p.must(p.get(expression, into))
}

func (p *Page) get(expression string, into any) error {
	var told struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Wrong *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	err := p.browser.ask(p.session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": !p.screen.NoScript}, &told)
	switch {
	case err != nil:
		return err
	case told.Wrong != nil:
		return fmt.Errorf("%s: %s %s", expression[:min(len(expression), 100)], told.Wrong.Text, told.Wrong.Exception.Description)
	case into == nil || told.Result.Value == nil:
		return nil
	}
	return json.Unmarshal(told.Result.Value, into)
}

// Text is the value of an expression that is a text.
func (p *Page) Text(expression string) (text string) {
	p.t.Helper()
	p.Get(expression, &text)
	return text
}

// Until waits until an expression is true, also in the page that follows, and says how long that took.
func (p *Page) Until(expression string) time.Duration {
	p.t.Helper()
	began := time.Now()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for time.Since(began) < patience {
		var is bool
		if err := p.get("!!("+expression+")", &is); err == nil && is { // an error is that of a page which is just being left
			return time.Since(began)
		}
		<-again.C
	}
	p.t.Fatalf("not within %v: %s\nThe page at %s shows:\n%s", patience, expression, p.Text("location.href"), p.Text("document.body.innerText"))
	return 0
}

// Press presses keys one after the other: a letter, or the name of a key.
func (p *Page) Press(keys ...string) {
	p.t.Helper()
	codes := map[string]int{"Enter": 13, "Escape": 27, "Tab": 9, " ": 32}
	for _, key := range keys {
		down := map[string]any{"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
		switch {
		case key == "Enter":
			down["text"] = "\r"
		case len(key) == 1:
			down["text"] = key
		}
		p.do("Input.dispatchKeyEvent", down)
		p.do("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": key, "code": key, "windowsVirtualKeyCode": codes[key]})
	}
}

// Write types a text into the field that is found by a selector.
func (p *Page) Write(selector, text string) {
	p.t.Helper()
	p.Click(selector)
	p.do("Input.insertText", map[string]any{"text": text})
}

// Click clicks on the middle of the first element that is found by a selector, with the mouse.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.Down(selector)()
}

// Down presses the button of the mouse there, and gives what releases it.
func (p *Page) Down(selector string) (up func()) {
	p.t.Helper()
	quoted, err := json.Marshal(selector)
	p.must(err)
	at := struct{ X, Y float64 }{-1, -1}
	p.Get(`(() => {
		const e = document.querySelector(`+string(quoted)+`);
		if (!e) return { X: -1, Y: -1 };
		e.scrollIntoView({ block: "center", behavior: "instant" });
		const r = e.getClientRects()[0];
		return { X: r.left + r.width / 2, Y: r.top + r.height / 2 };
	})()`, &at)
	if at.X < 0 {
		p.t.Fatalf("nothing to click on: %s\nThe page at %s shows:\n%s", selector, p.Text("location.href"), p.Text("document.body.innerText"))
	}
	mouse := func(kind string) {
		p.t.Helper()
		p.do("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X, "y": at.Y, "button": "left", "clickCount": 1})
	}
	mouse("mousePressed")
	return func() { mouse("mouseReleased") }
}

// tallest is how many pixels of a page are pictured.
const tallest = 6000

// Shoot writes a picture of the whole page, as PNG.
func (p *Page) Shoot(file string) {
	p.t.Helper()
	var height int
	p.Get("Math.ceil(document.documentElement.scrollHeight)", &height)
	var told struct {
		Data string `json:"data"`
	}
	p.must(p.browser.ask(p.session, "Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": 0, "width": p.screen.Width, "height": min(max(height, p.screen.Height), tallest), "scale": 1}}, &told))
	png, err := base64.StdEncoding.DecodeString(told.Data)
	p.must(err)
	p.must(os.WriteFile(file, png, 0o644))
}

// Complaints are what the console has said since they were read last: errors, and what a policy refused.
func (p *Page) Complaints() []string { return p.said.take() }

// Fault is something that axe-core has found.
type Fault struct {
	Rule, Impact, Help string
	Where              []string // the elements
}

// Axe looks for what people who cannot see or point well stumble over, and gives what is serious or critical.
func (p *Page) Axe() (all []Fault) {
	p.t.Helper()
	cache, err := os.UserCacheDir()
	p.must(err)
	script, err := os.ReadFile(filepath.Join(cache, "slipway", "axe-core-"+axeVersion, "axe.min.js"))
	if err != nil {
		p.t.Fatalf("run tests/browser/setup.sh: %v", err)
	}
	p.Get(string(script)+"\n;0", nil)
	p.Get(`axe.run(document, { resultTypes: ["violations"] }).then(r => r.violations.map(v => ({
		Rule: v.id, Impact: v.impact, Help: v.help, Where: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + " " + (n.any[0]?.message || "")) })))`, &all)
	return slices.DeleteFunc(all, func(f Fault) bool { return f.Impact != "serious" && f.Impact != "critical" })
}

// axeVersion is the release of npm's axe-core; setup.sh installs it.
const axeVersion = "4.14.1"

// take keeps what an event of the page says.
func (p *Page) take(m message) {
	var e struct {
		Type   string `json:"type"`
		Name   string `json:"name"`
		Loader string `json:"loaderId"`
		Entry  struct {
			Level, Text, URL string
		} `json:"entry"`
		Args []struct {
			Value       any    `json:"value"`
			Description string `json:"description"`
		} `json:"args"`
		Details struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	switch m.Method {
	case "Page.lifecycleEvent", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded":
	default:
		return
	}
	if json.Unmarshal(m.Params, &e) != nil {
		return
	}
	switch {
	case m.Method == "Page.lifecycleEvent":
		if e.Name == "load" {
			select {
			case p.loaded <- e.Loader:
			default: // nobody has asked for a page for long
			}
		}
	case m.Method == "Runtime.exceptionThrown":
		p.said.add(strings.TrimSpace(e.Details.Text + " " + e.Details.Exception.Description))
	case m.Method == "Runtime.consoleAPICalled":
		p.said.add(fmt.Sprintf("console.%s %v", e.Type, e.Args))
	case e.Entry.Level == "error" || e.Entry.Level == "warning":
		p.said.add(strings.TrimSpace(e.Entry.Text + " " + e.Entry.URL))
	}
}

func (p *Page) do(method string, params any) {
	p.t.Helper()
	p.must(p.browser.ask(p.session, method, params, nil))
}

func (p *Page) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}
