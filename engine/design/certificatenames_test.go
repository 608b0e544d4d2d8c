package design

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/slipway-gitops/slipway/engine/site"
)

// No node gets a certificate with the name of another one, however it is written, whoever else asks for it, and
// whatever is suppressed. A service may be that of several.
func TestCertificatesWithNamesOfOthers(t *testing.T) {
	text, err := os.ReadFile("testdata/rules/certificate-names.txtar")
	authority := regexp.MustCompile(`(?m)^site: tls: .*$`).FindString(string(text))
	if err != nil || authority == "" {
		t.Fatal(err)
	}
	const n1, n2 = `nodes: "n1": system: certificates: web: names: `, `nodes: "n2": system: certificates: web: names: `
	for name, c := range map[string]struct{ design, node, of string }{ // who asks wrongly, and whose name it is
		"a name":                       {n1 + `["n2"]`, "n1", "n2"},
		"in upper case":                {n2 + `["N1"]`, "n2", "n1"},
		"its owner asks too":           {n1 + `["n1"]` + "\n" + n2 + `["n1"]`, "n2", "n1"},
		"its owner asks by default":    {`nodes: "n1": system: certificates: web: {}` + "\n" + n2 + `["n1"]`, "n2", "n1"},
		"an address":                   {n1 + `["10.1.0.12"]`, "n1", "n2"},
		"its owner asks for it too":    {n1 + `["10.1.0.11"]` + "\n" + n2 + `["10.1.0.11"]`, "n2", "n1"},
		"an address in IPv6":           {n1 + `["::ffff:10.1.0.12"]`, "n1", "n2"},
		"in another form":              {`nodes: "n2": endpoints: os: url: "ssh://[2001:db8:0::1]"` + "\n" + n1 + `["2001:DB8::0:1"]`, "n1", "n2"},
		"made from its name":           {n1 + `["{name}.example.org"]` + "\n" + n2 + `["n1.example.org"]`, "n2", "n1"},
		"a BMC":                        {n1 + `["10.9.0.12"]`, "n1", "n2"},
		"a BMC, by a name made of its": {`nodes: "n2": endpoints: manager: url: "redfish+https://bmc-n1.example.org/redfish/v1/Systems/2"` + "\n" + n1 + `["bmc-{name}.example.org"]`, "n1", "n2"},
		"a BMC, by its host name":      {`nodes: "n2": endpoints: manager: url: "redfish+https://bmc.example.org/redfish/v1/Systems/2"` + "\n" + `nodes: "n1": system: {hostname: "bmc.example.org", certificates: web: names: ["bmc.example.org"]}`, "n1", "n2"},
		"suppressed":                   {n1 + `["n2"]` + "\n" + `suppressions: x: {code: "certificate-names", reason: "x"}`, "n1", "n2"},
		"in a family":                  {`nodes: "n1": families: debian: certificates: web: names: ["n2"]`, "n1", "n2"},
		"a service":                    {n1 + `["web.example.org", "10.1.0.200"]` + "\n" + n2 + `["web.example.org", "10.1.0.200"]`, "", ""},
		"its own":                      {n1 + `["n1", "10.1.0.11", "10.9.0.11", "{name}.example.org"]` + "\n" + n2 + `["{name}.example.org"]`, "", ""},
		"all by default":               {`profiles: base: system: certificates: web: {}`, "", ""},
		"a hypervisor's by a machine":  {`nodes: "n2": endpoints: manager: url: "redfish+https://10.1.0.11/redfish/v1/Systems/2"` + "\n" + n1 + `["10.1.0.11"]`, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			repo := cleanSite(t)
			if strings.Contains(c.design, "endpoints:") { // set otherwise by the profile
				nodes := strings.Replace(string(repo["nodes.cue"].Data), `url: "ssh://10.1.0.12"`, `url: *"ssh://10.1.0.12" | string`, 1)
				nodes = strings.Replace(nodes, `url: "redfish+https://10.9.0.12/redfish/v1/Systems/1"`, `url: *"redfish+https://10.9.0.12/redfish/v1/Systems/1" | string`, 1)
				repo["nodes.cue"] = &fstest.MapFile{Data: []byte(nodes)}
			}
			repo["patch.cue"] = &fstest.MapFile{Data: []byte("package clean\n\n" + authority + "\n" + c.design + "\n")}
			var found []site.Finding
			for _, f := range EvaluateHere(repo, "").Findings {
				if f.Severity == site.SeverityError && f.Code != "suppression-refused" {
					found = append(found, f)
				}
			}
			switch {
			case c.node == "" && len(found) > 0:
				t.Errorf("found %s", describe(found))
			case c.node != "" && (len(found) != 1 || found[0].Code != "certificate-names" || found[0].Node != c.node || !strings.Contains(found[0].Message, "which is one of "+c.of)):
				t.Errorf("found %s", describe(found))
			}
		})
	}
}
