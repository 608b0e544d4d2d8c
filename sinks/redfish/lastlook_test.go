package redfish

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// tagged is a BMC that has ETags, and counts the answers that were not sent.
type tagged struct {
	*bmc
	tag, system string
	conditions  []string // the If-None-Match of each look
}

func newTagged(t *testing.T, maker string) *tagged {
	b := &tagged{bmc: newBMC(t), tag: `"1"`, system: strings.Replace(healthySystem, `"Maker"`, fmt.Sprintf("%q", maker), 1)}
	b.answer("GET /redfish/v1/Systems/1", func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		given := r.Header.Get("If-None-Match")
		b.conditions = append(b.conditions, given)
		if w.Header().Set("ETag", b.tag); b.tag != "" && given == b.tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(w, b.system)
	})
	return b
}

// switches changes the machine's power, and the ETag to another.
func (b *tagged) switches(from, to, tag string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.system, b.tag = strings.Replace(b.system, `"PowerState":"`+from, `"PowerState":"`+to, 1), tag
}

func (b *tagged) asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.conditions
	b.conditions = nil
	return c
}

func powerOf(t *testing.T, m *machine, n *site.Node) string {
	t.Helper()
	seen, err := look(m, n)
	if err != nil {
		t.Fatal(err)
	}
	return seen.Facets[site.FacetPower].Have["state"]
}

// A look at a machine that is as it was has nothing sent.
func TestLooksAreConditional(t *testing.T) {
	b := newTagged(t, "HPE")
	m := open(t, b.endpoint())
	powerOf(t, m, nil) // the login is a write
	first, err := look(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.asked()
	again, err := look(m, nil)
	if got := b.asked(); err != nil || !slices.Equal(got, []string{`"1"`}) {
		t.Errorf("asked with %q, %v", got, err)
	}
	for f, state := range again.Facets {
		if was := first.Facets[f]; !state.Seen.After(was.Seen) || !reflect.DeepEqual(state.Have, was.Have) || state.Driver != Scheme {
			t.Errorf("%s: got %+v after %+v", f, state, was)
		}
	}
	if len(again.Facets) != len(first.Facets) || again.Identity != first.Identity || !reflect.DeepEqual(again.Inventory, first.Inventory) {
		t.Errorf("got %+v after %+v", again, first)
	}
	b.switches("On", "Off", `"2"`)
	if is := powerOf(t, m, nil); is != "off" {
		t.Errorf("the machine is off, and is seen %s", is)
	}
}

// What was seen is another matter when something else is asked for, and after a
// write.
func TestLooksThatAreNotConditional(t *testing.T) {
	b := newTagged(t, "HPE")
	m := open(t, b.endpoint())
	n := &site.Node{Power: "on", Boot: site.Boot{Order: []string{"Pxe"}}}
	powerOf(t, m, n)
	powerOf(t, m, n)
	for name, change := range map[string]func(){
		"the design's power": func() { n = &site.Node{Power: "off", Boot: n.Boot} },
		"its boot order":     func() { n = &site.Node{Power: n.Power, Boot: site.Boot{Order: []string{"Pxe", "Hdd"}}} },
		"a write": func() {
			mayWrite(t, m)
			m.client.post(t.Context(), "/x", nil)
			m.client.bound = nil
		},
		"a job taken back": func() {
			mayWrite(t, m)
			defer func() { m.client.bound = nil }()
			m.dropJobs(t.Context(), []job{{object{"@odata.id": []byte(`"/job"`), "JobState": []byte(`"New"`)}}})
		},
		"an order that is not as designed": func() {
			n = &site.Node{Boot: site.Boot{Order: []string{"Hdd"}}}
			powerOf(t, m, n)
		},
	} {
		powerOf(t, m, n)
		change()
		b.asked()
		seen, err := look(m, n)
		if got := b.asked(); err != nil || !slices.Equal(got, []string{""}) {
			t.Errorf("%s: asked with %q, %v", name, got, err)
		}
		if want := n.Want(site.FacetPower); !reflect.DeepEqual(seen.Facets[site.FacetPower].Resolve(n, site.FacetPower).Want, want) {
			t.Errorf("%s: want %v, the design says %v", name, seen.Facets[site.FacetPower].Resolve(n, site.FacetPower).Want, want)
		}
	}
}

// Without an ETag the body tells, and one that is the same is not read twice.
func TestLooksAtTheSameBody(t *testing.T) {
	b := newTagged(t, "Dell Inc.")
	b.tag = ""
	m := open(t, b.endpoint())
	powerOf(t, m, nil)
	powerOf(t, m, nil)
	before := testing.AllocsPerRun(20, func() { powerOf(t, m, nil) })
	m.last = glance{}
	anew := testing.AllocsPerRun(20, func() { powerOf(t, m, nil); m.last = glance{} })
	if before >= anew {
		t.Errorf("a look at the same takes %v allocations, one that is new %v", before, anew)
	}
	b.switches("On", "Off", "")
	if is := powerOf(t, m, nil); is != "off" {
		t.Errorf("the machine is off, and is seen %s", is)
	}
}

// An ETag that stays misleads once, for a while; of a vendor that is not known,
// or known for it, never.
func TestQuirkETagsThatStay(t *testing.T) {
	for maker, most := range map[string]int{"HPE": mostSpared, "Acme": 0, "GIGABYTE": 0} {
		t.Run(maker, func(t *testing.T) {
			b := newTagged(t, maker)
			m := open(t, b.endpoint())
			powerOf(t, m, nil)
			powerOf(t, m, nil)
			for round, state := range []string{"off", "on"} {
				names := [][2]string{{"On", "Off"}, {"Off", "On"}}[round]
				b.switches(names[0], names[1], `"1"`)
				misled := 0
				for powerOf(t, m, nil) != state {
					if misled++; misled > most {
						t.Fatalf("round %d: %d looks show what was", round, misled)
					}
				}
				most = 0 // no more
			}
			if !slices.Contains(m.Habits().Met, string(stayingETags)) {
				t.Errorf("came up: %v", m.Habits().Met)
			}
		})
	}
}

// A BMC that takes a condition of a read amiss is asked without.
func TestConditionRefused(t *testing.T) {
	b := newTagged(t, "HPE")
	plain := b.answers["GET /redfish/v1/Systems/1"]
	b.answer("GET /redfish/v1/Systems/1", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") != "" {
			b.mu.Lock()
			b.conditions = append(b.conditions, "refused")
			b.mu.Unlock()
			status(http.StatusPreconditionFailed, "")(w, r)
			return
		}
		plain(w, r)
	})
	m := open(t, b.endpoint())
	for range 4 {
		if is := powerOf(t, m, nil); is != "on" {
			t.Errorf("the machine is seen %s", is)
		}
	}
	if got := b.asked(); !slices.Equal(got, []string{"", "refused", "", "", ""}) {
		t.Errorf("asked with %q", got)
	}
}
