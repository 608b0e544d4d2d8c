package engine_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// removal takes one protection out of the program.
type removal struct {
	file     string // below the engine's folder
	was, is  string
	and      []removal // what else keeps the same promise
	expected string    // a part of what the oracle says; empty for anything
}

// removals are the protections that keep data from being lost, by what is without
// them. The stories have to fail without each.
var removals = map[string]removal{
	"nobody is asked": {file: "consume.go",
		was: "case !destroys || used(w.memory.Recorded, s):\n\t\treturn nil", is: "case !destroys || true:\n\t\treturn nil",
		and: []removal{{file: "consume.go", was: "\t\tif err != nil {\n\t\t\treturn fmt.Errorf(\"%w: %w\", driver.ErrNotPermitted, err)", is: "\t\tif false {\n\t\t\treturn fmt.Errorf(\"%w: %w\", driver.ErrNotPermitted, err)"}}},
	"the last look grants everything": {file: "consume.go",
		was: "used, err := w.consume(ctx, j, s)", is: "used, err := false, error(nil)"},
	"an approval is not used up": {file: "ledger/ledger.go",
		was: "return close(a, l.Attempt), nil", is: "e.Consumed = time.Time{}\n\treturn a, nil",
		and: []removal{
			{file: "consume.go", was: "f.Step, f.Consumed = s, true", is: "f.Step, f.Consumed = s, false"},
			{file: "ledger/ledger.go", was: "case !slices.ContainsFunc(s.Planned, func(p site.Loss) bool {", is: "case false && !slices.ContainsFunc(s.Planned, func(p site.Loss) bool {"},
			{file: "plan/install.go", was: "\tcase have < n.Generation:\n", is: "\tcase n.Generation > 0:\n"}}}, // what is installed is installed again
	"nobody can take an approval back": {file: "approve.go", // though people are told that they did
		was: "\t\t\treturn text\n", is: "\t\t\t_ = text\n\t\t\treturn \"\"\n"},
	"approvals outlive the design": {file: "ledger/ledger.go",
		was: "case !slices.ContainsFunc(s.Planned, func(p site.Loss) bool {", is: "case false && !slices.ContainsFunc(s.Planned, func(p site.Loss) bool {",
		and: []removal{
			{file: "ledger/ledger.go", was: "case s.Gone != \"\":", is: "case false:"},
			{file: "account.go", was: "a.Closed++", is: ""}}},
	"approvals do not expire": {file: "ledger/ledger.go",
		was: "const Lasts = 7 * 24 * time.Hour", is: "const Lasts = 700 * 24 * time.Hour"},
	"disks may be others": {file: "inspect.go",
		was: "passedLess(w.disksRead, freshDisks) {", is: "true {"},
	"another machine is written to": {file: "driver/drivertest/request.go",
		was: "if session.Known() && session != is {", is: "if false {",
		and: []removal{{file: "driver/drivertest/bmcapply.go", was: "if !w.step.Machine.Matches(seen) {", is: "if false {"}}},
	"another daemon is not noticed": {file: "anchor.go",
		was: "case e.isOwnLocked(is):", is: "case true:"},
	"a loss that comes again is the one that was approved": {file: "site/ledger.go",
		was: "l.Records, l.Attempt = a.Records, a.Closed+1", is: "l.Records, l.Attempt = a.Records, 1",
		and: []removal{{file: "ledger/ledger.go", was: "case l.Attempt <= a.Closed:", is: "case false:"}}},
	"records that were set back are not noticed": {file: "anchor.go",
		was: "if ledger.IsBehind(e.accountLocked(s.Node), published) {", is: "if ledger.IsBehind(e.accountLocked(s.Node), published) && false {"},
}

func (r removal) all() []removal { return append([]removal{r}, r.and...) }

// Each protection is where the removals look for it.
func TestRemovalsFindTheirProtections(t *testing.T) {
	for name, r := range removals {
		for _, r := range r.all() {
			if text, err := os.ReadFile(r.file); err != nil || strings.Count(string(text), r.was) != 1 {
				t.Errorf("%s: %s has %d times %q: %v", name, r.file, strings.Count(string(text), r.was), r.was, err)
			}
		}
	}
}

// Stories fail when a protection is removed: SLIPWAY_TOOTH removes one of them
// only.
func TestProveOracleHasTeeth(t *testing.T) {
	only := os.Getenv("SLIPWAY_TOOTH")
	if os.Getenv("SLIPWAY_PROVE") == "" && only == "" {
		t.Skip("make prove builds the stories without each protection")
	}
	for name, r := range removals {
		if only == "" || only == name {
			t.Run(name, func(t *testing.T) { r.isNoticed(t) })
		}
	}
}

// isNoticed fails the test unless a story fails without the protection.
func (r removal) isNoticed(t *testing.T) {
	const most, at = 3000, 100
	dir := t.TempDir()
	stories := filepath.Join(dir, "stories")
	build := exec.Command("go", "test", "-c", "-o", stories, "-overlay", r.overlay(t, dir), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for first := 1; first <= most; first += at {
		run := exec.Command(stories, "-test.run", "^TestProveProperties$")
		run.Env = append(os.Environ(), fmt.Sprint("SLIPWAY_SEED=", first), fmt.Sprint("SLIPWAY_RUNS=", at), "SLIPWAY_TRACE=1")
		out, _ := run.CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if _, wrong, found := strings.Cut(line, ": seed "); found && strings.Contains(wrong, " on machine ") && strings.Contains(wrong, r.expected) {
				t.Logf("seed %s", strings.TrimSpace(wrong))
				return
			}
		}
	}
	t.Errorf("no destruction is noticed in %d stories", most)
}

// overlay gives the file that has the Go command build without the protection.
func (r removal) overlay(t *testing.T, dir string) string {
	changed := map[string]string{}
	for _, r := range r.all() {
		path, err := filepath.Abs(r.file)
		if err != nil {
			t.Fatal(err)
		}
		from := path
		if changed[path] != "" {
			from = changed[path]
		}
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		changed[path] = filepath.Join(dir, strings.ReplaceAll(r.file, "/", "-"))
		if err := os.WriteFile(changed[path], []byte(strings.Replace(string(text), r.was, r.is, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": changed})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}
