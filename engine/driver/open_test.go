package driver

import (
	"errors"
	"testing"

	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

type keyholder struct {
	Machine
	get func(name string, use secret.Use) (secret.Value, error)
}

func (h *keyholder) Credentials(get func(name string, use secret.Use) (secret.Value, error)) {
	h.get = get
}

type askedFor struct{ request secret.Request }

func (a *askedFor) Get(r secret.Request) (secret.Value, error) {
	a.request = r
	return secret.Value{}, secret.ErrUse
}

// A machine gets the credentials that are for accounts, or for files, at its own address, and what
// refuses them is told.
func TestLend(t *testing.T) {
	for address, want := range map[string]secret.Request{
		"ssh://root@10.1.0.11":        {Name: "console", Use: secret.File, Host: "10.1.0.11", Port: 22},
		"ssh://root@[2001:db8::1]:24": {Name: "console", Use: secret.Account, Host: "2001:db8::1", Port: 24},
	} {
		var h keyholder
		var a askedFor
		Lend(&h, site.Endpoint{URL: address}, &a)
		if _, err := h.get("console", want.Use); !errors.Is(err, secret.ErrUse) || a.request != want {
			t.Errorf("%s: got %v, %+v", address, err, a.request)
		}
	}
}
