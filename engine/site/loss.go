package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
)

// Loss is one thing that a plan destroys. Two losses are the same only if all their fields are
// equal. Approving one does not approve another.
type Loss struct {
	Node    string   `json:"node"`
	Machine Identity `json:"machine"`
	// Hypervisor names the hypervisor of a virtual machine; empty for other machines. Virtual
	// machines of the same name have the same UUID, so their place distinguishes them.
	Hypervisor string `json:"hypervisor,omitempty"`
	// Action is the destructive action: "install generation 2".
	Action string `json:"action"`
	// Lost describes what is gone afterwards.
	Lost string `json:"lost"`
	// Breaks names the arrays, volume groups and file systems that lose a part while another part
	// stays on disks outside the design, sorted; Lost has them too. It is empty for none, and while
	// nobody has looked.
	Breaks string `json:"breaks,omitempty"`
	// Layout is the SHA-256 digest of the designed disk layout, for an installation by Slipway's
	// agent; Lost shows its first 8 digits. Approvals that predate this field have none. They match
	// no loss that has one.
	Layout string `json:"layout,omitempty"`
	// Generation is the installation's, 0 for other losses. Image is the SHA-256 digest of the
	// image that it installs.
	Generation int    `json:"generation,omitempty"`
	Image      string `json:"image,omitempty"`
	// Disks are the serial numbers of the machine's disks as last seen, sorted. For a virtual
	// machine they are the volumes that the step deletes, as the text of Volumes. DisksUnknown
	// means that nobody can tell. Empty means not read yet; such a loss cannot be approved.
	Disks string `json:"disks,omitempty"`
	// Attempt counts the approvals of the node, from 1. When an approval was used or has ended, the
	// next loss has a higher attempt and so differs from all before. Records names the records that
	// the count is in.
	Attempt int    `json:"attempt,omitempty"`
	Records string `json:"records,omitempty"`
}

// Target names the machine for whoever approves its loss: "UUID 5e1d… on hv-1".
func (l Loss) Target() string {
	if l.Hypervisor == "" {
		return l.Machine.String()
	}
	return l.Machine.String() + " on " + l.Hypervisor
}

// DisksUnknown stands for the disks of a machine that does not report any. DisksUnread stands for
// further disks that could not be read.
const (
	DisksUnknown = "unknown"
	DisksUnread  = "and disks that could not be read"
)

// Losses is a set of destruction. Its digest does not depend on the revision: two commits that
// destroy the same things have the same set.
type Losses []Loss

// DigestDigits is the length of a set's digest in hex digits.
const DigestDigits = 32

var digest = regexp.MustCompile(fmt.Sprintf("^[0-9a-f]{%d}$", DigestDigits))

// IsDigest reports whether a text has the form of a set's digest.
func IsDigest(text string) bool { return digest.MatchString(text) }

// Digest identifies the set: the first 128 bits of the SHA-256 of its losses, in hex.
func (l Losses) Digest() string {
	keys := make([]string, len(l))
	for i, x := range l {
		keys[i] = x.key()
	}
	slices.Sort(keys)
	h := sha256.New()
	for _, k := range keys {
		h.Write([]byte(k + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil))[:DigestDigits]
}

// Contains reports whether a loss is in the set.
func (l Losses) Contains(x Loss) bool { return slices.Contains(l, x) }

// Without returns the losses that are not in the other set.
func (l Losses) Without(other Losses) Losses {
	in := other.index()
	return slices.DeleteFunc(slices.Clone(l), func(x Loss) bool { return in[x] })
}

// Both returns the losses that are in both sets.
func (l Losses) Both(other Losses) Losses {
	in := other.index()
	return slices.DeleteFunc(slices.Clone(l), func(x Loss) bool { return !in[x] })
}

// With returns the losses that are in either set.
func (l Losses) With(other Losses) Losses { return append(slices.Clip(l), other.Without(l)...) }

// ContainsAll reports whether the set has all losses of another set.
func (l Losses) ContainsAll(part Losses) bool {
	in := l.index()
	return !slices.ContainsFunc(part, func(x Loss) bool { return !in[x] })
}

func (l Losses) index() map[Loss]bool {
	in := make(map[Loss]bool, len(l))
	for _, x := range l {
		in[x] = true
	}
	return in
}

func (l Loss) key() string {
	b, _ := json.Marshal(l)
	return string(b)
}
