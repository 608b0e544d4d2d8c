package site

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// mostSwept is the maximum number of addresses in all ranges of one sweep:
// those of an IPv4 /16.
const mostSwept = 1 << 16

// CheckRanges says why ranges cannot be swept: there are none, they have too
// many addresses, or they contain addresses that belong to no single machine.
func CheckRanges(ranges []netip.Prefix) error {
	if len(ranges) == 0 {
		return errors.New("there is no range of addresses to look through")
	}
	sum := 0
	for _, r := range ranges {
		if err := checkRange(r); err != nil {
			return err
		}
		if sum += 1 << min(r.Addr().BitLen()-r.Bits(), 24); sum > mostSwept {
			return fmt.Errorf("the ranges have more than %d addresses, those of an IPv4 /16, the most for one sweep: name those that the management controllers are in", mostSwept)
		}
	}
	return nil
}

func checkRange(r netip.Prefix) error {
	a := r.Masked().Addr()
	switch {
	case !r.IsValid():
		return errors.New("a range is not an address and a prefix length, such as 10.9.0.0/24")
	case a.Is4In6() || r.Addr().Is4In6():
		return fmt.Errorf("the range %s is one of IPv4 written as IPv6: write it as IPv4", r)
	case a.IsMulticast() || a.Is4() && a.As4()[0] >= 224:
		return fmt.Errorf("the range %s has multicast or reserved addresses, which no machine has", r)
	case a.IsUnspecified() || a.Is4() && a.As4()[0] == 0:
		// Connecting to 0.0.0.0 would reach this host (RFC 1122, 3.2.1.3).
		return fmt.Errorf("the range %s begins with addresses that stand for this host, not for machines", r)
	}
	return nil
}

// Discovery says where the daemon looks for machines by itself.
type Discovery struct {
	// Ranges are the only addresses that are swept.
	Ranges []string `json:"ranges"`
	// Every is the interval between sweeps.
	Every Duration `json:"every"`
	// Port is the port of the controllers; 0 is the protocol's default.
	Port int `json:"port,omitempty"`
	// Credential names the credential for controllers that prove themselves by
	// Trust. If it is empty, Slipway logs in nowhere.
	Credential string `json:"credential,omitempty"`
	Trust      Trust  `json:"trust,omitzero"`
}

// Met is a machine found in a sweep, or a controller that Slipway could not
// look into.
type Met struct {
	// Address is the controller's address and Fingerprint that of its certificate.
	// Vendor, Product and Controller (a UUID) are what the controller says of itself.
	Address     string `json:"address"`
	Vendor      string `json:"vendor,omitempty"`
	Product     string `json:"product,omitempty"`
	Controller  string `json:"controller,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	// Endpoint is the endpoint of the machine.
	Endpoint Endpoint `json:"endpoint,omitzero"`
	// Observed is what was seen of the machine. It is empty where Why says why
	// nobody looked.
	Observed Observed `json:"observed,omitzero"`
	Why      string   `json:"why,omitempty"`
	// Standing says how the machine relates to the design.
	Standing Standing `json:"standing,omitzero"`
}

// Standing says how a discovered machine relates to a design.
type Standing struct {
	Kind StandingKind `json:"kind,omitempty"`
	// Node is the node that the machine matches, or that the design has at its address.
	Node string `json:"node,omitempty"`
	// By is what identified the machine: "UUID", "serial number", "MAC", "address".
	By string `json:"by,omitempty"`
	// Text is a sentence without a final stop, for a standing that somebody can
	// do something about.
	Text string `json:"text,omitempty"`
	// Place is the line to change, Have its present value and Want the value
	// that it needs.
	Place Origin `json:"place,omitzero"`
	Have  string `json:"have,omitempty"`
	Want  string `json:"want,omitempty"`
	// CUE is what to add to the design.
	CUE string `json:"cue,omitempty"`
}

// StandingKind is a kind of standing.
type StandingKind string

// The kinds of standing.
const (
	StandingKnown   StandingKind = "known"   // at the address that the design gives it
	StandingMoved   StandingKind = "moved"   // a node's machine at another address
	StandingOther   StandingKind = "other"   // not the machine that the design has at this address
	StandingUnknown StandingKind = "unknown" // in no design
	StandingDoubt   StandingKind = "doubt"   // matches several nodes, or several machines match one node
	StandingUnread  StandingKind = "unread"  // Slipway could not look into it
)

// Swept is the result of the last sweep.
type Swept struct {
	When time.Time `json:"when"`
	// Addresses is how many addresses were asked, Answered how many of them are
	// controllers, and Known how many controllers are where the design has them.
	Addresses int `json:"addresses"`
	Answered  int `json:"answered"`
	Known     int `json:"known"`
	// Met are the other controllers.
	Met []Met `json:"met,omitempty"`
}
