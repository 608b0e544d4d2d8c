package site

import (
	"slices"
	"strings"
	"time"
)

// Delivered is what the records say of the secrets that the machines of a node were given.
type Delivered struct {
	// Since is when the record began, or was imported. What was given before may be missing.
	Since time.Time `json:"since"`
	// Given is oldest first, and has each value once for each installation.
	Given []Delivery `json:"given,omitempty"`
}

// Delivery is a value of a secret that a machine was given, or was about to be given.
type Delivery struct {
	// Secret names it as Exposed does: "credential bmc".
	Secret string `json:"secret"`
	// Version stands for its value and reveals nothing of it (secret.Versions); empty where the daemon has no site key.
	Version string    `json:"version,omitempty"`
	To      Recipient `json:"to"`
	// As is what it is there: "login", or "account NAME" of a BMC; empty for what is put into a system. Each is
	// changed for itself, so one that has the new value says nothing of another.
	As string `json:"as,omitempty"`
	// User is the account of the BMC that a login is of; empty for other deliveries, and in records of before.
	User string `json:"user,omitempty"`
	// Machine and Generation are the instance of the node: its machine, and the generation of the system.
	Machine    string `json:"machine,omitempty"`
	Generation int    `json:"generation,omitempty"`
	// When is when it was recorded, before the value was sent. Seen is when a login with it was first accepted, or it was
	// first found inside the system; zero before.
	When time.Time `json:"when"`
	Seen time.Time `json:"seen,omitzero"`
}

// Recipient is what was given a secret.
type Recipient string

// The recipients.
const (
	ToBMC        Recipient = "bmc"
	ToHypervisor Recipient = "hypervisor"
	ToSystem     Recipient = "system" // the installed system, or the agent in the machine's memory
)

// AsLogin is that of a value with which Slipway logs in.
const AsLogin = "login"

// AsAccount is that of the password of an account of a BMC.
func AsAccount(name string) string { return "account " + name }

// isLike reports whether two deliveries are of one secret in one place, where the later one replaces the other. Logins are
// unless they are known to be of two accounts.
func (d Delivery) isLike(other Delivery) bool {
	return d.Secret == other.Secret && d.To == other.To && d.As == other.As && (d.User == other.User || d.User == "" || other.User == "")
}

// proves reports whether a delivery shows which value the account of a login to a BMC has: its password was set and accepted.
func (d Delivery) proves(login Delivery) bool {
	return login.To == ToBMC && login.As == AsLogin && login.User != "" && d.As == AsAccount(login.User) && !d.Seen.IsZero() &&
		d.Secret == login.Secret && d.To == login.To && d.Machine == login.Machine
}

// mostDelivered bounds the record of a node.
const mostDelivered = 200

// The secrets of a system itself, as records and incidents name them. A new installation makes others.
const (
	SecretHostKey        = "SSH host key of the first boot"
	SecretDiskPassphrase = "passphrase of the encrypted disks"
)

// SecretOfCredential is how records and incidents name a credential.
func SecretOfCredential(name string) string { return "credential " + name }

// CredentialOf is the credential that a secret is; empty for another secret.
func CredentialOf(secret string) string {
	name, is := strings.CutPrefix(secret, "credential ")
	if !is {
		return ""
	}
	return name
}

// With returns the record with a delivery, and whether that is news. A full record forgets the oldest one that a
// later value has replaced, else the oldest; then Since says that something may be missing.
func (d Delivered) With(is Delivery) (Delivered, bool) {
	same := func(g Delivery) bool {
		return g.isLike(is) && g.User == is.User && g.Version == is.Version && g.Machine == is.Machine && g.Generation == is.Generation
	}
	i := slices.IndexFunc(d.Given, same)
	if i >= 0 {
		was := d.Given[i]
		latest := !slices.ContainsFunc(d.Given[i+1:], is.isLike)
		if latest && (is.Seen.IsZero() || !was.Seen.IsZero()) {
			return d, false
		}
		if latest {
			is.When = was.When
		}
	}
	d.Given = slices.Clone(d.Given)
	if i >= 0 { // an earlier value that came back is the latest again
		d.Given = slices.Delete(d.Given, i, i+1)
	}
	d.Given = append(d.Given, is)
	for len(d.Given) > mostDelivered {
		oldest := 0
		for at, g := range d.Given {
			if slices.ContainsFunc(d.Given[at+1:], g.isLike) {
				oldest = at
				break
			}
		}
		d.Given, d.Since = slices.Delete(d.Given, oldest, oldest+1), is.When
	}
	return d, true
}

// Lasts returns the latest delivery of a secret to each place where it is. A login to a BMC is none of its own once the
// password of its account was set and accepted: that is the place.
func (d Delivered) Lasts(secret string) (all []Delivery) {
	for at, g := range d.Given {
		replaces := func(next Delivery) bool { return next.isLike(g) || next.proves(g) }
		if g.Secret == secret && !slices.ContainsFunc(d.Given[at+1:], replaces) {
			all = append(all, g)
		}
	}
	return all
}

// Brief is what a plan needs of it: each secret once for each machine and recipient, without versions. A full record of each of
// many nodes is more than a client reads.
func (d Delivered) Brief() Delivered {
	is := Delivered{Since: d.Since}
	for _, g := range d.Given {
		g = Delivery{Secret: g.Secret, To: g.To, Machine: g.Machine, When: g.When}
		same := func(other Delivery) bool { return other.isLike(g) && other.Machine == g.Machine }
		if i := slices.IndexFunc(is.Given, same); i >= 0 {
			is.Given[i] = g
		} else {
			is.Given = append(is.Given, g)
		}
	}
	return is
}

// Unreplaced returns the deliveries of some versions of a secret that may still count where they went: no later value was seen
// there that is none of these versions. One that was only sent may have been refused.
func (d Delivered) Unreplaced(secret string, versions []string) (all []Delivery) {
	for at, g := range d.Given {
		replaces := func(next Delivery) bool {
			return (next.isLike(g) && !next.Seen.IsZero() || next.proves(g)) && !slices.Contains(versions, next.Version)
		}
		if g.Secret == secret && slices.Contains(versions, g.Version) && !slices.ContainsFunc(d.Given[at+1:], replaces) {
			all = append(all, g)
		}
	}
	return all
}

// ComparableVersions reports whether two versions were made with the same site key. Of others nobody can say whether
// they stand for the same value.
func ComparableVersions(a, b string) bool {
	x, _, is := strings.Cut(a, ".")
	y, _, also := strings.Cut(b, ".")
	return is && also && x == y
}
