package site

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// MostSwept is how many addresses the ranges of one sweep may have together:
// those of an IPv4 /16.
const MostSwept = 1 << 16

// CheckRanges says why ranges are not to be swept: there is none, there are
// too many addresses in them, or some that are nobody's own.
func CheckRanges(ranges []netip.Prefix) error {
	if len(ranges) == 0 {
		return errors.New("there is not a range of addresses to look through")
	}
	sum := 0
	for _, r := range ranges {
		if err := checkRange(r); err != nil {
			return err
		}
		if sum += 1 << min(r.Addr().BitLen()-r.Bits(), 24); sum > MostSwept {
			return fmt.Errorf("the ranges have more than %d addresses, those of an IPv4 /16, the most for one sweep: name those that the management controllers are in", MostSwept)
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
		return fmt.Errorf("the range %s has addresses of groups, not of machines", r)
	case a.IsUnspecified() || a.Is4() && a.As4()[0] == 0:
		// A connection to 0.0.0.0 would be one to this host (RFC 1122, 3.2.1.3).
		return fmt.Errorf("the range %s begins with addresses that stand for this host, not for machines", r)
	}
	return nil
}

// Discovery is what the daemon looks for in the networks by itself.
type Discovery struct {
	// Ranges are swept, and nothing else.
	Ranges []string `json:"ranges"`
	// Every is how often.
	Every Duration `json:"every"`
	// Port of the controllers; 0 is the protocol's own.
	Port int `json:"port,omitempty"`
	// Credential names what to log in with where a controller answers and
	// proves itself by Trust; with none nobody is logged in to.
	Credential string `json:"credential,omitempty"`
	Trust      Trust  `json:"trust,omitzero"`
}

// Met is a machine that was met in a sweep, or a controller that could not be
// looked into.
type Met struct {
	// Address is the controller's, Vendor, Product and Controller (a UUID) what
	// it says of itself, Fingerprint that of its certificate.
	Address     string `json:"address"`
	Vendor      string `json:"vendor,omitempty"`
	Product     string `json:"product,omitempty"`
	Controller  string `json:"controller,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	// Endpoint is the way to the machine.
	Endpoint Endpoint `json:"endpoint,omitzero"`
	// Observed is what was seen of the machine; nothing when Why says why it
	// was not looked at.
	Observed Observed `json:"observed,omitzero"`
	Why      string   `json:"why,omitempty"`
	// Standing says what the design makes of it.
	Standing Standing `json:"standing,omitzero"`
}

// Standing is what a design makes of a machine that was met.
type Standing struct {
	Kind StandingKind `json:"kind,omitempty"`
	// Node is the one that it is, or that is designed at its address.
	Node string `json:"node,omitempty"`
	// By is what it was told by: "UUID", "serial number", "MAC", "address".
	By string `json:"by,omitempty"`
	// Text is a sentence without a final stop, for what somebody may do
	// something about.
	Text string `json:"text,omitempty"`
	// Place is the line to change, Have what it says and Want what it would
	// have to say.
	Place Origin `json:"place,omitzero"`
	Have  string `json:"have,omitempty"`
	Want  string `json:"want,omitempty"`
	// CUE is what to add to the design.
	CUE string `json:"cue,omitempty"`
}

// StandingKind tells standings apart.
type StandingKind string

// The kinds of standing.
const (
	StandingKnown   StandingKind = "known"   // where the design has it
	StandingMoved   StandingKind = "moved"   // a node's machine, at another address
	StandingOther   StandingKind = "other"   // not the machine that the design has at this address
	StandingUnknown StandingKind = "unknown" // in no design
	StandingDoubt   StandingKind = "doubt"   // several nodes' machine at once, or several machines of one node
	StandingUnread  StandingKind = "unread"  // not looked into
)

// Swept is what the last sweep came to.
type Swept struct {
	When time.Time `json:"when"`
	// Addresses is how many were asked, Answered how many of them are
	// controllers, Known how many of these are where the design has them.
	Addresses int `json:"addresses"`
	Answered  int `json:"answered"`
	Known     int `json:"known"`
	// Met are the others.
	Met []Met `json:"met,omitempty"`
}
