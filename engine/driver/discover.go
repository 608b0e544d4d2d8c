package driver

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Discoverer is a Driver that can find management controllers whose addresses
// nobody told.
type Discoverer interface {
	// Discover asks every address of a sweep whether the driver's protocol is
	// spoken there. It sends no credential, opens one connection to each
	// address, follows nothing that leads elsewhere, and connects to no address
	// outside the ranges. What does not answer soon is left out. An error says
	// that the sweep makes no sense, or that ctx ended before all were asked.
	Discover(ctx context.Context, s Sweep) error
}

// Sweep is what to look through, and whom to tell.
type Sweep struct {
	// Ranges are swept; an address in several of them is asked once.
	Ranges []netip.Prefix
	// Port is asked at every address; 0 is the protocol's own.
	Port int
	// AtOnce bounds how many addresses are asked at a time; 0 is as many as a
	// network takes without harm.
	AtOnce int
	// Found is told of each controller, Asked of how many of the addresses are
	// done; both in any order and one call at a time.
	Found func(Found)
	Asked func(done, all int)
}

// Found is a controller that says of itself that it is one. Nothing of this is
// proven: no certificate was verified.
type Found struct {
	Address netip.Addr
	// URL is an endpoint's, without the path of a machine.
	URL string
	// Vendor, Product and UUID are the controller's, not the machine's; each
	// may be empty.
	Vendor, Product, UUID string
	// Fingerprint is that of the certificate it showed, as site.Trust has it.
	Fingerprint string
}

// Lister is a Machine behind whose endpoint there may be several, as in a
// chassis of blades.
type Lister interface {
	// List gives for each of them the URL of an endpoint that leads to it alone.
	List(ctx context.Context) ([]string, error)
}

// Addresses are the addresses of the sweep, each once. An error says why the
// ranges are not to be swept.
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
