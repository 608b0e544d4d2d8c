package driver

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Discoverer is a Driver that can find management controllers at unknown
// addresses.
type Discoverer interface {
	// Discover asks every address of a sweep whether it speaks the driver's
	// protocol. It sends no credential, opens one connection per address,
	// follows no redirects, and connects to no address outside the ranges. It
	// leaves out addresses that do not answer soon. An error means that the
	// sweep is invalid, or that ctx ended before all addresses were asked.
	Discover(ctx context.Context, s Sweep) error
}

// Sweep says where to look, and whom to tell.
type Sweep struct {
	// Ranges are the ranges to sweep; an address in several ranges is asked once.
	Ranges []netip.Prefix
	// Port is the port to ask; 0 means the protocol's default.
	Port int
	// AtOnce limits how many addresses are asked at a time; 0 means as many as
	// a network handles without harm.
	AtOnce int
	// Found is called for each controller, Asked with the number of finished
	// addresses. Calls come in any order, one at a time.
	Found func(Found)
	Asked func(done, all int)
}

// Found is something that claims to be a controller. Nothing here is proven: no
// certificate was verified.
type Found struct {
	Address netip.Addr
	// URL is the URL of an endpoint, without the path of a machine.
	URL string
	// Vendor, Product and UUID describe the controller, not the machine; each
	// may be empty.
	Vendor, Product, UUID string
	// Fingerprint is that of the presented certificate, in the form of site.Trust.
	Fingerprint string
}

// Lister is a Machine whose endpoint may lead to several machines, as in a
// blade chassis.
type Lister interface {
	// List returns for each machine the URL of an endpoint that leads to it alone.
	List(ctx context.Context) ([]string, error)
}

// Addresses returns the addresses of the sweep, each once. An error says why
// the ranges cannot be swept.
func (s Sweep) Addresses() ([]netip.Addr, error) {
	if err := site.CheckRanges(s.Ranges); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	var all []netip.Addr
	seen := map[netip.Addr]bool{}
	for _, r := range s.Ranges {
		for a := r.Masked().Addr(); a.IsValid() && r.Contains(a); a = a.Next() {
			if !seen[a] {
				all, seen[a] = append(all, a), true
			}
		}
	}
	return all, nil
}
