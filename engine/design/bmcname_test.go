package design

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/slipway-gitops/slipway/engine/site"
)

// No node gets a TLS certificate with a name or an address of another node's BMC.
func TestCertificateOfABMC(t *testing.T) {
	text, err := os.ReadFile("testdata/rules/certificate-names.txtar")
	authority := regexp.MustCompile(`(?m)^site: tls: .*$`).FindString(string(text))
	if err != nil || authority == "" {
		t.Fatal(err)
	}
	for name, design := range map[string]string{
		"its address as the endpoint of the system": `nodes: "n1": {endpoints: os: url: "ssh://10.9.0.12", system: certificates: web: names: ["10.9.0.12"]}`,
		"its address as one of its own":             `nodes: "n1": {addresses: bmc: "10.9.0.12", interfaces: {eno5: networks: ["bmc"], eno6: networks: ["mgmt"]}, system: certificates: web: names: ["10.9.0.12"]}`,
		"its name as the endpoint of the system":    `nodes: "n2": endpoints: manager: url: "redfish+https://bmc-2.example.org/redfish/v1/Systems/2"` + "\n" + `nodes: "n1": {endpoints: os: url: "ssh://bmc-2.example.org:2222", system: certificates: web: names: ["bmc-2.example.org"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			repo := cleanSite(t)
			nodes := strings.Replace(string(repo["nodes.cue"].Data), `url: "ssh://10.1.0.11"`, `url: *"ssh://10.1.0.11" | string`, 1)
			nodes = strings.Replace(nodes, `url: "redfish+https://10.9.0.12/redfish/v1/Systems/1"`, `url: *"redfish+https://10.9.0.12/redfish/v1/Systems/1" | string`, 1)
			repo["nodes.cue"] = &fstest.MapFile{Data: []byte(nodes)}
			repo["patch.cue"] = &fstest.MapFile{Data: []byte("package clean\n\n" + authority + "\n" + design + "\n")}
			found := slices.DeleteFunc(EvaluateHere(repo, "").Findings, func(f site.Finding) bool { return f.Severity != site.SeverityError })
			if len(found) == 0 {
				t.Error("n1 gets a certificate with the name of the BMC of n2")
			}
		})
	}
}
