package site

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
)

// Loss is one thing that a plan destroys. Two losses are the same when all of
// their fields are: whoever approved one has not approved another.
type Loss struct {
	Node    string   `json:"node"`
	Machine Identity `json:"machine"`
	// Hypervisor is the name of the one that a virtual machine is on, empty for
	// other machines. Two virtual machines of one name have the same UUID, and are
	// told apart by where they are.
	Hypervisor string `json:"hypervisor,omitempty"`
	// Action is what destroys: "install generation 2".
	Action string `json:"action"`
	// Lost is what is gone afterwards, in words.
	Lost string `json:"lost"`
	// Breaks names the arrays, volume groups and file systems of which a part is erased and
	// another part stays on disks that nobody designed, in order; Lost has them too. It is empty
	// for nothing, and while nobody has looked.
	Breaks string `json:"breaks,omitempty"`
	// Layout is the SHA-256 digest of what the design asks of the disks, for an installation by
	// Slipway's agent; Lost has the first 8 digits of it for people. An approval of before it was
	// a part of losses has none, and fits no loss that has one.
	Layout string `json:"layout,omitempty"`
	// Generation is the installation's, 0 for other losses; Image the SHA-256
	// digest of what it installs.
	Generation int    `json:"generation,omitempty"`
	Image      string `json:"image,omitempty"`
	// Disks are the disks of the machine as they were last seen, by serial
	// number and in order; of a virtual machine the volumes that the step deletes,
	// as the text of Volumes. DisksUnknown says that nobody can tell; empty that
	// they were not read yet, and then nobody can approve the loss.
	Disks string `json:"disks,omitempty"`
	// Attempt counts what was approved for the node, from 1: when an approval
	// was used or has ended the next loss has a higher one. It makes every loss
	// differ from those before. Records names the records that count.
	Attempt int    `json:"attempt,omitempty"`
	Records string `json:"records,omitempty"`
}

// Target is the machine as people approve its loss: "UUID 5e1d… on hv-1".
func (l Loss) Target() string {
	if l.Hypervisor == "" {
		return l.Machine.String()
	}
	return l.Machine.String() + " on " + l.Hypervisor
}

// DisksUnknown stands for the disks of a machine that does not tell of them,
// DisksUnread for those beside others that could not be read.
const (
	DisksUnknown = "unknown"
	DisksUnread  = "and disks that could not be read"
)

// Losses is a set of destruction. Its digest is free of the revision that asks
// for it: two commits that destroy the same have the same set.
type Losses []Loss

// DigestDigits is how many hex digits a digest of a set has.
const DigestDigits = 32

var digest = regexp.MustCompile(fmt.Sprintf("^[0-9a-f]{%d}$", DigestDigits))

// IsDigest says whether a text can be the digest of a set.
func IsDigest(text string) bool { return digest.MatchString(text) }

// Digest names the set: the first 128 bits of the SHA-256 of its losses, in hex.
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

// Contains says whether one loss is in the set.
func (l Losses) Contains(x Loss) bool { return slices.Contains(l, x) }

// Without are the losses of a set that another does not have.
func (l Losses) Without(other Losses) Losses {
	in := other.index()
	return slices.DeleteFunc(slices.Clone(l), func(x Loss) bool { return in[x] })
}

// Both are the losses of a set that another has as well.
func (l Losses) Both(other Losses) Losses {
	in := other.index()
	return slices.DeleteFunc(slices.Clone(l), func(x Loss) bool { return !in[x] })
}

// With are the losses of either of two sets.
func (l Losses) With(other Losses) Losses { return append(slices.Clip(l), other.Without(l)...) }

// ContainsAll says whether a set has all losses of another.
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
