package design

import (
	"strings"
	"testing"
)

// However a design writes a digest, what is decoded has the one form that the rest of Slipway compares.
func TestFormsOfDigestsInADesign(t *testing.T) {
	digest := strings.Repeat("0f", 32)
	colons := strings.TrimSuffix(strings.Repeat("0F:", 32), ":")
	for _, form := range []string{digest, "sha256:" + digest, strings.ToUpper(digest), "sha256:" + strings.ToUpper(digest)} {
		for _, pin := range []string{form, colons, "sha256:" + colons} {
			r := over(t, `images: x: {url: "https://images.example.org/x.iso", sha256: "`+form+`"}
images: each: {url: "https://images.example.org/{node}.iso", digests: n1: "`+form+`"}
artifacts: a: {url: "https://files.example.org/a", sha256: "`+form+`"}
hypervisors: h: {url: "libvirt+tls://10.0.0.1/system", trust: fingerprint: "`+pin+`"}
nodes: "n1": {image: "x", endpoints: manager: trust: fingerprint: "`+pin+`"}`)
			if r.Site == nil {
				t.Fatalf("%s, %s: no site: %v", form, pin, r.Findings)
			}
			for what, got := range map[string]string{
				"images.sha256":  r.Site.Images["x"].SHA256,
				"images.digests": r.Site.Images["each"].Digests["n1"],
				"artifacts":      r.Site.Artifacts["a"].SHA256,
			} {
				if got != digest {
					t.Errorf("%s of %s is %q", what, form, got)
				}
			}
			for what, got := range map[string]string{
				"hypervisors": r.Site.Hypervisors["h"].Trust.Fingerprint,
				"nodes":       r.Site.Nodes["n1"].Endpoints["manager"].Trust.Fingerprint,
			} {
				if got != "sha256:"+digest {
					t.Errorf("trust.fingerprint of %s of %s is %q", what, pin, got)
				}
			}
		}
	}
}
