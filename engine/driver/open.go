package driver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Open logs in at an endpoint with its credential, and lends the machine the other credentials that
// it needs. Use KeyTo to open without lending. The map drivers is by protocol. The caller closes
// the handle.
func Open(ctx context.Context, drivers map[string]Driver, secrets secret.Source, e site.Endpoint) (Machine, error) {
	d, value, err := KeyTo(drivers, secrets, e)
	if err != nil {
		return nil, err
	}
	m, err := d.Open(ctx, e, value)
	if err != nil {
		return nil, err
	}
	Lend(m, e, secrets)
	return m, nil
}

// KeyTo returns what opens an endpoint: its driver, and the value of its credential, empty if it
// names none.
func KeyTo(drivers map[string]Driver, secrets secret.Source, e site.Endpoint) (Driver, secret.Value, error) {
	return KeyOf(drivers, secrets, e, secret.Of{})
}

// KeyOf is KeyTo for an endpoint whose credential is derived, which says which password it is.
func KeyOf(drivers map[string]Driver, secrets secret.Source, e site.Endpoint, of secret.Of) (Driver, secret.Value, error) {
	u, err := url.Parse(e.URL)
	if err != nil {
		return nil, secret.Value{}, fmt.Errorf("%w: endpoint: %w", ErrRefused, err)
	}
	protocol := Protocol(u.Scheme)
	d := drivers[protocol]
	if d == nil {
		return nil, secret.Value{}, fmt.Errorf("%w: no driver for %s endpoints", ErrRefused, u.Scheme)
	}
	if e.Credential == "" {
		return d, secret.Value{}, nil
	}
	r, err := secret.For(e.Credential, secret.Use(protocol), u)
	if err != nil {
		return nil, secret.Value{}, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	r.Of = of
	value, err := secrets.Get(r)
	if errors.Is(err, secret.ErrUnavailable) {
		return nil, secret.Value{}, err // temporary
	}
	if err != nil {
		return nil, secret.Value{}, fmt.Errorf("%w: %w", ErrDenied, err)
	}
	return d, value, nil
}

// Protocol returns the part of an endpoint's URL, or of its scheme, that names the driver:
// "redfish" of "redfish+https://…".
func Protocol(endpoint string) string {
	scheme, _, _ := strings.Cut(endpoint, ":")
	scheme, _, _ = strings.Cut(scheme, "+")
	return scheme
}

// Lend gives a machine that sets secrets the credentials that are for it: by their hosts and ports
// those of its endpoint, and by their use for accounts or files of the system, or for its BMC.
// Where secrets is nil it lends none.
func Lend(m Machine, e site.Endpoint, secrets secret.Source) {
	k, ok := As[Keyholder](m)
	if !ok || secrets == nil {
		return
	}
	k.Credentials(func(name string, use secret.Use) (secret.Value, error) {
		u, err := url.Parse(e.URL)
		if err != nil {
			return secret.Value{}, err
		}
		r, err := secret.For(name, use, u)
		if err != nil {
			return secret.Value{}, err
		}
		return secrets.Get(r)
	})
}
