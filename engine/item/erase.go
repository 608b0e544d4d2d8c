package item

import (
	"fmt"
	"slices"
	"time"
)

// EraseSecure is the only wish there is about how disks are erased: each by the strongest method
// that the disk has and that could be verified.
const EraseSecure = "secure"

// Erasure is what came of erasing one disk.
type Erasure struct {
	// Disk is its name in the design; of a set, with a number.
	Disk   string `json:"disk"`
	Serial string `json:"serial,omitempty"`
	WWN    string `json:"wwn,omitempty"`
	Model  string `json:"model,omitempty"`
	Bytes  int64  `json:"bytes,omitempty"`
	// Done says that the last of Tries has erased the disk and was verified.
	Done bool `json:"done,omitempty"`
	// Tries are the methods that were tried, in order.
	Tries []EraseTry `json:"tries,omitempty"`
	// Began and Ended are by the clock of the daemon: that of the machine may be years off.
	Began time.Time `json:"began,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
}

// EraseTry is one method that was tried on a disk.
type EraseTry struct {
	// Method is one of the methods of docs/erase.md: "nvme sanitize, block erase".
	Method string `json:"method"`
	// Took is how long it took, in seconds.
	Took int `json:"took,omitempty"`
	// Verified says what was observed afterwards, which is all that is claimed; empty where the
	// method did not erase the disk, and Why says why.
	Verified string `json:"verified,omitempty"`
	Why      string `json:"why,omitempty"`
}

// ID is what tells the disk from all others, as DiskID has it.
func (e Erasure) ID() string { return DiskID(e.Serial, e.WWN) }

// Last is the method that was tried last; zero where none was.
func (e Erasure) Last() EraseTry {
	if len(e.Tries) == 0 {
		return EraseTry{}
	}
	return e.Tries[len(e.Tries)-1]
}

// Took is how long all tries took together.
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

// WithErasure is a list with one more result, in the place of an earlier one of the same disk.
func WithErasure(all []Erasure, e Erasure) []Erasure {
	all = slices.DeleteFunc(slices.Clone(all), func(x Erasure) bool { return x.ID() == e.ID() })
	return append(all, e)
}
