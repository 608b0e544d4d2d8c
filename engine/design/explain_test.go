package design

import (
	"maps"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/site"
)

// layered has every way for a layer to speak of a value.
const layered = `package small

roles: compute: {}
racks: r1: {}
networks: {bmc: cidr: "10.0.0.0/8"}
credentials: {bmc: {}, lab: {}, os: {}}
profiles: {
	base: {
		role: "compute"
		rack: "r1"
		power: "on"
		boot: order: ["Hdd", "Pxe"]
		labels: {tier: "slow", site: "s"}
		endpoints: os: {url: "ssh://11.0.0.1", trust: hostKeys: ["ssh-ed25519 AAAA"], credential: "lab"}
	}
	fast: {
		parents: ["base"]
		labels: tier: "fast"
		boot: _ @unset()
		endpoints: manager: credential: "lab"
	}
}
nodes: {
	n1: {
		profiles: ["fast"]
		identity: uuid: "5e1d0000-0300-4000-8000-000000000033"
		labels: tier: "faster"
		power: _ @unset()
		endpoints: manager: {url: "redfish+https://10.0.0.1/redfish/v1/Systems/1", credential: _ @unset()}
	}
	n3: {
		profiles: ["fast"]
		labels: "example.org/a": "x"
		boot: order: ["Cd"]
		endpoints: manager: url: "redfish+https://10.0.0.2/redfish/v1/Systems/1"
		endpoints: os: _ @unset()
	}
}
`

// told is an explanation, a line for each value and its chain.
func told(x Explanation) string {
	var b strings.Builder
	say := func(what string, s Setting) {
		value := string(s.Value)
		if s.Unset {
			value = "unset"
		}
		b.WriteString(what + " " + value + " " + s.Origin.LayerName() + "\n")
	}
	for _, v := range x.Values {
		say(v.Path, v.Setting)
		for _, o := range v.Overrode {
			say("  over", o)
		}
	}
	return b.String()
}

func TestExplain(t *testing.T) {
	e := newEvaluator(t, Limits{})
	files := repository(map[string]string{"site.cue": layered})
	for target, want := range map[string]string{
		"n1.power": "power unset node/n1\n  over \"on\" profile/base\n",
		"n1.boot":  "boot.order unset profile/fast\n  over [\"Hdd\",\"Pxe\"] profile/base\n",
		"n1.endpoints.manager.credential": "endpoints.manager.credential \"bmc\" schema\n" +
			"  over unset node/n1\n  over \"lab\" profile/fast\n",
		"n3.labels.tier": "labels.tier \"fast\" profile/fast\n  over \"slow\" profile/base\n",
		"n3.labels": "labels.example.org/a \"x\" node/n3\n" +
			"labels.site \"s\" profile/base\n" +
			"labels.tier \"fast\" profile/fast\n  over \"slow\" profile/base\n",
		"n3.boot.order": "boot.order [\"Cd\"] node/n3\n" +
			"  over unset profile/fast\n  over [\"Hdd\",\"Pxe\"] profile/base\n",
		"n3.endpoints.os.credential": "endpoints.os.credential unset node/n3\n  over \"lab\" profile/base\n",
		"n1.endpoints.os.credential": "endpoints.os.credential \"lab\" profile/base\n  over \"os\" schema\n",
		"n3.labels.example.org/a":    "labels.example.org/a \"x\" node/n3\n",
		"n1.profiles":                "profiles [\"base\",\"fast\"] node/n1\n",
	} {
		x, r, err := e.Explain(t.Context(), files, "", target)
		if err != nil || r.Site == nil {
			t.Fatalf("%s: %v\n%s", target, err, describe(r.Findings))
			continue
		}
		if diff := cmp.Diff(want, told(x)); diff != "" {
			t.Errorf("%s: want (-), got (+):\n%s", target, diff)
		}
	}
}

// Paths of files have slashes and dots of their own, and one is within another only if
// the design has it so.
func TestExplainFiles(t *testing.T) {
	files := repository(map[string]string{"site.cue": layered + `
nodes: n1: system: files: {
	"/etc/motd": {content: "a", mode: "0600"}
	"/etc/motd.d": content: "b"
	"/etc/motd.e/x.conf": content: "c"
}
`})
	e := newEvaluator(t, Limits{})
	for target, want := range map[string]string{
		"n1.system.files./etc/motd":          "system.files./etc/motd.content, system.files./etc/motd.mode",
		"n1.system.files./etc/motd.mode":     "system.files./etc/motd.mode",
		"n1.system.files./etc/motd.d":        "system.files./etc/motd.d.content",
		"n1.system.files./etc/motd.e/x.conf": "system.files./etc/motd.e/x.conf.content",
		"n1.system.files./etc/motd.e/x":      "",
		"n1.system.files./etc":               "",
	} {
		x, r, err := e.Explain(t.Context(), files, "", target)
		if (err == nil) != (want != "") || r.Site == nil {
			t.Fatalf("%s: %v\n%s", target, err, describe(r.Findings))
		}
		var paths []string
		for _, v := range x.Values {
			paths = append(paths, v.Path)
		}
		if got := strings.Join(paths, ", "); got != want {
			t.Errorf("%s: got %s, want %s", target, got, want)
		}
	}
}

func TestExplainWhatIsNotThere(t *testing.T) {
	e := newEvaluator(t, Limits{})
	files := repository(map[string]string{"site.cue": layered})
	for target, want := range map[string]string{
		"n":            `site small has no node "n"; did you mean "n1"?`,
		"n.power":      `site small has no node "n"; did you mean "n1"?`,
		"n1.pwer":      `the node n1 has no value at "pwer"; did you mean "power"?`,
		"n1.boot.ordr": `the node n1 has no value at "boot.ordr"; did you mean "boot.order"?`,
		"":             `site small has no node ""`,
	} {
		x, _, err := e.Explain(t.Context(), files, "", target)
		if err == nil || err.Error() != want || len(x.Values) > 0 {
			t.Errorf("%q: %v, %v; want %s", target, x, err, want)
		}
	}
	x, r, err := e.Explain(t.Context(), repository(broken), "", "n1")
	if err != nil || r.Site != nil || len(r.Findings) == 0 || x.Node != "" {
		t.Errorf("a broken design: %v, %v, %v", x, r, err)
	}
}

// What an explanation says holds is what the design says holds, of every node
// of every design here.
func TestExplanationsAgreeWithTheDesign(t *testing.T) {
	hasOneGoroutine(t)
	compared := 0
	for name, p := range goodDesigns(t) {
		s := evaluateHere(p, "").Site
		for _, node := range s.NodeNames() {
			got := map[string]site.Origin{}
			for _, v := range evaluateHere(p, node).Explanation.Values {
				if v.Unset == (v.Value != nil) {
					t.Errorf("%s: %s.%s is unset and has a value, or neither", name, node, v.Path)
				}
				// Boot actions are the site's: which nodes do them is no value of a node.
				if !v.Unset && !strings.HasPrefix(v.Path, "bootActions.") {
					got[v.Path] = v.Origin
				}
			}
			want := maps.Collect(s.Nodes[node].Origins.All())
			maps.DeleteFunc(want, func(path string, _ site.Origin) bool { return inList(path, got) || holdsAny(path, got) })
			if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b site.Origin) bool { return a == b })); diff != "" {
				t.Errorf("%s: %s: design (-), explanation (+):\n%s", name, node, diff)
			}
			compared++
		}
	}
	if compared < 15 {
		t.Errorf("compared %d nodes, want more", compared)
	}
}

// inList says whether a path is of an item of a list, which is explained as a
// whole.
func inList(path string, explained map[string]site.Origin) bool {
	for i, c := range path {
		if _, ok := explained[path[:i]]; c == '.' && ok {
			return true
		}
	}
	return false
}

// holdsAny says whether a path is of an entry that was written empty and has
// defaults, which are explained each.
func holdsAny(path string, explained map[string]site.Origin) bool {
	for at := range explained {
		if strings.HasPrefix(at, path+".") {
			return true
		}
	}
	return false
}

// goodDesigns are the designs of this package's tests without mistakes, and
// site-example.
func goodDesigns(t *testing.T) map[string]pack {
	t.Helper()
	good.once.Do(func() { good.all = findGoodDesigns(t) })
	return good.all
}

var good struct {
	once sync.Once
	all  map[string]pack
}

func findGoodDesigns(t *testing.T) map[string]pack {
	t.Helper()
	all := map[string]pack{}
	add := func(name string, p pack, findings []site.Finding, err error) {
		if err == nil && len(findings) == 0 && evaluateHere(p, "").Site != nil {
			all[name] = p
		}
	}
	for _, g := range goldens(t) {
		p, findings, err := collect(g.files(t), g.site(), Limits{}.withDefaults())
		add(g.name(), p, findings, err)
	}
	p, findings, err := collect(os.DirFS("../../site-example"), "", Limits{}.withDefaults())
	add("site-example", p, findings, err)
	p, findings, err = collect(repository(map[string]string{"site.cue": layered}), "", Limits{}.withDefaults())
	add("layered", p, findings, err)
	if len(all) < 4 || len(all["site-example"].files) == 0 || len(all["layered"].files) == 0 {
		t.Fatalf("only %d designs are good", len(all))
	}
	return all
}

// A value is told as the design has it.
func TestExplainedValues(t *testing.T) {
	for want, v := range map[string]any{
		`"a<b>&"`: "a<b>&", "1152921504606846976": int64(1) << 60, "false": false, `["x"]`: []any{"x"}, "0": int64(0),
	} {
		if got := string(settingOf(&tree{value: v}).Value); got != want {
			t.Errorf("%v is told as %s, want %s", v, got, want)
		}
	}
}
