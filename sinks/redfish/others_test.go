package redfish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/captures"
)

// otherHabits are what BMCs of other vendors do with what the captured ones
// have too. What is understood of a machine stays the same.
var otherHabits = map[string]func(c *captured){
	"ids of its own": func(c *captured) {
		c.rename("/Systems/System.Embedded.1", "/Systems/WZP233906ZR", "/Systems/1", "/Systems/WZP233906ZR",
			"/Managers/iDRAC.Embedded.1", "/Managers/bmc", "/Managers/1", "/Managers/bmc",
			"/Chassis/System.Embedded.1", "/Chassis/chassis", "/Chassis/1", "/Chassis/chassis")
	},
	"slashes and small letters": func(c *captured) {
		c.edit(func(name string, v any) any {
			if text, ok := v.(string); ok && name == "@odata.id" && !strings.ContainsAny(text, "#?") && !strings.HasSuffix(text, "/Sessions") {
				return strings.ToLower(strings.TrimRight(text, "/")) + "/"
			}
			return v
		})
		for p, o := range c.resources() {
			c.all[strings.ToLower(p)] = o
		}
	},
	"neither ETags nor types": func(c *captured) { c.drop("@odata.etag", "@odata.type", "@odata.context", "Description") },
	"no counts":               func(c *captured) { c.drop("Members@odata.count", "Drives@odata.count") },
	"numbers as text": func(c *captured) {
		c.edit(func(_ string, v any) any {
			if n, ok := v.(json.Number); ok {
				return n.String()
			}
			return v
		})
	},
	"null among references": func(c *captured) {
		c.edit(func(_ string, v any) any {
			if list, ok := v.([]any); ok && len(list) > 0 && pathOf(list[0]) != "" {
				return append([]any{nil, map[string]any{}}, list...)
			}
			return v
		})
	},
	"links back only": func(c *captured) {
		links := c.all[c.system]["Links"].(map[string]any)
		delete(links, "Chassis")
		delete(links, "ManagedBy")
	},
	"boot options by id": func(c *captured) { c.respell("BootOptionReference", "Id") },
	"Inserted left out":  func(c *captured) { c.drop("Inserted") },
	"drives at the chassis": func(c *captured) {
		drives := c.taken("Drives")
		chassis := c.all[pathOf(c.all[c.system]["Links"].(map[string]any)["Chassis"].([]any)[0])]
		chassis["Drives"] = map[string]any{"@odata.id": "/drives"}
		delete(chassis["Links"].(map[string]any), "Drives")
		c.all["/drives"] = map[string]any{"Members": drives}
	},
	"drives linked by the chassis": func(c *captured) {
		drives := c.taken("Drives")
		chassis := c.all[pathOf(c.all[c.system]["Links"].(map[string]any)["Chassis"].([]any)[0])]
		chassis["Links"].(map[string]any)["Drives"] = drives
	},
	"adapters behind interfaces": func(c *captured) {
		var refs []any
		for _, o := range c.resources() {
			adapters, ok := o["NetworkAdapters"]
			if delete(o, "NetworkAdapters"); !ok {
				continue
			}
			for _, adapter := range c.all[pathOf(adapters)]["Members"].([]any) {
				own := fmt.Sprintf("/interfaces/%d", len(refs))
				c.all[own] = map[string]any{"@odata.id": own, "Links": map[string]any{"NetworkAdapter": adapter}}
				refs = append(refs, map[string]any{"@odata.id": own})
			}
		}
		c.all[c.system]["NetworkInterfaces"] = map[string]any{"@odata.id": "/interfaces"}
		c.all["/interfaces"] = map[string]any{"Members": refs}
	},
}

// Old firmware (iLO 4) writes HealthRollUp.
func TestQuirkHealthRollUp(t *testing.T) {
	s := system{decoded(t, `{"Status":{"HealthRollUp":"Critical","Health":"OK"}}`)}
	part := decoded(t, `{"Status":{"HealthRollUp":"Warning"}}`)
	if s.health() != "Critical" || health(part) != "Warning" {
		t.Errorf("got %q and %q", s.health(), health(part))
	}
}

func TestHabitsOfOthers(t *testing.T) {
	for _, file := range inspected {
		all := needed(t, file.file, file.system)
		want := understood(t, all, file.system)
		if want.counts != file.parts {
			t.Fatalf("%s: got %+v, want %+v", file.file, want.counts, file.parts)
		}
		for name, change := range otherHabits {
			t.Run(file.file+"/"+name, func(t *testing.T) {
				c := newCaptured(t, all, file.system)
				change(c)
				if got := understood(t, c.encoded(t), c.system); got != want {
					t.Errorf("got  %+v\nwant %+v", got, want)
				}
			})
		}
	}
}

// needed are the resources of a capture that the driver reads one by one, and
// those that link back to the system.
func needed(t *testing.T, file, system string) map[string]json.RawMessage {
	t.Helper()
	all := captures.Read(t, file)
	r := newReplay(t, all)
	r.refuse = func(q *http.Request) int {
		if q.URL.RawQuery != "" {
			return http.StatusNotImplemented
		}
		return 0
	}
	inspect(t, r, system)
	some := map[string]json.RawMessage{}
	for _, p := range r.took() {
		some[p] = all[p]
	}
	for p, body := range all {
		if slices.Contains([]string{"/redfish", "/redfish/v1", itsManagers.all, itsChassis.all}, path.Dir(p)) || p == system ||
			strings.Contains(p, "/VirtualMedia") || strings.Contains(p, "/BootOptions") {
			some[p] = body
		}
	}
	return some
}

// understanding is what the driver makes of a machine.
type understanding struct {
	identity  site.Identity
	facets    string
	slot      string
	counts    parts
	inventory string
}

func understood(t *testing.T, all map[string]json.RawMessage, system string) understanding {
	t.Helper()
	m := newReplay(t, all).machine(t, system)
	seen, err := m.Observe(t.Context(), &site.Node{}, []site.Facet{site.FacetPower, site.FacetBoot, site.FacetHealth, site.FacetImage})
	if err != nil {
		t.Fatal(err)
	}
	inv, err := m.Inspect(t.Context(), &site.Node{})
	if err != nil {
		t.Fatal(err)
	}
	facets := ""
	for _, f := range []site.Facet{site.FacetPower, site.FacetBoot, site.FacetHealth, site.FacetImage} {
		facets += fmt.Sprintf("%s %v ", f, seen.Facets[f].Have)
	}
	slices.SortFunc(inv.Drives, func(a, b site.Drive) int { return strings.Compare(a.Serial, b.Serial) })
	slices.SortFunc(inv.NICs, func(a, b site.NIC) int { return strings.Compare(a.ID+a.Serial, b.ID+b.Serial) })
	text, err := json.Marshal(inv)
	if err != nil {
		t.Fatal(err)
	}
	return understanding{seen.Identity, facets, strings.ToLower(path.Base(strings.TrimRight(m.slot, "/"))), count(inv), string(text)}
}

// captured is a capture that is being changed.
type captured struct {
	system string
	all    map[string]map[string]any
}

func newCaptured(t *testing.T, all map[string]json.RawMessage, system string) *captured {
	t.Helper()
	c := &captured{system, map[string]map[string]any{}}
	for p, body := range all {
		var o map[string]any
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		if err := d.Decode(&o); err != nil {
			t.Fatal(err)
		}
		c.all[p] = o
	}
	return c
}

func (c *captured) encoded(t *testing.T) map[string]json.RawMessage {
	t.Helper()
	out := map[string]json.RawMessage{}
	for p, o := range c.all {
		body, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out[p] = body
	}
	return out
}

// resources are those that there are, which may be changed and added to.
func (c *captured) resources() map[string]map[string]any { return maps.Clone(c.all) }

// edit changes values everywhere, those within first.
func (c *captured) edit(change func(name string, v any) any) {
	var within func(name string, v any) any
	within = func(name string, v any) any {
		switch v := v.(type) {
		case map[string]any:
			for n, inner := range v {
				v[n] = within(n, inner)
			}
		case []any:
			for n, inner := range v {
				v[n] = within("", inner)
			}
		}
		return change(name, v)
	}
	for _, o := range c.all {
		within("", o)
	}
}

// objects changes all objects.
func (c *captured) objects(change func(o map[string]any)) {
	c.edit(func(_ string, v any) any {
		if o, ok := v.(map[string]any); ok {
			change(o)
		}
		return v
	})
}

func (c *captured) drop(names ...string) {
	c.objects(func(o map[string]any) {
		for _, name := range names {
			delete(o, name)
		}
	})
}

func (c *captured) respell(was, is string) {
	c.objects(func(o map[string]any) {
		if v, ok := o[was]; ok {
			delete(o, was)
			o[is] = v
		}
	})
}

// taken are the references of all lists of a name, which are there no more.
func (c *captured) taken(list string) (refs []any) {
	c.objects(func(o map[string]any) {
		if all, ok := o[list].([]any); ok {
			refs = append(refs, all...)
			delete(o, list)
		}
	})
	return refs
}

// rename changes paths.
func (c *captured) rename(pairs ...string) {
	replacer := strings.NewReplacer(pairs...)
	c.edit(func(_ string, v any) any {
		if text, ok := v.(string); ok {
			return replacer.Replace(text)
		}
		return v
	})
	for p, o := range c.resources() {
		delete(c.all, p)
		c.all[replacer.Replace(p)] = o
	}
	c.system = replacer.Replace(c.system)
}

// pathOf is the path that a reference leads to, empty for what is none.
func pathOf(v any) string {
	o, _ := v.(map[string]any)
	p, _ := o["@odata.id"].(string)
	return strings.TrimRight(p, "/")
}
