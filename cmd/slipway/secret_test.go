package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A design with a mistake about a secret, and what is in the place of SECRET.
var secretMistakes = []struct{ name, code, secret, more string }{
	{"a token set twice", "conflicting-values", "ghp_0123456789abcdefghijABCDEFGHIJ012345",
		`nodes: n1: labels: token: "SECRET"` + "\n" + `nodes: n1: labels: token: "other"`},
	{"a token set twice by reference", "conflicting-values", "4f9a11c02bde",
		`_x: "SECRET"` + "\n" + `nodes: n1: labels: token: _x` + "\n" + `nodes: n1: labels: token: "other"`},
	{"a wrong value", "invalid-value", "hunter22",
		`nodes: n1: endpoints: manager: {url: "redfish+https://10.0.0.1/", trust: fingerprint: "password=SECRET"}`},
	{"a failing policy", "policy/p", "4f9a11c02bde",
		`policies: p: {why: "x", require: labels: "api-token": "x"}` + "\n" + `nodes: n1: labels: "api-token": "SECRET"`},
	{"a policy that tells", "policy/p", "AKIAIOSFODNN7EXAMPLE",
		`policies: p: {why: "use SECRET", require: labels: tier: "SECRET"}` + "\n" + `nodes: n1: labels: tier: "y"`},
	{"the URL of an image", "image-url", "p4ssw0rd",
		`images: i: {url: "https://u:SECRET@h/i.iso", sha256: "9100babb16941ce0792fe9ad000c14ee47ad36f06ec656db97ef861af1c7f2e8"}`},
	{"a secret", "clear-secret", "zebra-81",
		`nodes: n1: system: files: "/etc/a": content: "` + "x = 1\\npassword = SECRET" + `"`},
	{"a silenced secret", "clear-secret", "zebra-81",
		`suppressions: s: {code: "clear-secret", reason: "an example"}` + "\n" + `nodes: n1: labels: password: "SECRET"`},
	{"a field that is none", "unknown-field", "zebra-81", `nodes: n1: password: "SECRET"`},
	{"a text that is no CUE", "syntax", "zebra-81", `nodes: n1: labels: password: "SECRET" "x"`},
}

// What is a secret is in no output of a check, whatever is wrong with it.
func TestSecretsAreNotShown(t *testing.T) {
	for _, c := range secretMistakes {
		t.Run(c.name, func(t *testing.T) {
			files := fstest.MapFS{
				"cue.mod/module.cue": {Data: []byte(`module: "example.org/fra", language: version: "v0.17.0"`)},
				"site.cue":           {Data: []byte("package fra\n\nprofiles: base: labels: a: \"b\"\nnodes: n1: profiles: [\"base\"]\n" + strings.ReplaceAll(c.more, "SECRET", c.secret) + "\n")},
			}
			r := design.EvaluateHere(files, "")
			for _, format := range []string{"text", "json", "sarif", "github"} {
				var out bytes.Buffer
				a := app{out: &screen{&out}, output: format}
				if err := a.printChecked(".", files, []checked{{Findings: r.Findings, Suppressed: r.Suppressed}}); err != nil {
					t.Fatal(err)
				}
				said := out.String()
				if strings.Contains(said, c.secret) {
					t.Errorf("%s shows the secret:\n%s", format, said)
				}
				if silenced := len(r.Suppressed) > 0 && format != "json" && format != "sarif"; !silenced && !strings.Contains(said, c.code) {
					t.Errorf("%s lacks a finding %s:\n%s", format, c.code, said)
				}
			}
		})
	}
}

// The line of any other finding is shown, and so is where it is.
func TestLinesAreShown(t *testing.T) {
	files := fstest.MapFS{"site.cue": {Data: []byte("token: \"4f9a11c02bde\", tier: \"a\"\n")}}
	var text bytes.Buffer
	printFindings(&screen{&text}, files, []site.Finding{{Code: "label-value", File: "site.cue", Line: 1, Col: 24, Message: "m"}})
	want := "  1 │ token: \"************\", tier: \"a\"\n    │                        ^^^^\n"
	if !strings.Contains(text.String(), want) {
		t.Errorf("got:\n%s\nwant in it:\n%s", text.String(), want)
	}
}
