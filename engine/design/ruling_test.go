package design

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// governed has a policy that refers to a definition, and a finding that is
// silenced.
var governed = map[string]string{
	"site.cue": `package small

roles: compute: {}
racks: r1: {}
networks: mgmt: cidr: "10.1.0.0/24"
credentials: bmc: {}
profiles: base: {role: "compute", rack: "r1", endpoints: manager: {}}
nodes: n1: {profiles: ["base"], labels: floor: "2", endpoints: manager: url: "redfish+https://10.1.0.1/redfish/v1/Systems/1"}
`,
	"policies.cue": `package small

#floor: =~"^[0-9]$"
policies: floor: {why: "People go there.", require: labels: floor: #floor}
policies: power: {why: "They are far away.", severity: "warning", require: power: "on"}
suppressions: power: {code: "policy/power", reason: "they are switched by hand"}
`,
}

// changed is governed with a text in the place of another.
func changed(t *testing.T, pairs ...string) map[string]string {
	t.Helper()
	files := maps.Clone(governed)
	for i := 0; i < len(pairs); i += 2 {
		found := false
		for name, text := range files {
			if strings.Contains(text, pairs[i]) {
				files[name], found = strings.Replace(text, pairs[i], pairs[i+1], 1), true
			}
		}
		if !found {
			t.Fatalf("nothing has %q", pairs[i])
		}
	}
	return files
}

// Who loosens a rule is held against it as it was.
func TestJudge(t *testing.T) {
	bad := []string{`floor: "2"`, `floor: "cellar"`}
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"the same":                       {governed, nil},
		"a policy is loosened":           {changed(t, append(bad, `#floor}`, `string}`)...), []string{"policy/floor"}},
		"what it refers to is":           {changed(t, append(bad, `=~"^[0-9]$"`, `string`)...), []string{"policy/floor"}},
		"a policy only warns":            {changed(t, append(bad, `there.",`, `there.", severity: "warning",`)...), []string{"policy/floor"}},
		"a policy is removed":            {changed(t, append(bad, `policies: floor:`, `_floor:`)...), []string{"policy/floor"}},
		"a finding is silenced":          {changed(t, append(bad, `suppressions:`, "suppressions: floor: {code: \"policy/floor\", reason: \"x\"}\nsuppressions:")...), []string{"policy/floor"}},
		"a policy is removed and kept":   {changed(t, `policies: floor:`, `_floor:`), nil},
		"a suppression is removed":       {changed(t, `suppressions: power:`, `_power:`), nil},
		"a policy of its own is broken":  {changed(t, `power: "on"`, `power: "off"`), nil},
		"a suppression silences nothing": {changed(t, `nodes: n1: {`, `nodes: n1: {power: "on", `), nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEvaluator(t, Limits{})
			found, err := e.Judge(t.Context(), repository(c.files), repository(governed), "")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range found {
				if got = append(got, f.Code); f.Severity != site.SeverityError || f.Node != "n1" {
					t.Errorf("found %+v", f)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("found %v, want %v", found, c.want)
			}
		})
	}
}

func TestBrokenRulesJudgeNothing(t *testing.T) {
	found, err := newEvaluator(t, Limits{}).Judge(t.Context(), repository(governed), repository(changed(t, `role: "compute"`, `role: 7`)), "")
	if err != nil || len(found) > 0 {
		t.Errorf("found %v, %v", found, err)
	}
}

// The ruling is another one wherever a policy or a suppression may be, and not
// where only nodes are.
func TestRuling(t *testing.T) {
	is := evaluateIn(t, newEvaluator(t, Limits{}), governed).Site.Ruling
	for name, c := range map[string]struct {
		files map[string]string
		same  bool
	}{
		"the same":             {governed, true},
		"another node":         {changed(t, `floor: "2"`, `floor: "3"`), true},
		"another profile":      {changed(t, `{role: "compute",`, `{role: "compute", power: "on",`), true},
		"somewhere else":       {changed(t, "#floor:", "\n// Where it stands.\n\n#floor:"), true},
		"what is asked for":    {changed(t, `#floor}`, `string}`), false},
		"what that refers to":  {changed(t, `=~"^[0-9]$"`, `string`), false},
		"what is silenced":     {changed(t, `by hand`, `by foot`), false},
		"a policy in site.cue": {changed(t, "racks: r1: {}", "racks: r1: {}\npolicies: power: fix: \"x\""), false},
		"entangled, as it stood": {changed(t, `labels: floor: "2"`, `labels: floor: nodes.n2.labels.floor`,
			"roles:", "nodes: n2: {profiles: [\"base\"], labels: floor: \"2\", endpoints: manager: url: \"redfish+https://10.1.0.2/redfish/v1/Systems/1\"}\nroles:"), false},
	} {
		t.Run(name, func(t *testing.T) {
			r := evaluateIn(t, newEvaluator(t, Limits{}), c.files)
			if r.Site == nil || is == "" || (r.Site.Ruling == is) != c.same {
				t.Errorf("the ruling is the same: %t, want %t; found %v", !c.same, c.same, r.Findings)
			}
		})
	}
}
