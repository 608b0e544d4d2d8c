package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/driver"
)

type checkBMCFlags struct {
	bmcFlags
	capture string
	bounds  driver.Bounds
	mib     int64
}

func (a *app) bmcCheckCommand() *cobra.Command {
	var f checkBMCFlags
	cmd := &cobra.Command{
		Use: "check URL|NODE", Short: "say what a management controller can do, and how fast", Args: exactly(1),
		Long: "Tries what a management controller can do, and says what works, which of its known\n" +
			"quirks were seen, and how long it takes to answer. Writes nothing to it.\n\n" +
			"With --capture it copies everything that the controller shows to FILE for a bug report\n" +
			"(gzip, JSON, path to resource). Serial numbers, service tags, UUIDs, MAC and IP\n" +
			"addresses, names, passwords, keys and certificates are replaced; equal values get equal\n" +
			"replacements. Look through the file before you give it to somebody.\n" + exitHelp,
		Example: "  slipway bmc check compute-3 --credentials /etc/slipway/credentials\n" +
			"  slipway bmc check https://10.9.0.11 --credential bmc --credentials /etc/slipway/credentials --trust-first-use --capture bmc.json.gz",
	}
	flags := cmd.Flags()
	flags.StringVar(&f.capture, "capture", "", "new `FILE` for a redacted copy of what the controller shows")
	flags.IntVar(&f.bounds.Requests, "capture-requests", 3000, "end the capture after this many requests")
	flags.Int64Var(&f.mib, "capture-mib", 64, "end the capture after this many MiB")
	flags.DurationVar(&f.bounds.Time, "capture-time", 30*time.Minute, "end the capture after this time")
	return a.onBMC(&f.bmcFlags, cmd, func(ctx context.Context, b *bmc, _ []string) error { return a.bmcCheck(ctx, b, f) })
}

// checkedBMC is what bmc check prints as JSON.
type checkedBMC struct {
	driver.Grade
	Capture *captured `json:"capture,omitempty"`
}

// captured is what became of a capture.
type captured struct {
	File      string `json:"file"`
	Resources int    `json:"resources"`
	Failed    int    `json:"failed"`
	Left      int    `json:"left"`
	Why       string `json:"why,omitempty"`
}

func (a *app) bmcCheck(ctx context.Context, b *bmc, f checkBMCFlags) error {
	g, err := able[driver.Grader](b, "grade controllers")
	if err != nil {
		return err
	}
	if err := newCapture(f.capture); err != nil {
		return err
	}
	told, done := a.progress()
	grade, err := g.Grade(ctx, b.machine, told)
	done()
	if err != nil {
		return fmt.Errorf("%s: %w", b.name, err)
	}
	out := checkedBMC{Grade: grade}
	if f.capture != "" {
		if out.Capture, err = a.bmcCapture(ctx, b, f); err != nil {
			return fmt.Errorf("%s: capture: %w", b.name, err)
		}
	}
	if a.output == "json" {
		return a.out.JSON(out)
	}
	printGrade(a.out, grade)
	printCaptured(a.out, out.Capture)
	return nil
}

// newCapture says what keeps a file from being written: before half an hour of
// reading, and not after it.
func newCapture(file string) error {
	if file == "" {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		return fmt.Errorf("--capture: %w", err)
	}
	if _, err := os.Lstat(file); err == nil {
		return usage("--capture: %s exists already and was not changed: name a new file", file)
	}
	return nil
}

func (a *app) bmcCapture(ctx context.Context, b *bmc, f checkBMCFlags) (*captured, error) {
	c, err := able[driver.Capturer](b, "capture")
	if err != nil {
		return nil, err
	}
	f.bounds.Bytes = f.mib << 20
	told, done := a.progress()
	got, err := c.Capture(ctx, f.bounds, told)
	done()
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if err := encodeJSON(z, got.Resources); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	out := &captured{f.capture, len(got.Resources), got.Failed, got.Left, got.Why}
	return out, replaceFile(f.capture, packed.Bytes(), 0o600)
}

// progress shows on a terminal how far something is, until it is done.
func (a *app) progress() (driver.Told, func()) {
	if !a.err.Terminal() {
		return func(string, int, int) {}, func() {}
	}
	const width = 30
	told := func(what string, done, all int) {
		full := done * width / max(all, 1)
		bar := strings.Repeat("█", full) + strings.Repeat("░", width-full)
		a.err.Restart(fmt.Sprintf("%s %d/%d %s", bar, done, all, what))
	}
	return told, func() { a.err.Restart("") }
}

var verdictColours = map[driver.Verdict]text.Color{
	driver.Works: text.FgGreen, driver.Partly: text.FgYellow, driver.Lacks: text.FgHiBlack, driver.Fails: text.FgRed,
}

func printGrade(w *screen, g driver.Grade) {
	bold := paint(w, text.Bold)
	for _, f := range g.About {
		w.Printf("%-13s %s\n", f.Name, f.Value)
	}
	w.Printf("%-13s %s\n", "identity", identityText(g))
	t := newTable("ability", "", "how")
	for _, ability := range g.Abilities {
		t.AppendRow(table.Row{ability.Name, paint(w, verdictColours[ability.Verdict])(string(ability.Verdict)), abilityText(ability)})
	}
	if width := w.Columns(); width > 60 {
		t.SetColumnConfigs([]table.ColumnConfig{{Number: 3, WidthMax: width - 30, WidthMaxEnforcer: text.WrapSoft}})
	}
	w.Printf("\n%s\n\n", t.Render())
	w.Printf("%s %s\n", bold("serves  "), orNothing(served(g)))
	w.Printf("%s %s\n", bold("known for"), orNothing(g.Known))
	w.Printf("%s %s\n\n", bold("came up "), orNothing(g.Met))
	l := newTable("request", "count", "median", "worst")
	for _, k := range g.Latency {
		l.AppendRow(table.Row{k.Kind, k.Requests, short(time.Duration(k.Median)), short(time.Duration(k.Worst))})
	}
	w.Printf("%s\n\n%d requests, %d KiB; nothing was written\n", l.Render(), g.Requests, g.Bytes>>10)
}

func identityText(g driver.Grade) string {
	if !g.Identity.Known() {
		return "none"
	}
	parts := []string{g.Identity.UUID, g.Identity.Serial, g.Identity.Slot, g.Identity.MAC}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), "  ")
}

// abilityText gives values that have spaces lines of their own.
func abilityText(a driver.Ability) laid {
	switch {
	case len(a.Values) == 0:
		return lines(a.Text)
	case strings.Contains(strings.Join(a.Values, ""), " "):
		return lines(append([]string{a.Text}, a.Values...)...)
	}
	return lines(a.Text + ": " + strings.Join(a.Values, ", "))
}

// served are the facets for which everything that they need works, at least
// partly.
func served(g driver.Grade) []string {
	var all []string
	bad := map[string]bool{}
	for _, a := range g.Abilities {
		name := string(a.Facet)
		if name == "" {
			continue
		}
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
		if a.Verdict == driver.Lacks || a.Verdict == driver.Fails {
			bad[name] = true
		}
	}
	var good []string
	for _, name := range all {
		if !bad[name] {
			good = append(good, name)
		}
	}
	return good
}

func orNothing(all []string) string {
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

// short is a time without digits that nobody needs.
func short(d time.Duration) string {
	if d < 10*time.Millisecond {
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}

func printCaptured(w *screen, c *captured) {
	if c == nil {
		return
	}
	w.Printf("%s holds %d resources, redacted; look through it before you give it to somebody\n", c.File, c.Resources)
	if c.Failed > 0 {
		w.Printf("%d could not be read\n", c.Failed)
	}
	if c.Left > 0 {
		w.Printf("at least %d were left out: %s\n", c.Left, c.Why)
	}
}
