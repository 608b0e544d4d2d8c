package cleartext

import (
	"fmt"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A finding says nothing that nobody may read, and stays as it is otherwise.
func TestDiscreet(t *testing.T) {
	for _, c := range []struct{ path, message, want string }{
		{"labels.token", `set to "4f9a11c02bde" here and to "x" at a.cue:1:2`, `set to "***" here and to "x" at a.cue:1:2`},
		{"labels.token", `conflicting values "4f9a\"11c02bde" and "7777777a`, `conflicting values "***" and "***`},
		{"labels.password", `labels.password is 12345678; it must be a text`, `labels.password is ***; it must be a text`},
		{"labels.password", `labels.password is 'hunter22'; it must be a text`, `labels.password is '***'; it must be a text`},
		{"labels.password", `labels.password: conflicting values int and string`, `labels.password: conflicting values int and string`},
		{"nodes.n1.password", `there is no field "password" in nodes.n1`, `there is no field "password" in nodes.n1`},
		{"images.i.url", `not from "https://u:p4ssw0rd@h/i.iso"`, `not from "https://u:***@h/i.iso"`},
		{"labels.a", `labels.a is "ghp_0123456789abcdefghijABCDEFGHIJ012345"`, `labels.a is "***"`},
		{"a", `is "-----BEGIN PRIVATE KEY-----\nMIIB…"; it must`, `is "***`},
		{"labels", `labels is {token:"4f9a11c02bde",password:"calvin"}`, `labels is {token:"***",password:"***"}`},
		{"images.i.sha256", `is "9100babb16941ce0792fe9ad000c14ee47ad36f06ec656db97ef861af1c7f2e8"`, `is "9100babb16941ce0792fe9ad000c14ee47ad36f06ec656db97ef861af1c7f2e8"`},
		{"interfaces.eno1.mac", `has the MAC address aa:bb:cc:00:11:22`, `has the MAC address aa:bb:cc:00:11:22`},
	} {
		f := Discreet(site.Finding{Path: c.path, Message: c.message, Fix: c.message})
		if f.Message != c.want || f.Fix != c.want || f.Path != c.path {
			t.Errorf("of %s: %s\ngot  %s, %s\nwant %s", c.path, c.message, f.Path, f.Message, c.want)
		}
		if again := Discreet(f); again.Message != f.Message {
			t.Errorf("twice: %s", again.Message)
		}
	}
}

// What is masked keeps its lines and columns.
func TestMasked(t *testing.T) {
	for src, want := range map[string]string{
		"labels: {\"api-token\": \"4f9a11c02bde\", a: 1}\n":                               "labels: {\"api-token\": \"************\", a: 1}\n",
		"a: \"\"\"\n-----BEGIN EC PRIVATE KEY-----\nMIIB\n-----END EC PRIVATE KEY-----\n": "a: \"\"\"\n******************************\n****\n****************************\n",
		"password: \"a\\\"b c\"":    "password: \"******\"",
		"token: tokenOf & string":   "token: tokenOf & string",
		"user: credential: \"bmc\"": "user: credential: \"bmc\"",
	} {
		if got := string(Masked([]byte(src))); got != want {
			t.Errorf("%q\ngot  %q\nwant %q", src, got, want)
		}
	}
}

// Secrets are found with their lines. What is one by its name alone is left out where
// such words are common.
func TestFind(t *testing.T) {
	const text = "# password: example\n" + "the password: lost\n" + "password: calvin-7\n" + "\n" +
		"AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ\n" +
		"url: https://u:p4ssw0rd@h/ ghp_0123456789abcdefghijABCDEFGHIJ012345\n" +
		"-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----\n" +
		"AGE-SECRET-KEY-PQ-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQ"
	for name, c := range map[string]struct {
		got  []Found
		want string
	}{
		"find": {Find(text), "3 a password or token (password); 5 an identity of age; 6 a token; 7 a private key; 10 an identity of age; "},
		"sure": {FindSure(text), "5 an identity of age; 6 a token; 7 a private key; 10 an identity of age; "},
		"none": {Find("recipients:\n- age1qqq\n"), ""},
	} {
		said := ""
		for _, f := range c.got {
			said += fmt.Sprintf("%d %s; ", f.Line, f.What)
		}
		if said != c.want {
			t.Errorf("%s: got  %s\nwant %s", name, said, c.want)
		}
	}
}
