package bios_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/bios"
)

func dell() *bios.Terms {
	enum := func(names ...string) bios.Attribute {
		a := bios.Attribute{Type: "Enumeration"}
		for _, n := range names {
			a.Choices = append(a.Choices, bios.Choice{Name: n, Display: "shown as " + n})
		}
		return a
	}
	high := int64(100)
	return &bios.Terms{
		Makers: []string{"Dell", "Dell Inc."},
		Shown:  []string{"Count", "LogicalProc", "Pin", "ProcTurboMode", "Quiet", "SysProfile", "Tag"},
		Registry: bios.Registry{Sum: "r1", Attributes: map[string]bios.Attribute{
			"LogicalProc": enum("Enabled", "Disabled"), "ProcTurboMode": enum("Enabled", "Disabled"), "SysProfile": enum("Custom", "PerfOptimized"),
			"Count": {Type: "Integer", Upper: &high}, "Quiet": {Type: "Boolean"}, "Tag": {Type: "String", Most: 4, Pattern: "^[a-z]*$"}, "Pin": {Type: "Password"},
			"HttpDev": enum("Nic1", "Nic2"),
		}, Rules: map[string][]bios.Rule{"ProcTurboMode": {
			{Property: "ReadOnly", Value: "true", When: []bios.Condition{{Attribute: "SysProfile", Not: true, Value: "Custom"}}},
			{Property: "CurrentValue", Value: "Enabled", When: []bios.Condition{{Attribute: "SysProfile", Value: "PerfOptimized"}}},
		}}},
	}
}

func settings() bios.Settings {
	return bios.Settings{Terms: dell(), Have: map[string]string{"LogicalProc": "Enabled", "ProcTurboMode": "Disabled", "SysProfile": "Custom",
		"Count": "3", "Quiet": "true", "Tag": "abc", "Pin": ""}}
}

// Each field of a design is in the machine's words, or it is said why it means
// nothing there.
func TestResolve(t *testing.T) {
	for name, c := range map[string]struct {
		asked map[string]string
		want  string // "ATTRIBUTE=VALUE ..."
		says  string // of the only field that means nothing
	}{
		"an intent":                     {map[string]string{"smt": "false"}, "LogicalProc=Disabled", ""},
		"an attribute":                  {map[string]string{"attributes.Quiet": "false"}, "Quiet=false", ""},
		"by what people are shown":      {map[string]string{"attributes.LogicalProc": "shown as Disabled"}, "LogicalProc=Disabled", ""},
		"a negative number":             {map[string]string{"attributes.Count": "-7"}, "Count=-7", ""},
		"a number over its bound":       {map[string]string{"attributes.Count": "101"}, "", "100 or less"},
		"no number":                     {map[string]string{"attributes.Count": "many"}, "", "not a whole number"},
		"no truth value":                {map[string]string{"attributes.Quiet": "yes"}, "", "neither true nor false"},
		"a text that is too long":       {map[string]string{"attributes.Tag": "abcde"}, "", "it has 5 letters"},
		"a text of another form":        {map[string]string{"attributes.Tag": "AB"}, "", "does not match"},
		"a password":                    {map[string]string{"attributes.Pin": "1234"}, "", "does not belong in Git"},
		"no such value":                 {map[string]string{"attributes.SysProfile": "Turbo"}, "", "is not one of its values: Custom, PerfOptimized"},
		"no such attribute":             {map[string]string{"attributes.Logical": "Enabled"}, "", "no attribute of this name; it has LogicalProc"},
		"an intent that is lacking":     {map[string]string{"sriov": "true"}, "", "none of the settings that are known for it (SriovGlobalEnable)"},
		"two fields, one setting":       {map[string]string{"smt": "false", "attributes.LogicalProc": "Enabled"}, "LogicalProc=Enabled", ""},
		"what another locks":            {map[string]string{"profile": "performance", "turbo": "false"}, "ProcTurboMode=Disabled SysProfile=PerfOptimized", "SysProfile is PerfOptimized"},
		"what another brings with it":   {map[string]string{"profile": "performance", "turbo": "true"}, "ProcTurboMode=Enabled SysProfile=PerfOptimized", ""},
		"what the machine hides":        {map[string]string{"attributes.HttpDev": "Nic2"}, "HttpDev=Nic2", "does not show HttpDev"},
		"hidden, and others come first": {map[string]string{"attributes.HttpDev": "Nic2", "smt": "false"}, "HttpDev=Nic2 LogicalProc=Disabled", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, asked := settings(), maps.Clone(c.asked)
			r := s.Resolve(c.asked)
			if again := s.Resolve(c.asked); !maps.Equal(again.Want, r.Want) || !maps.Equal(again.Unresolved, r.Unresolved) || !maps.Equal(asked, c.asked) {
				t.Error("the same is resolved as something else")
			}
			var got []string
			for _, a := range slices.Sorted(maps.Keys(r.Want)) {
				got = append(got, a+"="+r.Want[a])
			}
			if is := strings.Join(got, " "); is != c.want {
				t.Errorf("want %q, got %q", c.want, is)
			}
			why := strings.Join(slices.Sorted(maps.Values(r.Unresolved)), "; ")
			if len(r.Unresolved) > 1 || (c.says == "") != (why == "") || !strings.Contains(why, c.says) {
				t.Errorf("says %q, want %q", why, c.says)
			}
		})
	}
}

// What is not known is not taken for what is.
func TestUnread(t *testing.T) {
	s := settings()
	delete(s.Have, "LogicalProc")
	s.Have["Quiet"] = bios.Unknown
	for name, unread := range map[string]bool{"LogicalProc": true, "Quiet": true, "Count": false, "HttpDev": false} {
		if s.Unread(name) != unread {
			t.Errorf("%s: unread is %t", name, !unread)
		}
	}
	if got := s.Concern(map[string]string{"attributes.Tag": "x"}); !slices.Equal(got, []string{"LogicalProc", "ProcTurboMode", "SysProfile", "Tag"}) {
		t.Errorf("of concern are %v", got)
	}
}

// A machine without settings says so of every field.
func TestNoSettings(t *testing.T) {
	r := bios.Settings{Terms: &bios.Terms{Makers: []string{"Acme"}}}.Resolve(map[string]string{"smt": "true"})
	if len(r.Want) > 0 || !strings.Contains(r.Unresolved["smt"], "shows no settings") {
		t.Errorf("got %+v", r)
	}
}

// Terms come out of a library as they were put in, registries once, and nothing
// that was altered comes out at all.
func TestLibrary(t *testing.T) {
	var l bios.Library
	one, two := dell(), dell()
	two.Shown = append(two.Shown, "ZeroTouch")
	first, second := l.Add(one), l.Add(two)
	bare := l.Add(&bios.Terms{Makers: []string{"Acme"}, Shown: []string{"A"}})
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), `"HttpDev"`); n != 1 {
		t.Errorf("the registry is in it %d times", n)
	}
	var read bios.Library
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	all := read.All()
	asked := map[string]string{"smt": "false", "attributes.Count": "101"}
	for digest, t0 := range map[string]*bios.Terms{first: one, second: two} {
		was, is := bios.Settings{Terms: t0}.Resolve(asked), bios.Settings{Terms: all[digest]}.Resolve(asked)
		if all[digest].Digest() != digest || !maps.Equal(was.Want, is.Want) || !maps.Equal(was.Unresolved, is.Unresolved) {
			t.Errorf("%s: got %+v, was %+v", digest, is, was)
		}
	}
	if all[bare] == nil {
		t.Error("terms without a registry are lost")
	}
	e := read.Terms[first]
	e.Shown = e.Shown[1:]
	read.Terms[first] = e
	delete(read.Registries, "r1")
	if all = read.All(); all[first] != nil || all[second] != nil || all[bare] == nil {
		t.Errorf("got %v", all)
	}
}
