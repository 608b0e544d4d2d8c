package control

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/access"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Whoever gets a certificate is named in it as the design can revoke them by name alone, however they have proven it.
func TestCertificatesCanBeRevokedByName(t *testing.T) {
	source, err := os.ReadFile("../access/access.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`(?m)^\t\w+\s+Kind = "(\w+)"$`).FindAllStringSubmatch(string(source), -1)
	if len(kinds) < 5 {
		t.Fatalf("the kinds of callers are not found: %v", kinds)
	}
	for _, k := range kinds {
		who := access.Caller{Kind: access.Kind(k[1]), Name: "ana", From: "10.0.0.1"}
		if who.Kind == access.OIDC {
			who.Issuer, who.Groups = "https://id.example.org", []string{"ops"}
		}
		c := &call{caller: who, node: "n1", site: "berlin", api: &api{daemon: &fake{}}, w: httptest.NewRecorder()}
		c.r = httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{}`))
		c.r.Header.Set("Content-Type", "application/json")
		got, err := certifyLogin(c)
		g, _ := got.(site.SSHGrant)
		if who.Kind == access.Nobody {
			if err == nil {
				t.Errorf("nobody got %+v", g)
			}
			continue
		}
		if err != nil || !slices.Contains(item.CallersNamed("ana"), g.Principal) {
			text, _ := json.Marshal(got)
			t.Errorf("%s: got %s, %v, which is none of %q", k[1], text, err, item.CallersNamed("ana"))
		}
	}
}
