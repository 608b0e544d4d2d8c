package driver_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// keeper gives no credential, for a reason.
type keeper struct{ why error }

func (k keeper) Get(r secret.Request) (secret.Value, error) {
	return secret.Value{}, fmt.Errorf("credential %q: %w", r.Name, k.why)
}

// named is a driver that is never asked.
type named struct{ driver.Driver }

// A server of secrets that is away passes; a credential that is missing or for another host
// is for a person.
func TestWhatKeepsAnEndpointShut(t *testing.T) {
	for why, denied := range map[error]bool{secret.ErrUnavailable: false, secret.ErrMissing: true, secret.ErrHost: true} {
		_, _, err := driver.KeyTo(map[string]driver.Driver{"redfish": named{}}, keeper{why}, site.Endpoint{URL: "redfish+https://192.0.2.1", Credential: "bmc"})
		if !errors.Is(err, why) || errors.Is(err, driver.ErrDenied) != denied {
			t.Errorf("%v: got %v, denied %t", why, err, errors.Is(err, driver.ErrDenied))
		}
	}
}
