package browser

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// demo is a run of `slipway-demo --web --approve`, which waits for a person with a browser.
type demo struct {
	t     testing.TB
	lines chan string
	said  []string
}

// begins starts it, from the programs that make build has left. Its site runs on when it ends, until the
// test ends.
func begins(t *testing.T) *demo {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "slipway-demo"), "--web", "--approve")
	cmd.Dir = root
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it then leaves nothing behind
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v: run make build", err)
	}
	d := &demo{t: t, lines: make(chan string, 10_000)}
	go func() {
		defer close(d.lines)
		for all := bufio.NewScanner(out); all.Scan(); {
			d.lines <- all.Text()
		}
	}()
	t.Cleanup(func() {
		cancel()
		for line := range d.lines {
			d.said = append(d.said, line)
		}
		cmd.Wait()
		d.end()
	})
	return d
}

// ending is what the demo says of how to end what runs on.
var ending = regexp.MustCompile(`kill ([0-9 ]+); sleep 2; rm -r (/\S+)`)

// end ends the site that the demo has left running.
func (d *demo) end() {
	m := ending.FindStringSubmatch(strings.Join(d.said, "\n"))
	if m == nil {
		return
	}
	for id := range strings.FieldsSeq(m[1]) {
		if pid, err := strconv.Atoi(id); err == nil {
			syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	for range 100 { // until nobody writes there any more
		if os.RemoveAll(m[2]) == nil {
			return
		}
	}
}

// says waits for a line of the demo with a text, and gives it.
func (d *demo) says(text string) string {
	d.t.Helper()
	tired := time.After(3 * time.Minute)
	for {
		select {
		case line, open := <-d.lines:
			if !open {
				d.t.Fatalf("the demo has ended before it said %q:\n%s", text, strings.Join(d.said, "\n"))
			}
			if d.said = append(d.said, line); strings.Contains(line, text) {
				return line
			}
		case <-tired:
			d.t.Fatalf("the demo did not say %q:\n%s", text, strings.Join(d.said, "\n"))
		}
	}
}

// The whole story of the demo, followed in a browser: a person approves there what the demo asks a person
// for, and sees everything happen on a page that is loaded once.
func TestProveDemoInBrowser(t *testing.T) {
	if os.Getenv("SLIPWAY_PROVE") == "" {
		t.Skip("SLIPWAY_PROVE=1 follows the demo in a browser, from the programs of make build")
	}
	b := Open(t)
	d := begins(t)
	line := d.says("open in your browser: http://")
	link := line[strings.Index(line, "http://"):]
	dir := os.Getenv("SLIPWAY_PICTURES")
	if dir == "" {
		dir = t.ArtifactDir()
	}
	t.Logf("pictures are in %s", dir)
	w := b.Window(t, Screen{Width: 1280, Height: 900})
	w.Early(`window.story = []; addEventListener("DOMContentLoaded", () => {
		const tell = () => { const e = document.getElementById("verdict"); if (e && story.at(-1) !== e.innerText) story.push(e.innerText); };
		tell(); new MutationObserver(tell).observe(document.body, { childList: true, subtree: true });
	});`)
	w.Go(link)
	w.Until(`document.getElementById("persons").innerText.includes("2 machines will lose data after approval")`)
	w.Shoot(filepath.Join(dir, "demo-1-waits.png"))
	d.says("approve it in your browser")
	w.Click(`#persons a.grave`)
	w.Until(`document.querySelector("form.confirm input[name=digest]")`)
	for _, text := range []string{"compute-5", "compute-6", "everything"} {
		if got := w.Text(`document.querySelector(".losses").innerText`); !strings.Contains(got, text) {
			t.Errorf("no %q is in what is lost:\n%s", text, got)
		}
	}
	w.Shoot(filepath.Join(dir, "demo-2-approval.png"))
	w.Click(`input[name=sure]`)
	w.Click(`form.confirm button`)
	w.Until(`document.querySelector("h1").textContent === "Done"`)
	w.Shoot(filepath.Join(dir, "demo-3-done.png"))
	d.says("approved in the browser")
	w.Click(`main a.button`)
	w.Until(`location.pathname === "/sites/example" && document.readyState === "complete"`)
	w.Get(`window.same = true`, nil)
	for i, x := range []struct{ says, tells string }{
		{"12 of 12 in-sync", "12/12 in-sync"},
		{"12 of 12 in-sync with the new design", "compute-4 rests"},
		{"has read it, and merges", "A fresh system for compute-6"},
		{"noticed: controller-2", "11/12 in-sync"},
		{"refused, and the status says why", "is not in force"},
		{"held:", "6 blocked"},
		{"nothing was lost", "12/12 in-sync"},
	} {
		d.says(x.says)
		took := w.Until(`window.same && story.some(s => s.includes("` + x.tells + `"))`)
		t.Logf("the demo says %q, and the page %q after %v", x.says, x.tells, took.Round(time.Millisecond))
		w.Shoot(filepath.Join(dir, "demo-"+strconv.Itoa(i+4)+".png"))
		w.Get(`story.splice(0, story.length - 1)`, nil)
	}
	// The daemon is begun anew without the GitHub, which ends with the demo; the page goes on.
	d.says("demo: 12/12 nodes in-sync")
	w.Until(`window.same && document.getElementById("lost").hidden && document.getElementById("alive").textContent === "· live" && document.getElementById("verdict").innerText.includes("12/12 in-sync")`)
	isAway := func(said string) bool { // of what the page asks while there is no daemon
		return strings.Contains(said, "/live?") || strings.Contains(said, "502 (Bad Gateway)") && strings.HasSuffix(said, "/api/v1/whoami")
	}
	if all := slices.DeleteFunc(w.Complaints(), isAway); len(all) > 0 {
		t.Error(all)
	}
	w.Go(link[:strings.Index(link, "/?")] + "/sites/example/audit")
	if got := w.Text(`document.getElementById("list").innerText`); !strings.Contains(got, "approve") {
		t.Errorf("the audit log does not tell of the approval:\n%s", got)
	}
	w.Shoot(filepath.Join(dir, "demo-audit.png"))
}
