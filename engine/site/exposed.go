package site

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Exposed is a secret that nodes of an incident could read.
type Exposed struct {
	// Secret names it, such as "credential bmc" or "file /etc/app.key of n1".
	Secret string `json:"secret"`
	// Nodes are those of the incident that could read it. Known are those of them that it was given to, by the
	// records. The others count as having read it because the design names it for them.
	Nodes []string `json:"nodes"`
	Known []string `json:"known,omitempty"`
	// Holders are the other nodes, and other users of it such as a hypervisor, that have the same one.
	Holders []string `json:"holders,omitempty"`
	// Do says what a person has to do about it.
	Do string `json:"do"`
	// Epoch is that of a derived credential by the design; 0 for another secret.
	Epoch int `json:"epoch,omitempty"`
	// Had are the versions of it that each of Nodes had: by the records, or else the one that its source had when
	// Slipway first read it after it acted. A version reveals nothing of a value (Delivery.Version). They are in the
	// records alone.
	Had map[string][]string `json:"had,omitempty"`
	// Assumed are those of Nodes for which Had has what the source had, because the records may lack something.
	Assumed []string `json:"assumed,omitempty"`
	// Login says that the design has Slipway only log in to Nodes with it.
	Login bool `json:"login,omitempty"`
	// Until is when others stop accepting it, whatever is done; zero for never, or not known.
	Until time.Time `json:"until,omitzero"`
	// State says whether it was replaced since, and Why so. Old are those that may still have, or accept, a value that was
	// read; New were seen with the present one since. All of these are in the status alone.
	State Replaced `json:"state,omitempty"`
	Why   string   `json:"why,omitempty"`
	Old   []string `json:"old,omitempty"`
	New   []string `json:"new,omitempty"`
}

// Replaced is what is known of the replacement of a secret.
type Replaced string

// The states of a replacement.
const (
	ReplacedNot     Replaced = "old value"  // its source has a value that was read
	ReplacedPartly  Replaced = "new value"  // its source has another value, which was not seen everywhere
	ReplacedAll     Replaced = "replaced"   // and everywhere the new one was seen, or it has ended
	ReplacedUnknown Replaced = "unknown"    // Slipway cannot see it
	NeverSent       Replaced = "never sent" // a private key with which Slipway logs in: nothing of it is ever sent
)

// IsDone reports whether nothing is left to do about the secret.
func (r Replaced) IsDone() bool { return r == ReplacedAll || r == NeverSent }

// ReadBy names who could read it, for people: those that were given it, and those for which that is assumed.
func (x *Exposed) ReadBy() string {
	var assumed []string
	for _, n := range x.Nodes {
		if !slices.Contains(x.Known, n) {
			assumed = append(assumed, n)
		}
	}
	switch {
	case x.State == NeverSent:
		return "nobody"
	case len(x.Known) == 0:
		return some(assumed) + " (assumed: no record says so)"
	case len(assumed) == 0:
		return some(x.Known) + " (recorded)"
	}
	return some(x.Known) + " (recorded), " + some(assumed) + " (assumed: no record says so)"
}

// Progress says whether it was replaced, and why Slipway says so.
func (x *Exposed) Progress() string {
	if x.State.IsDone() {
		return string(x.State) + ": " + x.Why
	}
	return strings.ToUpper(string(x.State)) + ": " + x.Why
}

// some names the first ten of a list.
func some(names []string) string {
	if len(names) > 10 {
		return strings.Join(names[:10], ", ") + fmt.Sprintf(" and %d more", len(names)-10)
	}
	return strings.Join(names, ", ")
}
