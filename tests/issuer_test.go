package tests

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/slipway-gitops/slipway/tests/oidc"
)

// issuerCmd starts a provider of OpenID Connect with ana@example.org, whose address goes into the environment as ISSUER,
// whose authority into issuer.pem, and whose lines into access.conf; or changes how it behaves.
func issuerCmd(ts *testscript.TestScript, _ bool, args []string) {
	s := stageOf(ts)
	if len(args) == 0 {
		s.issuer = oidc.Start()
		ts.Setenv("ISSUER", s.issuer.URL)
		ca := ts.MkAbs("issuer.pem")
		ts.Check(os.WriteFile(ca, s.issuer.CA, 0o644))
		lines := fmt.Sprintf("oidc issuer: %s\noidc command-client: slipway-cli\noidc authority: %s\noidc groups: groups\n", s.issuer.URL, ca)
		ts.Check(os.WriteFile(ts.MkAbs("access.conf"), []byte(ts.ReadFile("access.conf")+lines), 0o644))
		s.issuer.Change(func(s *oidc.State) {
			s.Clients["slipway-cli"] = oidc.Client{Loopback: true, Device: true}
			s.Agrees = true
		})
		args = []string{"person", "ana@example.org"}
	}
	s.issuer.Change(func(s *oidc.State) {
		switch args[0] {
		case "person":
			s.User = map[string]any{"email": args[1], "email_verified": true, "groups": args[2:]}
		case "unverified":
			s.User["email_verified"] = false
		case "life":
			d, err := time.ParseDuration(args[1])
			ts.Check(err)
			s.Life = d
		case "away":
			s.Away = args[1] == "true"
		default:
			ts.Fatalf("issuer %s: unknown", strings.Join(args, " "))
		}
	})
}
