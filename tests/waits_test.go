package tests

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// leftOut are the functions that leave a test out and do not look at CI for it,
// with the reason.
var leftOut = map[string]string{
	"engine/harness_test.go lastsLong":                                                                    "what the race detector makes slow runs without it, in the same CI",
	"engine/design/hostile_test.go hasOneGoroutine":                                                       "what the race detector makes slow and has nothing to find in runs without it, in the same CI",
	"engine/design/hostile_test.go measuresMemory":                                                        "what the race detector takes memory for runs without it, in the same CI",
	"engine/teeth_test.go TestProveOracleHasTeeth":                                                        "each protection takes a build and thousands of stories: make prove has the time",
	"engine/web/bench_test.go TestViewersOfBench":                                                         "it is the process of the viewers of a benchmark, and no test",
	"engine/web/login_test.go TestProveLoginInBrowser":                                                    "a browser logs in: make prove has Chromium, and CI has the requests that it makes",
	"tests/browser/demo_test.go TestProveDemoInBrowser":                                                   "it plays the demo a second time: make prove has the time, and CI has the demo and the parts",
	"cmd/slipway-helper/action_test.go TestProveBootActions":                                              "it boots a whole system several times: make prove has the time, and CI has a system of the test's own",
	"cmd/slipway-helper/survey_test.go TestProveSurveyOfADebian":                                          "it unpacks a whole system: make prove has the time, and CI has the facets on small ones",
	"sinks/agent/inside/network/live_test.go TestProveIfupdownForReal":                                    "it waits for reverts: make prove has the time, and CI has networkd",
	"sinks/agent/inside/packages/apt_real_test.go TestProveAptTransactions":                               "real transactions take minutes: make prove has the time, and CI has package scripts and dnf",
	"sinks/agent/inside/packages/more_real_test.go TestProveAptPatch":                                     "real transactions take minutes: make prove has the time, and CI has package scripts and dnf",
	"tests/ramdisk/network_test.go boots":                                                                 "it packs a kernel and boots it twice: make prove has the time, and CI has the answers to firmware",
	"tests/e2e/blank/blank_test.go installs":                                                              "it builds an image and installs an emulated machine: make prove has the time, and CI has the parts",
	"tests/e2e/blank/incident_test.go TestProveIncidentOnRealSystems":                                     "it installs an emulated machine twice: make prove has the time, and CI has incidents of simulated machines",
	"tests/inside/rotation_killed_test.go TestProveAuthoritiesKilledAtEachWrite":                          "dozens of steps on a real system: make prove has the time, and CI has the exchange of authorities without kills",
	"tests/inside/ownership_test.go TestProveTheLastDesignAloneCounts":                                    "hundreds of steps on real systems: make prove has the time, and CI has two designs",
	"tests/inside/crash_test.go TestProveKilledAfterEachWrite":                                            "hundreds of steps on real systems: make prove has the time, and CI has a few points",
	"tests/inside/crash_test.go TestProveConnectionCut":                                                   "hundreds of steps on real systems: make prove has the time, and CI has a few cuts",
	"tests/inside/idempotence_test.go TestProveASecondPassWritesNothing":                                  "many designs on a real system: make prove has the time, and CI has one",
	"tests/inside/network_test.go TestProveNetworkChanges":                                                "it waits for reverts: make prove has the time, and CI has those of one interface",
	"tests/inside/network_test.go TestProveNetworkChangesOfAKilledDaemon":                                 "it changes the network two dozen times: make prove has the time, and CI has those of one interface",
	"tests/inside/guest_test.go TestProveGuestNetwork":                                                    "it boots a guest on an emulated processor: make prove has the time, and CI has the files and one interface",
	"tests/inside/guest_test.go TestProveGuestNetworks":                                                   "it boots a guest on an emulated processor: make prove has the time, and CI has the files and one interface",
	"tests/inside/systems_test.go TestProveSystems":                                                       "it makes five releases and boots each: make prove has the time, and CI has Debian 12",
	"tests/inside/hostile_test.go TestProveHostileNames":                                                  "many designs on a real system: make prove has the time, and CI has two",
	"tests/inside/hostile_test.go TestProveHostileNode":                                                   "it waits for a package of a minute: make prove has the time, and CI has the parts on small systems",
	"sinks/agent/inside/network/servers_live_test.go TestProveNamesAndLeasesOfIfupdown":                   "it unpacks a whole system: make prove has the time, and CI has networkd",
	"sinks/agent/inside/network/networkmanager_live_test.go TestProveNetworkManagerForReal":               "it makes a system with another network manager: make prove has the time, and CI has networkd",
	"sinks/agent/inside/network/networkmanager_live_test.go TestProveNetworkManagerBesideIfupdownForReal": "it makes a system with another network manager: make prove has the time, and CI has the refusal on files",
	"tests/inside/chrony_test.go TestProveChrony":                                                         "it makes a system with another time service: make prove has the time, and CI has timesyncd",
	"tests/inside/hostile_repositories_test.go TestProveHostileRepositories":                              "many designs on a real system: make prove has the time, and CI has eight",
	"sinks/agent/inside/boot/boot_test.go newMachine":                                                     "its files have the names of amd64, which CI has",
	"tests/failover/mistake_test.go TestProveLeaseByTheTimeOfDayIsNoticed":                                "it builds the daemon once more: make prove has the time, and CI has the judge's own tests",
	"tests/target/target_test.go TestProveInstallation":                                                   "it installs and boots emulated machines: make prove has the time, and CI has the parts on files",
	"tests/ramdisk/boot_test.go TestProveRamdiskBoots":                                                    "it packs a whole kernel and boots two emulated machines: make prove has the time, and CI has the parts",
	"tests/target/ramdisk_test.go TestProveRamdiskInstalls":                                               "it packs a whole kernel, installs and boots emulated machines: make prove has the time, and CI has the parts",
}

// bubbles run what they are given in a bubble of package synctest, where a sleep
// takes no time.
var bubbles = []string{"synctest.Test", "inBubble", "inBox", "inWorld", "in"}

// inBubbles are the functions that are called within bubbles only, and sleep.
var inBubbles = []string{
	"sinks/redfish/cut_test.go cutAt", "sinks/redfish/order_test.go installTakenUpAt", "sinks/redfish/cut_test.go installCutAt", "sinks/redfish/cut_test.go powerOn",
	"sinks/redfish/swap_test.go follow",
	"sinks/redfish/swap_test.go prepare",
	"sinks/agent/inside/erase/fake_test.go Pass",
	"engine/chaos_test.go setsClock", "engine/chaos_test.go nextChapter", "engine/desk_test.go Announce", "engine/story_test.go rises", "engine/control/rejected_test.go Write",
}

// A test that is left out must be missed in CI, and none may wait for time to
// pass.
func TestNoneIsLeftOutAndNoneSleeps(t *testing.T) {
	looked := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		looked++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel("..", path)
		for _, wrong := range waits(t, filepath.ToSlash(name), string(text)) {
			t.Error(wrong)
		}
		return err
	})
	if err != nil || looked < 200 {
		t.Errorf("%d files: %v", looked, err)
	}
	bad := `package x
func TestSkips(t *testing.T) { if true { t.Skip("x") } }
func TestSleeps(t *testing.T) { time.Sleep(1); go func() { time.Sleep(2) }() }
func TestIsFine(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }
func tells(t testing.TB) { if os.Getenv("CI") != "" { t.Fatal() }; t.Skipf("x") }
func waitsToo() { time.Sleep(1); synctest.Wait() }
`
	if got := waits(t, "x_test.go", bad); len(got) != 3 {
		t.Errorf("of three these are found: %v", got)
	}
}

// waits are the places of a file in which a test is left out unseen, or sleeps. A benchmark may: it keeps a pace.
func waits(t *testing.T, name, text string) (wrong []string) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		body, called := text[f.Body.Pos()-1:f.Body.End()-1], name+" "+f.Name.Name
		for _, c := range calls(f.Body) { // a Skip without a reason is that of a decoder of XML
			at := fset.Position(c.call.Pos())
			switch skips := []string{"Skip", "Skipf", "SkipNow"}; {
			case slices.Contains(skips, c.name) && c.of != "fs" && len(c.call.Args) > 0 && !strings.Contains(body, `os.Getenv("CI")`) && leftOut[called] == "":
				wrong = append(wrong, fmt.Sprintf("%s: a test is left out, and CI would not notice: look at CI, or say why in leftOut", at))
			case strings.HasSuffix(name, "_test.go") && c.of+"."+c.name == "time.Sleep" && !c.bubble && !strings.HasPrefix(f.Name.Name, "Benchmark") && !strings.Contains(body, "synctest.Wait()") && !slices.Contains(inBubbles, called):
				wrong = append(wrong, fmt.Sprintf("%s: a sleep outside of a bubble of package synctest: wait for what is to happen", at))
			}
		}
	}
	return wrong
}

// call is a call of a function of something, and whether it is in a bubble.
type call struct {
	call     *ast.CallExpr
	of, name string
	bubble   bool
}

// calls are all that are made in a body.
func calls(body ast.Node) (all []call) {
	var look func(n ast.Node, bubble bool)
	look = func(n ast.Node, bubble bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			e, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			c := call{call: e, bubble: bubble}
			switch f := e.Fun.(type) {
			case *ast.Ident:
				c.name = f.Name
			case *ast.SelectorExpr:
				c.name = f.Sel.Name
				if x, ok := f.X.(*ast.Ident); ok {
					c.of = x.Name
				}
			}
			all = append(all, c)
			look(e.Fun, bubble)
			for _, arg := range e.Args {
				look(arg, bubble || slices.Contains(bubbles, strings.TrimPrefix(c.of+"."+c.name, ".")))
			}
			return false
		})
	}
	look(body, false)
	return all
}
