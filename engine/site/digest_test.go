package site

import (
	"encoding/json"
	"strings"
	"testing"
)

// However a digest is written, it is the same one.
func TestFormsOfDigests(t *testing.T) {
	digest := strings.Repeat("0f", 32)
	for _, form := range []string{digest, "sha256:" + digest, strings.ToUpper(digest), "sha256:" + strings.ToUpper(digest)} {
		var i Image
		var a Artifact
		text := `{"url": "http://x/y", "sha256": "` + form + `", "digests": {"n1": "` + form + `"}}`
		if err := json.Unmarshal([]byte(text), &i); err != nil || i.SHA256 != digest || i.Digests["n1"] != digest || i.URL == "" {
			t.Errorf("%s: image %+v (%v)", form, i, err)
		}
		if err := json.Unmarshal([]byte(text), &a); err != nil || a.SHA256 != digest || a.URL == "" {
			t.Errorf("%s: artifact %+v (%v)", form, a, err)
		}
	}
	colons := strings.TrimSuffix(strings.Repeat("0F:", 32), ":")
	for _, form := range []string{digest, "sha256:" + digest, colons, "sha256:" + colons} {
		var e Endpoint
		if err := json.Unmarshal([]byte(`{"url": "redfish+https://x", "trust": {"fingerprint": "`+form+`", "firstUse": true}}`), &e); err != nil ||
			e.Trust.Fingerprint != "sha256:"+digest || !e.Trust.FirstUse {
			t.Errorf("%s: %+v (%v)", form, e.Trust, err)
		}
	}
	var none Trust
	if err := json.Unmarshal([]byte(`{"ca": "x"}`), &none); err != nil || none.Fingerprint != "" || none.CA != "x" {
		t.Errorf("%+v (%v)", none, err)
	}
}
