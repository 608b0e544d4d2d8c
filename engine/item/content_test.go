package item_test

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
)

// What programs print is told without its secrets, line by line.
func TestRedacted(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"started\nlistening on :80":       "started\nlistening on :80",
		"start\ndb password=hunter2\nend": "start\n[redacted]\nend",
		"psk hunter":                      "[redacted]",
		"get https://ops:x@example.org/a": "[redacted]",
		"get https://example.org:443/a@b": "get https://example.org:443/a@b",
		"a\n-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nb": "a\n[redacted]\n[redacted]\n[redacted]\nb",
		"MIIE\n-----END RSA PRIVATE KEY-----\nb":                             "[redacted]\n[redacted]\nb",
		"-----BEGIN PRIVATE KEY-----\nMIIE":                                  "[redacted]\n[redacted]",
		"-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----":       "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
	} {
		if got := item.Redacted(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// Messages that speak of passwords stay; those that quote one do not.
func TestRedactedMessage(t *testing.T) {
	for _, text := range []string{
		"Slipway logs in as ops with this account's password: with another one, or none, it could not log in again. Give the endpoint a credential with a key first",
		"the password of ops is not a hash of crypt(5): make one with `mkpasswd`",
		"files./etc/token: \"0999\" is not a mode such as \"0644\"",
	} {
		if got := item.RedactedMessage(text); got != text {
			t.Errorf("%q is %q", text, got)
		}
	}
	for _, text := range []string{"a.service: DB_PASSWORD=hunter", "token: abcdef123", "fetch http://ops:pw@192.0.2.1/x failed", "-----BEGIN PRIVATE KEY-----\nMIIE"} {
		if got := item.RedactedMessage(text); strings.Trim(strings.ReplaceAll(got, "[redacted]", ""), "\n") != "" {
			t.Errorf("%q is %q", text, got)
		}
	}
}
