package design

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/slipway-gitops/slipway/engine/access"
)

// The verbs of the schema are those of package access.
func TestSchemaHasTheVerbs(t *testing.T) {
	text, err := os.ReadFile("../../schema/site.cue")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^#Verb: (.*?) @`).FindSubmatch(text)
	if line == nil {
		t.Fatal("the schema has no #Verb")
	}
	var want []string
	for _, m := range access.Verbs {
		want = append(want, fmt.Sprintf("%q", string(m.Verb)))
	}
	got := strings.Split(string(line[1]), " | ")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the schema has %s, and the API %s", got, want)
	}
}

// A role is about the whole site only if it says nothing about nodes: a selector of every node, and one that
// selects none, are about nodes.
func TestAccessOfADesign(t *testing.T) {
	files := cleanSite(t)
	files["access.cue"] = &fstest.MapFile{Data: []byte(`package clean
site: access: {
	roles: {
		"whole": verbs: ["pause", "read"]
		"every": {verbs: ["pause"], nodes: {}}
		"not":   {verbs: ["pause"], nodes: not: names: ["*"]}
		"one":   {verbs: ["pause"], nodes: names: ["n1"]}
		"spare": verbs: ["export"]
	}
	people: "ana@example.org": ["whole", "every", "not"]
	groups: "site/ops": ["one"]
}
`)}
	r := EvaluateHere(files, "")
	for _, f := range r.Findings {
		if f.Code != "selector-empty" {
			t.Errorf("%s", f.Message)
		}
	}
	g := r.Site.Granted()
	for name, want := range map[string]string{"whole": "true 0", "every": "false 4", "not": "false 0", "one": "false 1"} {
		role, there := g.Roles[name]
		if got := fmt.Sprint(role.Whole, len(role.Nodes)); got != want || !there {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if _, there := g.Roles["spare"]; there || len(g.People) != 1 || len(g.Groups["site/ops"]) != 1 {
		t.Errorf("granted %+v", g)
	}
}
