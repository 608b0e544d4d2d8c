package engine

import (
	"encoding/json"
	"testing"
	"testing/fstest"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A design that is read back from the records is the same design: the first commit
// after a restart must not set every node looking, and waiting, anew.
func TestDesignFromTheRecordsIsTheSame(t *testing.T) {
	r := design.EvaluateHere(fstest.MapFS{"cue.mod/module.cue": {Data: []byte(`module: "example.org/site"` + "\nlanguage: version: \"v0.12.0\"\n")},
		"site.cue": {Data: []byte(`package site
credentials: bmc: {}
racks: r1: {}
roles: web: {}
profiles: base: {}
nodes: "n1": {
	profiles: ["base"]
	rack: "r1"
	role: "web"
	endpoints: manager: {url: "redfish+https://127.0.0.1", credential: "bmc"}
	bios: attributes: {Big: 9007199254740993, Text: "1", On: true}
	kernel: parameters: {quiet: true, panic: 5}
	system: {
		sysctl: {"vm.swappiness": 10, "net.ipv4.ip_forward": "1"}
		packages: {}
		files: "/etc/motd": content: ""
	}
	tags: {}
	interfaces: {}
}`)}}, "")
	if r.Site == nil {
		t.Fatalf("%+v", r.Findings)
	}
	text, err := json.Marshal(r.Site)
	if err != nil {
		t.Fatal(err)
	}
	var back *site.Site
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	n, was := r.Site.Nodes["n1"], back.Nodes["n1"]
	if !sameDesign(n, was) || !sameRules(r.Site, back) {
		t.Errorf("designed %+v\nread %+v", n, was)
	}
	if got := was.Want(site.FacetBIOS)["attributes.Big"]; got != "9007199254740993" {
		t.Errorf("the setting is %s", got)
	}
}
