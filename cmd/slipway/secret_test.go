package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/slipway-gitops/slipway/engine/site"
)

// What is found to be a secret is not shown again, where the line of any other
// finding is.
func TestSecretsAreNotShown(t *testing.T) {
	files := fstest.MapFS{"site.cue": {Data: []byte("content: \"password = calvin-7\"\n")}}
	for code, shown := range map[string]bool{"clear-secret": false, "file-source": true} {
		found := []site.Finding{{Code: code, Severity: site.SeverityError, File: "site.cue", Line: 1, Col: 10, Message: "m"}}
		var text bytes.Buffer
		printFindings(&text, files, found)
		if got := strings.Contains(text.String(), "calvin-7"); got != shown {
			t.Errorf("%s: the secret is shown: %t, want %t", code, got, shown)
		}
	}
}
