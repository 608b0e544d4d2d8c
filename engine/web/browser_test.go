package web

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
)

// A real browser opens every page at three widths, light and dark. It reports what its console says and
// whether anything is wider than the window. With SLIPWAY_PICTURES=FOLDER the pictures are kept there.
func TestProvePagesInBrowser(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("SLIPWAY_PROVE=1 opens every page in Chromium")
	}
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("there is no chromium: run ./setup.sh prove")
	}
	h := opened(t, &fleet{said: "as it says", reason: "Installs generation 2"})
	said := make(chan string, 1000)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/probe" {
			text := make([]byte, 20_000)
			n, _ := r.Body.Read(text)
			said <- string(text[:n])
			return
		}
		if r.URL.Path == "/probe.js" {
			w.Header().Set("Content-Type", "text/javascript")
			w.Write([]byte(probe))
			return
		}
		w.Header().Set("Content-Security-Policy", control.PagePolicy)
		if strings.HasSuffix(r.URL.Path, "/live") { // a browser that takes pictures waits for the page to be at rest
			w.WriteHeader(http.StatusNoContent)
			return
		}
		rec := &recorder{header: http.Header{}, status: http.StatusOK}
		h.ServeHTTP(rec, r)
		body := rec.body.Bytes()
		if strings.HasPrefix(rec.header.Get("Content-Type"), "text/html") {
			body = bytes.Replace(body, []byte("</head>"), []byte(`<script src="/probe.js" defer></script></head>`), 1)
		}
		for name := range rec.header {
			w.Header().Set(name, rec.header.Get(name))
		}
		w.WriteHeader(rec.status)
		w.Write(body)
	}))
	defer srv.Close()
	dir := os.Getenv("SLIPWAY_PICTURES")
	if dir == "" {
		dir = t.TempDir()
	}
	profile := t.TempDir()
	for _, path := range every() {
		for _, width := range []int{360, 1280, 3840} {
			for _, dark := range []bool{false, true} {
				if dark && (width != 1280 || strings.Contains(path, "/do/")) || width == 3840 && strings.Contains(path, "/do/") {
					continue
				}
				name := strings.NewReplacer("/", "_", "?", "_", "=", "-").Replace(strings.TrimPrefix(path, "/sites/berlin"))
				file := filepath.Join(dir, fmt.Sprintf("page%s-%d-%v.png", name, width, dark))
				shoot(t, program, profile, srv.URL+path, file, width, dark)
				select {
				case text := <-said:
					if text != "ok" {
						t.Errorf("%s at %d: %s", path, width, text)
					}
				default:
					t.Errorf("%s at %d: the script did not run", path, width)
				}
			}
		}
	}
}

// probe says whether the page is as wide as its window, and what went wrong in it.
const probe = `const wrong = [];
addEventListener("error", e => wrong.push(e.message || "not loaded: " + (e.target.src || e.target.href)), true);
addEventListener("securitypolicyviolation", e => wrong.push("policy: " + e.violatedDirective + " " + e.blockedURI));
const wide = document.documentElement.scrollWidth - innerWidth;
if (wide > 0) wrong.push(wide + " pixels too wide: " + [...document.querySelectorAll("main *, header *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map(e => e.tagName + "." + e.className).join(", "));
for (const e of document.querySelectorAll("input, select")) if (e.type !== "hidden" && !e.labels.length) wrong.push("no label: " + e.name);
const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
if (new Set(ids).size !== ids.length) wrong.push("an id is there twice");
if (document.querySelectorAll("h1").length !== 1) wrong.push(document.querySelectorAll("h1").length + " titles");
navigator.sendBeacon ? fetch("/probe", { method: "POST", body: wrong.join("; ") || "ok" }) : 0;`

func shoot(t *testing.T, program, profile, address, file string, width int, dark bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir=" + profile, "--enable-logging=stderr", "--v=0",
		fmt.Sprintf("--window-size=%d,%d", width, max(1000, width*9/16)), "--screenshot=" + file}
	if width < 500 { // no window is that narrow, but a screen is
		args[len(args)-2] = fmt.Sprintf("--window-size=%d,1600", width)
	}
	if dark {
		args = append(args, "--blink-settings=preferredColorScheme=0")
	}
	cmd := exec.CommandContext(ctx, program, append(args, address)...)
	cmd.Env = append(os.Environ(), "HOME="+profile)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "CONSOLE") {
			t.Errorf("%s at %d: %s", address, width, line)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
