package redfish

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// These hold what must not get out, in the places where BMCs have it.
const telling1 = `{
	"@odata.type": "#ComputerSystem.v1_5_0.ComputerSystem", "@odata.id": "/redfish/v1/Systems/XK7742QQ",
	"Id": "XK7742QQ", "Name": "System", "SerialNumber": "XK7742QQ", "SKU": "XK7742QQ", "AssetTag": "Hall 9",
	"UUID": "4C4C4544-0058-4B10-8037-B8C04F515132", "PowerState": "On", "Model": "PowerEdge R750",
	"HostName": "db-berlin-3.corp.example.net", "Description": "asset Hall 9 of db-berlin-3.corp.example.net",
	"Location": {"PostalAddress": {"City": "Oberstadt", "Name": "Kaserne"}, "Placement": {"Rack": "R17", "Row": "Nord"}},
	"Links": {"ManagedBy": [{"@odata.id": "/redfish/v1/Managers/NIC.d4f5ef0a1b2c"}]},
	"BiosVersion": "2.10.2.7", "FirmwareVersion": "22.31.6.0"}`

const telling2 = `{
	"@odata.type": "#Manager.v1_5_0.Manager", "@odata.id": "/redfish/v1/Managers/NIC.d4f5ef0a1b2c", "Name": "Manager of XK7742QQ",
	"ServiceEntryPointUUID": "44454c4c-5800-104b-8037-b8c04f515132", "MACAddress": "D4:F5:EF:0A:1B:2C",
	"NIC_D4F5EF0A1B2C_Address": "10.44.7.19", "Gateways": ["10.44.7.1", "fe80::d6f5:efff:fe0a:1b2c"],
	"Attributes": {"Users.2.UserName": "jsmith", "Users.2.Password": "correct horse", "Users.2.SHA256Password": "9f86d081884c7d65",
		"SNMP.1.AgentCommunity": "wolfsburg", "EmailAlert.1.Address": "oncall@corp.example.net", "IPMILan.1.EncryptionKey": "0a0b0c0d0e0f",
		"NIC.1.DNSRacName": "idrac-XK7742QQ", "NTPConfigGroup.1.NTP1": "10.44.7.2", "MinPasswordLength": 12, "PasswordStatus": "Unlocked"},
	"Certificate": "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUdeadbeef\n-----END CERTIFICATE-----\n", "SSHHostKey": "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQC7",
	"LicenseKey": "3KMLN-37DNC-GTG7J-S85SW-CK9YW", "ISCSI": "target iqn.1994-05.com.redhat:a1b2c3 of jsmith at 10.44.7.19",
	"Status": {"Health": "OK"}, "SubnetMask": "255.255.255.0", "Gateway6": "::"}`

const telling3 = `{"@odata.type": "#LogEntry.v1_1_0.LogEntry", "Id": "1", "Message": "login of mallory from 10.44.7.19", "MessageArgs": ["mallory"],
	"MessageId": "USR0030", "Severity": "OK", "Oem": {"Vendor": {"Note": "mallory"}}}`

// What must not be in what is given away, in any case and without what is
// between its letters.
var mustNotBe = []string{
	"XK7742QQ", "Hall 9", "4C4C4544-0058-4B10-8037-B8C04F515132", "44454c4c-5800-104b-8037-b8c04f515132", "db-berlin-3", "corp.example.net",
	"Oberstadt", "Kaserne", "R17", "Nord", "d4f5ef0a1b2c", "10.44.7", "fe80::d6f5", "jsmith", "correct horse", "9f86d081884c7d65", "wolfsburg", "oncall",
	"0a0b0c0d0e0f", "MIIBszCC", "AAAAB3Nza", "3KMLN-37DNC", "iqn.1994", "mallory", "192.0.2.77", "bmc-admin", "hunter22",
}

func TestNothingTellingIsGivenAway(t *testing.T) {
	resources := map[string]json.RawMessage{
		"/redfish/v1/Systems/XK7742QQ": json.RawMessage(telling1), "/redfish/v1/Managers/NIC.d4f5ef0a1b2c": json.RawMessage(telling2),
		"/redfish/v1/Systems/XK7742QQ/LogServices/SEL/Entries/1": json.RawMessage(telling3),
		"/redfish/v1": json.RawMessage(`{"Note": "asked at 192.0.2.77 by bmc-admin with hunter22", "Systems": {"@odata.id": "/redfish/v1/Systems"}}`),
	}
	got, err := redacted(resources, []string{"192.0.2.77:443", "192.0.2.77", "bmc-admin", "hunter22", ""})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(got)
	t.Logf("%s", text)
	for _, word := range mustNotBe {
		if strings.Contains(bare(string(text)), bare(word)) {
			t.Errorf("it tells %q", word)
		}
	}
	for _, word := range []string{"PowerEdge R750", "22.31.6.0", "2.10.2.7", `"PowerState":"On"`, "255.255.255.0", `"Unlocked"`, `"MinPasswordLength":12`, "USR0030", `"Gateway6":"::"`} {
		if !strings.Contains(string(text), word) {
			t.Errorf("it does not tell %s", word)
		}
	}
	checkConsistent(t, got)
}

// checkConsistent: the same is still the same, in paths too.
func checkConsistent(t *testing.T, got map[string]json.RawMessage) {
	t.Helper()
	for path, resource := range got {
		var o object
		if err := json.Unmarshal(resource, &o); err != nil {
			t.Fatal(err)
		}
		serial := at[string](o, "SerialNumber")
		if serial == "" {
			continue
		}
		manager := links(o, "Links", "ManagedBy")[0]
		if link(o) != path || path != "/redfish/v1/Systems/"+serial || got[manager] == nil {
			t.Errorf("%s is %s and leads to %s of %v", path, link(o), manager, slices.Collect(maps.Keys(got)))
		}
		var m object
		json.Unmarshal(got[manager], &m)
		if a, b := strings.ToLower(at[string](o, "UUID")), at[string](m, "ServiceEntryPointUUID"); site.TurnedRound(a) != b {
			t.Errorf("%s and %s were one turned round", a, b)
		}
		if mac := plain(at[string](m, "MACAddress")); !strings.HasSuffix(manager, mac) {
			t.Errorf("%s was of %s", manager, mac)
		}
	}
}

// bare is a text by its letters and digits in lower case.
func bare(s string) string { return plain(s) }

// identifying are what tells machines apart, whatever a redactor thinks of it.
var identifying = map[string]*regexp.Regexp{
	"property": regexp.MustCompile(`"[^"]*(?:SerialNumber|ServiceTag|AssetTag|HostName|FQDN|LicenseKey|DNSRacName|NodeGUID|ExpressServiceCode)[^"]*" *: *"([^"]{5,})"`),
	"UUID":     regexp.MustCompile(`(?i)"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"`),
	"MAC":      regexp.MustCompile(`(?i)"((?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2})"`),
	"address":  regexp.MustCompile(`"(192\.0\.2\.\d+)"`),
	"key":      regexp.MustCompile(`(-----BEGIN)`),
}

// TestCapturesOfRealMachinesTellNothing redacts what was captured, and looks
// for what told machines apart in it.
func TestCapturesOfRealMachinesTellNothing(t *testing.T) {
	for _, file := range []string{"dell-r750-idrac9", "hpe-dl385g10plus-ilo5", "lenovo-sr670v2-xcc"} {
		t.Run(file, func(t *testing.T) {
			resources := maps.Clone(resourcesOf(t, file))
			var source strings.Builder
			for path, resource := range resources {
				if strings.Contains(path, "/registries/") || strings.Contains(path, "logservices") {
					continue // describes others; has its texts taken out
				}
				source.Write(resource)
			}
			got, err := redacted(resources, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(resources) {
				t.Errorf("%d resources of %d", len(got), len(resources))
			}
			text, _ := json.Marshal(got)
			folded := strings.ToLower(string(text))
			found := 0
			for what, form := range identifying {
				told := map[string]bool{}
				for _, m := range form.FindAllStringSubmatch(source.String(), -1) {
					told[m[1]] = true
				}
				for word := range told {
					if isKept(word) || site.IsPlaceholderUUID(strings.ToLower(word)) || plain(word) == "000000000000" || plain(word) == "ffffffffffff" {
						continue
					}
					found++
					if strings.Contains(folded, strings.ToLower(word)) {
						t.Errorf("%s %q is still told", what, word)
					}
				}
			}
			if found < 20 {
				t.Errorf("only %d things told the machine apart", found)
			}
		})
	}
}

func FuzzRedacted(f *testing.F) {
	for _, seed := range []string{telling1, telling2, telling3, `[]`, `{"a":null}`, `"x"`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		resources := map[string]json.RawMessage{"/redfish/v1": json.RawMessage(text), "/redfish/v1/2": json.RawMessage(`{"SerialNumber":"QQ77X1234"}`)}
		got, err := redacted(resources, nil)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(fmt.Sprint(got), "QQ77X1234") {
			t.Errorf("it is still told: %s", got)
		}
	})
}
