package access

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseIssuer(t *testing.T) {
	const least = "oidc issuer: https://issuer.example.org/realms/ops\noidc command-client: slipway-cli\n"
	p, err := Parse(least + "oidc client: slipway\noidc page: https://slipway.example.org:8443\noidc secret: /etc/slipway/oidc.secret\noidc name: sub\noidc groups: https://example.org/groups\n" +
		"oidc domains: example.org example.net\noidc scopes: groups profile\noidc authority: /etc/slipway/issuer.pem\noidc session: 30m\n")
	if err != nil {
		t.Fatal(err)
	}
	want := &Issuer{
		URL: "https://issuer.example.org/realms/ops", Client: "slipway", Secret: "/etc/slipway/oidc.secret", Page: "https://slipway.example.org:8443", Command: "slipway-cli", Name: "sub",
		Groups: "https://example.org/groups", Domains: []string{"example.org", "example.net"}, Scopes: []string{"groups", "profile"}, Authority: "/etc/slipway/issuer.pem", Session: 30 * time.Minute,
	}
	if got := p.Issuer(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	p, err = Parse(least)
	if err != nil || p.Issuer().Name != "email" || p.Issuer().Session != 8*time.Hour || p.Issuer().Groups != "" {
		t.Errorf("what is usual: %+v, %v", p, err)
	}
	if p, err := Parse(text); err != nil || p.Issuer() != nil {
		t.Errorf("without lines: %+v, %v", p.Issuer(), err)
	}
	for lines, says := range map[string]string{
		"oidc client: x\noidc page: https://x":                              `1: the lines of oidc need one more: "oidc issuer: URL"`,
		"oidc issuer: https://x":                                            "1: nobody could log in: write",
		"oidc issuer: http://x":                                             `1: oidc issuer: "http://x" is not a URL such as https://HOST`,
		"oidc issuer: https://u:p@x":                                        "is not a URL such as",
		"oidc issuer: https://x?a=b":                                        "is not a URL such as",
		"oidc issuer: https://x#":                                           "is not a URL such as",
		"oidc issuer:":                                                      "1: oidc issuer needs a value",
		least + "oidc issuer: https://y":                                    "3: oidc issuer is there twice",
		least + "oidc domains: a\noidc domains: b":                          "4: oidc domains is there twice",
		least + "oidc session: 8h\noidc session: 8h":                        "4: oidc session is there twice",
		least + "oidc audience: x":                                          "3: oidc audience is not a setting: write issuer, client,",
		least + "oidc: x":                                                   "is not a setting",
		least + "oidc client: x":                                            `1: "oidc client" and "oidc page" belong together`,
		least + "oidc page: https://x":                                      `"oidc client" and "oidc page" belong together`,
		least + "oidc page: https://x/slipway":                              "has a path",
		least + "oidc client: slipway-cli\noidc page: https://x":            `"oidc client" and "oidc command-client" are one`,
		least + "oidc secret: /x":                                           `"oidc secret" is that of "oidc client", which is not there`,
		least + "oidc client: x\noidc page: https://x\noidc secret: s3cret": `"s3cret" is not the absolute path of a file`,
		least + "oidc session: 25h":                                         "3: is not a time from 1m0s to 24h0m0s",
		least + "oidc domains: *":                                           `"*" is not a domain in lower case`,
		least + "oidc domains: Example.org":                                 "is not a domain in lower case",
		least + "oidc domains: @example.org":                                "is not a domain in lower case",
		least + "oidc name: e mail":                                         "has a space",
		least + "oidc command-client: " + strings.Repeat("x", mostValue+1):  "at most 1024 bytes",
		"role a: read\ngroup x: a by=oidc":                                  `"by=" is no bound`,
		"role a: read\ntoken x: a by=oidc":                                  `"by=" is no bound`,
		"role a: read\nperson x: a by=password":                             "by=password: persons are known by certificate or by oidc",
		"role a: read\ngroup a:b: a":                                        "no role",
	} {
		if _, err := Parse(lines); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %q", lines, err, says)
		}
	}
}

// A person has what the lines of the name and of the groups give, whichever way the name was proven, unless a line
// says by which.
func TestGroupsAndMeans(t *testing.T) {
	p, err := Parse("role viewer: read\nrole approver: approve\nrole oncall: pause\nperson ana: viewer\nperson ana: approver by=certificate\nperson ana: oncall by=oidc,certificate\ngroup ops: oncall rack=r1\ngroup ana: approver\ntoken ops: viewer\n")
	if err != nil {
		t.Fatal(err)
	}
	whole, n1 := Target{Site: "berlin"}, Target{Site: "berlin", Node: "n1", Rack: "r1"}
	cert, oidc := Caller{Kind: Person, Name: "ana"}, Caller{Kind: OIDC, Name: "ana", Issuer: "https://x"}
	dan := Caller{Kind: OIDC, Name: "dan", Issuer: "https://x", Groups: []string{"all", "ops"}}
	forged := Caller{Kind: Person, Name: "eve", Groups: []string{"ops", "ana"}} // no certificate names groups
	program := Caller{Kind: Token, Name: "x", Groups: []string{"ops"}}
	for _, x := range []struct {
		c    Caller
		v    Verb
		t    Target
		want bool
	}{
		{cert, Read, whole, true}, {oidc, Read, whole, true}, {cert, Approve, whole, true}, {oidc, Approve, whole, false},
		{oidc, Pause, whole, true}, {cert, Pause, whole, true},
		{dan, Pause, n1, true}, {dan, Pause, whole, false}, {dan, Read, whole, false}, {dan, Approve, whole, false},
		{forged, Pause, n1, false}, {forged, Approve, whole, false}, {program, Pause, n1, false},
		{Caller{Kind: group, Name: "ops", Groups: []string{"ops"}}, Pause, n1, false},
		{Caller{Kind: OIDC, Groups: []string{"ana"}}, Approve, whole, false}, // nobody has no name
	} {
		if err := p.Allows(x.c, x.v, x.t); (err == nil) != x.want {
			t.Errorf("%s %v %s %s: %v", x.c, x.c.Groups, x.v, x.t, err)
		}
		if x.want && !p.MaySome(x.c, x.v, "berlin") {
			t.Errorf("%s may not %s some", x.c, x.v)
		}
	}
	for _, x := range []struct {
		c    Caller
		want bool
	}{{oidc, true}, {dan, true}, {Caller{Kind: OIDC, Name: "dan"}, false}, {forged, false}} {
		if p.Names(x.c) != x.want {
			t.Errorf("%s %v is named: %v", x.c, x.c.Groups, !x.want)
		}
	}
	if !oidc.IsPerson() || oidc.Is(cert) || dan.Is(Caller{Kind: OIDC, Name: "dan", Issuer: "https://x"}) || !dan.Is(dan) {
		t.Error("who is who")
	}
}
