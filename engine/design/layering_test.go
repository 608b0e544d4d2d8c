package design

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/slipway-gitops/slipway/engine/site"
)

// over evaluates the clean site with text laid over it.
func over(t *testing.T, text string) Result {
	t.Helper()
	files := maps.Clone(cleanSite(t))
	files["patch.cue"] = &fstest.MapFile{Data: []byte("package clean\n\n" + text + "\n")}
	return EvaluateHere(files, "")
}

// saidOf are the findings of the patch as "line code: message".
func saidOf(r Result) []string {
	var all []string
	for _, f := range r.Findings {
		if f.File == "patch.cue" && f.Code != "not-acted-on" {
			all = append(all, strings.Join([]string{f.Place(), f.Code, f.Message}, " "))
		}
	}
	return all
}

// @unset() in braces removes what layers below set, as it does behind them.
func TestUnsetInBracesTakesAway(t *testing.T) {
	for _, text := range []string{
		`nodes: "n4": addresses: {@unset(), mgmt: "10.1.0.24"}`,
		`nodes: "n4": addresses: {mgmt: "10.1.0.24"} @unset()`,
		`#own: {@unset(), mgmt: "10.1.0.24"}
nodes: "n4": addresses: #own`,
	} {
		r := over(t, text+"\nnodes: \"n4\": {vlans: _ @unset()}")
		if r.Site == nil {
			t.Errorf("%s\nhas the findings\n%s", text, describe(r.Findings))
			continue
		}
		if got := slices.Sorted(maps.Keys(r.Site.Nodes["n4"].Addresses)); !slices.Equal(got, []string{"mgmt"}) {
			t.Errorf("%s\nleaves the addresses %v; want mgmt alone", text, got)
		}
	}
}

// Every way in which a layer does another thing than it reads as is one finding, where
// it is written.
func TestLayersDoAsTheyRead(t *testing.T) {
	for text, want := range map[string][]string{
		`nodes: "n1": bios: _ @unset()`: {
			`patch.cue:3:20 unset-nothing the node n1 removes bios, which no layer below sets`},
		`nodes: "n1": bios: {@unset(), attributes: Turbo: "On"}`: {
			`patch.cue:3:20 unset-nothing the node n1 removes bios, which no layer below sets`},
		`profiles: machine1: boot: mode: _ @unset()`: {
			`patch.cue:3:33 unset-nothing the profile machine1 removes boot.mode, which no layer below sets`},
		// One node has what it removes, another has not.
		`profiles: quiet: power: _ @unset()
nodes: "n9": {profiles: ["base", "machine1", "quiet"], identity: {uuid: _ @unset(), serial: "SN9"}, endpoints: manager: url: "redfish+https://10.9.0.19/redfish/v1/Systems/1", endpoints: os: _ @unset(), addresses: _ @unset()}`: nil,
		`racks: {@unset(), r1: {}}`: {
			`patch.cue:3:8 unset-outside-layer racks is removed with @unset() outside a profile or node`},
		`nodes: "n1": boot: {@unst(), order: ["Hdd"]}`: {
			`patch.cue:3:20 incomplete-value nodes.n1.boot has the attribute @unst(), which nothing reads`},
		`nodes: "n1": power: *"off" | "on"`: {
			`patch.cue:3:22 default-over-layer the default "off" of power overrides "on" at nodes.cue:5:9 (profile/base)`},
		`nodes: "n1": boot: order: *["Hdd"] | [...string]`: {
			`patch.cue:3:27 default-over-layer the default ["Hdd"] of boot.order overrides ["Hdd","Pxe"] at nodes.cue:7:15 (profile/base)`},
		`profiles: machine2: power: *"off" | "on"`: {
			`patch.cue:3:29 default-over-layer the default "off" of power overrides "on" at nodes.cue:5:9 (profile/base)`},
		// A default that is chosen, and one that says the same, beat nothing.
		`#std: power: *"off" | "on"
nodes: "n1": #std & {power: "on"}`: nil,
		`nodes: "n1": power: *"on" | "off"`:                   nil,
		`nodes: "n1": bios: attributes: Turbo: *"On" | "Off"`: nil,
	} {
		if got := saidOf(over(t, text)); !slices.Equal(got, want) {
			t.Errorf("%s\nhas\n\t%s\nwant\n\t%s", text, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
		}
	}
}

// What a node has of the schema's own defaults stands below every profile, also where
// the node names the definition that has them.
func TestADefinitionsDefaultsBeatNoLayer(t *testing.T) {
	r := over(t, "import \"github.com/slipway-gitops/slipway/schema\"\n\ncredentials: ilo: {}\nprofiles: machine1: endpoints: manager: credential: \"ilo\"\nnodes: \"n1\": endpoints: manager: schema.#Node.endpoints.manager & {url: \"redfish+https://10.9.0.11/redfish/v1/Systems/1\"}")
	if r.Site == nil || r.Site.Nodes["n1"].Endpoints[site.Manager].Credential != "ilo" {
		t.Errorf("n1 does not have the credential of its profile; findings:\n%s", describe(r.Findings))
	}
}

// A default is not shown as standing over itself, wherever a copy of it came from.
func TestNoDefaultStandsOverItself(t *testing.T) {
	of := func(value string, o site.Origin) *tree {
		return &tree{fields: map[string]*tree{"endpoints": {fields: map[string]*tree{"manager": {fields: map[string]*tree{
			"credential": {value: value, origin: o}}}}}}}
	}
	schemas, own := site.At("schema/layer.cue", 216, 16, "schema"), site.At("site.cue", 3, 1, "node/n1")
	for o, want := range map[site.Origin]int{schemas: 0, own: 1} {
		values := explainValues(nil, of("bmc", o))
		if len(values) != 1 || len(values[0].Overrode) != want {
			t.Errorf("the credential of %s: %+v; it stands over %d values", o, values, want)
		}
	}
}
