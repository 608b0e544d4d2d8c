package agent_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/agent"
)

// The laboratory's systems have certificates signed as the helper does.
func TestCertificateOnTheLab(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		if err := os.WriteFile(filepath.Join(folder, "slipway-helper-linux-"+arch), []byte(arch), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sub := subject(startLab(t, 1), "m0")
	d := agent.New(agent.Options{Folder: folder})
	m, err := d.Open(t.Context(), sub.Endpoint, sub.Secret)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	n := &site.Node{Name: "m0", System: site.System{Certificates: map[string]site.TLS{"web": {Names: []string{"{name}.example.org"}}}}, References: site.References{TLS: []string{"x"}}}
	var signed []site.TLSCertificate
	refuses := errors.New("the clocks differ")
	m.(driver.TLSCertified).CertifyTLS(driver.TLSCertificates{
		Valid: func(_, digest string) (is site.TLSCertificate, _ string, _ error) {
			for _, c := range signed {
				if c.Digest == digest {
					is = c
				}
			}
			return is, "", nil
		},
		Sign: func(_ context.Context, r driver.TLSRequest) (string, error) {
			if refuses != nil {
				return "", refuses
			}
			c, _ := n.CertificateIn(nil, r.Name)
			signed = append(signed, site.TLSCertificate{Name: r.Name, Serial: "7", Digest: item.Digest([]byte("a chain")), Names: c.Names, Usage: c.Usage, Life: c.Life})
			return "a chain", nil
		},
	})
	see := func() site.FacetState {
		seen, err := m.Observe(t.Context(), n, d.Facets())
		if err != nil {
			t.Fatal(err)
		}
		return seen.Facets[site.FacetConfig]
	}
	see()
	step := site.Step{Node: "m0", Facet: site.FacetConfig, Action: site.ActionConfig, Changes: []site.Change{{Field: "config.certificates.web"}}}
	if err := m.Apply(t.Context(), step, n, nil); !errors.Is(err, refuses) {
		t.Errorf("refused: %v", err)
	}
	refuses = nil
	if err := m.Apply(t.Context(), step, n, nil); err != nil {
		t.Fatal(err)
	}
	if seen := see(); !plan.AsDesigned(n, site.FacetConfig, seen) || len(signed) != 1 {
		t.Errorf("%d signed: %+v", len(signed), seen)
	}
}

// The laboratory's systems tell contents and hashes as the helper does.
func TestDetailsOnTheLab(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		if err := os.WriteFile(filepath.Join(folder, "slipway-helper-linux-"+arch), []byte(arch), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sub := subject(startLab(t, 1), "m0")
	d := agent.New(agent.Options{Folder: folder})
	m, err := d.Open(t.Context(), sub.Endpoint, sub.Secret)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	m.(driver.Keyholder).Credentials(func(string, secret.Use) (secret.Value, error) { return secret.New("", "correct horse"), nil })
	see := func(n *site.Node) site.Observed {
		seen, err := m.Observe(t.Context(), n, d.Facets())
		if err != nil {
			t.Fatal(err)
		}
		return seen
	}
	first, second := "first\n", "second\n"
	n := &site.Node{Name: "m0", System: site.System{
		Files: map[string]site.File{"/etc/motd": {Content: &first}, "/etc/key": {Credential: "app"}}, Users: map[string]site.User{"ops": {Password: "console"}},
	}}
	see(n)
	for f, action := range map[site.Facet]site.Action{site.FacetConfig: site.ActionConfig, site.FacetBase: site.ActionBase} {
		if err := m.Apply(t.Context(), site.Step{Node: "m0", Facet: f, Action: action}, n, nil); err != nil {
			t.Fatal(err)
		}
	}
	seen := see(n)
	for _, f := range []site.Facet{site.FacetConfig, site.FacetBase} {
		if !plan.AsDesigned(n, f, seen.Facets[f]) || len(seen.Facets[f].Contents) > 0 {
			t.Errorf("%s: got %+v", f, seen.Facets[f])
		}
	}
	n.System.Files["/etc/motd"] = site.File{Content: &second}
	if got := see(n).Facets[site.FacetConfig].Contents["files./etc/motd"]; got != (item.Content{Text: first, Bytes: 6}) {
		t.Errorf("got %+v", got)
	}
}
