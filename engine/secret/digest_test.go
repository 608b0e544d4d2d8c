package secret_test

import (
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/secret"
)

func TestDigestTellsValuesApart(t *testing.T) {
	one := secret.New("admin", "pw").Digest("lab")
	if len(one) != 32 || strings.Contains(one, "pw") {
		t.Errorf("digest is %q", one)
	}
	if again := secret.New("admin", "pw").Digest("lab"); again != one {
		t.Errorf("the same value has the digests %s and %s", one, again)
	}
	for what, other := range map[string]string{
		"another password": secret.New("admin", "pw2").Digest("lab"),
		"another account":  secret.New("root", "pw").Digest("lab"),
		"another site":     secret.New("admin", "pw").Digest("lab2"),
	} {
		if other == one {
			t.Errorf("%s has the same digest", what)
		}
	}
}
