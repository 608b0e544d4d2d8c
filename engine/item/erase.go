package item

import (
	"fmt"
	"slices"
	"time"
)

// EraseSecure is the only value for how to erase disks: each by the strongest method that the disk
// has and that can be verified.
const EraseSecure = "secure"

// Erasure is the result of erasing one disk.
type Erasure struct {
	// Disk is the disk's name in the design; in a set, with a number.
	Disk   string `json:"disk"`
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	Model  string `json:"model,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	// Done means that the last of Tries erased the disk and was verified.
	Done bool `json:"done,omitempty"`
	// Tries are the methods that were tried, in order.
	Tries []EraseTry `json:"tries,omitempty"`
	// Began and Ended are by the daemon's clock: the machine's may be years off.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
}

// EraseTry is one method that was tried on a disk.
type EraseTry struct {
	// Method is one of the methods of docs/erase.md: "nvme sanitize, block erase".
	Method string `json:"method"`
	// Took is how long it took, in seconds.
	Took int `json:"took,omitempty"`
	// Verified says what was observed afterwards, which is all that Slipway claims. It is empty if
	// the method did not erase the disk; then Why says why.
	Verified string `json:"verified,omitempty"`
	Why      string `json:"why,omitempty"`
}

// ID identifies the disk, see DiskID.
func (e Erasure) ID() string { return DiskID(e.Serial, e.WWN) }

// Last returns the last method that was tried; zero if there was none.
func (e Erasure) Last() EraseTry {
	if len(e.Tries) == 0 {
		return EraseTry{}
	}
	return e.Tries[len(e.Tries)-1]
}

// Took returns how long all tries took together.
func (e Erasure) Took() time.Duration {
	sum := 0
	for _, t := range e.Tries {
		sum += t.Took
	}
	return time.Duration(sum) * time.Second
}

// String is the result in one line.
func (e Erasure) String() string {
	if e.Done {
		return fmt.Sprintf("%s: erased by %s", e.ID(), e.Last().Method)
	}
	return fmt.Sprintf("%s: not erased", e.ID())
}

// WithErasure returns the list with one more result, which replaces an earlier one of the same disk.
func WithErasure(all []Erasure, e Erasure) []Erasure {
	all = slices.DeleteFunc(slices.Clone(all), func(x Erasure) bool { return x.ID() == e.ID() })
	return append(all, e)
}
