package redfish

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// settle puts a design into the terms of a machine whose BMC sent some bytes.
func settle(registryText, biosText, waitingText []byte) (sight, bool) {
	var o, now, waiting object
	if json.Unmarshal(registryText, &o) != nil || json.Unmarshal(biosText, &now) != nil || json.Unmarshal(waitingText, &waiting) != nil {
		return sight{}, false
	}
	r, err := readRegistry(o)
	if err != nil {
		r = &registry{}
	}
	f := firmware{maker: makers{manufacturer: "Dell Inc."}, registry: r, path: biosPath, settings: settingsPath, current: attributesOf(now), waiting: waiting,
		jobs: []job{{waiting}}}
	n := &site.Node{BIOS: site.BIOS{SMT: &no, Turbo: &yes, Profile: "performance", Attributes: map[string]any{"AssetTag": "x", "Count": 3.0, "Boot": true}}}
	st := f.state(f.terms(), n.Want(site.FacetBIOS))
	resolved := st.Settings().Resolve(n.Want(site.FacetBIOS))
	for _, name := range f.missing(resolved) {
		if _, err := json.Marshal(inType(f.registered(name), resolved.Want[name], f.current[name])); err != nil {
			return sight{}, false
		}
	}
	return sightOf(st, n), true
}

// whole holds that a state says only what can be recorded and shown: every field
// of the design is resolved or is not, and nothing is of any length.
func wholeFacet(t *testing.T, st sight) {
	t.Helper()
	for name, from := range st.From {
		if _, ok := st.Want[name]; !ok {
			t.Errorf("%q comes from %q and is not wanted", name, from)
		}
	}
	for name, v := range st.Have {
		if len(v) > 2*maxText {
			t.Errorf("%q is %d bytes", name, len(v))
		}
	}
}

// A BMC may send anything.
func FuzzSettings(f *testing.F) {
	f.Add([]byte(`{"RegistryEntries":{"Attributes":[{"AttributeName":"LogicalProc","Type":"Enumeration","Value":[{"ValueName":"Enabled"},{"ValueName":"Disabled"}]},
		{"AttributeName":"Count","Type":"Integer","LowerBound":1,"UpperBound":8,"ScalarIncrement":2}],"Dependencies":[{"Dependency":{"MapToAttribute":"Count","MapToProperty":"ReadOnly",
		"MapToValue":true,"MapFrom":[{"MapFromAttribute":"LogicalProc","MapFromProperty":"CurrentValue","MapFromCondition":"EQU","MapFromValue":"Enabled"}]}}]}}`),
		[]byte(`{"Attributes":{"LogicalProc":"Enabled","Count":3,"Boot_0047":false}}`), []byte(`{"Attributes":{"LogicalProc":"Disabled"},"JobState":"Running","Id":"J"}`))
	f.Add([]byte(`{"RegistryEntries":{"Attributes":[{"AttributeName":"Count","Type":"Integer","LowerBound":"x","ScalarIncrement":0}]}}`), []byte(`{"Attributes":{"Count":null}}`), []byte(`{"Attributes":[]}`))
	f.Fuzz(func(t *testing.T, registryText, biosText, waitingText []byte) {
		if st, ok := settle(registryText, biosText, waitingText); ok {
			wholeFacet(t, st)
		}
	})
}

// The same with what real machines send, spoiled here and there.
func TestSpoiledCaptures(t *testing.T) {
	for file, paths := range map[string][2]string{
		"dell-r750-idrac9":      {"/redfish/v1/systems/system.embedded.1/bios", "/redfish/v1/systems/system.embedded.1/bios/biosregistry"},
		"hpe-dl385g10plus-ilo5": {"/redfish/v1/systems/1/bios", "/redfish/v1/registrystore/registries/en/biosattributeregistrya42.v1_2_60"},
		"lenovo-sr670v2-xcc":    {"/redfish/v1/systems/1/bios", "/redfish/v1/schemas/registries/biosattributeregistry.1.0.0.json"},
	} {
		t.Run(file, func(t *testing.T) {
			all := resourcesOf(t, file)
			dice := rand.New(rand.NewPCG(1, 2))
			for range 30 {
				registryText, biosText := spoiled(t, dice, all[paths[1]]), spoiled(t, dice, all[paths[0]])
				st, ok := settle(registryText, biosText, biosText)
				if !ok {
					t.Fatal("what was spoiled is no JSON any more")
				}
				wholeFacet(t, st)
			}
		})
	}
}

// spoiled puts garbage into the place of some values.
func spoiled(t *testing.T, dice *rand.Rand, text []byte) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(spoil(dice, v, 0))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func spoil(dice *rand.Rand, v any, depth int) any {
	if depth > 0 && dice.IntN(50) == 0 {
		garbage := []any{nil, "N/A", 17.5, -1e300, true, []any{}, map[string]any{"": nil}, "\x00\u202e"}
		return garbage[dice.IntN(len(garbage))]
	}
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = spoil(dice, v[name], depth+1)
		}
	case []any:
		for i := range v {
			v[i] = spoil(dice, v[i], depth+1)
		}
	}
	return v
}
