// Package driver is the contract between the engine and the code that speaks
// to machines. A driver classifies what went wrong and never retries; the
// engine alone does. The suite in drivertest holds every driver to it.
package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// LongestLook bounds a look through one endpoint.
const LongestLook = 2 * time.Minute

// Looked are the facets that every look reads from a machine's BMC.
var Looked = []site.Facet{site.FacetPower, site.FacetBoot, site.FacetHealth}

// Driver speaks one protocol, named by an endpoint's scheme up to "+".
type Driver interface {
	// Facets lists what the driver can observe, and Apply if the facet has
	// steps. It is constant.
	Facets() []site.Facet
	// Open makes a handle on the machine behind an endpoint. It may connect,
	// or leave that to the first use. Handles of different machines share
	// nothing that one machine could spoil for another.
	Open(ctx context.Context, e site.Endpoint, s secret.Value) (Machine, error)
}

// Machine is an open handle on one machine. The engine calls Observe and
// Apply of one handle one at a time.
type Machine interface {
	// Observe looks at the asked facets and changes nothing on the machine.
	// For each facet it fills Have and, from the node, Want, in the same
	// canonical terms. It always fills what the protocol tells of the
	// machine's identity and, in brief, of its inventory. A facet that cannot be seen is left out; an error
	// means that nothing could be seen at all.
	Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error)
	// Apply takes one step and returns when Observe would show its effect: a
	// request that was merely accepted is not an effect. It is idempotent:
	// "already so" is success, and work already under way is joined. With
	// Step.Resumed the step may have been begun before and is continued from
	// what is seen; without it, leftovers of older work are cleared first.
	// Before the first write it checks that the machine is Step.Machine and
	// refuses another. While the step runs it compares every answer that
	// carries the machine's identity, and sends a write only over the session or
	// connection on which that identity was read: never over a new one on which
	// it was not, and never a second time because a new login was made. When
	// the session is gone it returns ErrInterrupted. Right before its first request after which data can be
	// lost it asks for permission, see Permit. Of a virtual machine it deletes no
	// disk that Step.Disks does not name, and refuses before it deletes any. When the context ends it returns
	// soon; the machine is then as if the step had been interrupted by a power
	// cut of the daemon. An error does not name the step, which its reader knows.
	Apply(ctx context.Context, step site.Step, n *site.Node, may Permit) error
	// Close ends sessions on the machine and frees the handle.
	Close() error
}

// Permit says whether a step may destroy data now, and records that it does.
// The engine gives one with each destructive step. A driver asks it right
// before the first request of a step after which data can be lost, after
// everything that may still fail without loss: hours may have passed since the
// step was planned. Its error wraps ErrNotPermitted and ends the step: nothing
// was lost, and the driver takes back what would lose something later.
type Permit func(ctx context.Context) error

// Ask asks for permission where the step needs one: where it destroys something, or starts
// the agent that is to do so next. Such a step without a Permit is refused.
func (p Permit) Ask(ctx context.Context, s site.Step) error {
	switch {
	case s.Impact < site.ImpactDestructive && s.Action != site.ActionStartAgent:
		return nil
	case p == nil:
		return fmt.Errorf("%w: %s destroys data or prepares to destroy it, and nobody permitted that", ErrNotPermitted, s.Action)
	}
	return p(ctx)
}

// Serves are the facets that some driver acts on or observes.
func Serves(drivers map[string]Driver) map[site.Facet]bool {
	serves := map[site.Facet]bool{}
	for _, d := range drivers {
		for _, f := range d.Facets() {
			serves[f] = true
		}
	}
	return serves
}

// Sessioner is a Machine that logs in. The engine records its session before it
// writes anything, so that the next term can end it.
type Sessioner interface {
	// Session names the session that the handle holds on the machine, in a
	// form that End understands through another handle on the same endpoint.
	// It is empty before the first login and where each request carries the
	// credential by itself. It sends nothing.
	Session() string
}

// Binder is a Machine that knows how its writes are bound.
type Binder interface {
	// Binding is how writes are bound, by what was seen so far. It sends
	// nothing.
	Binding() site.Binding
}

// Namer is a Machine whose sessions may carry a text that others can read.
type Namer interface {
	// Name says for which site and term the handle acts. Sessions that are
	// opened from then on carry both, where the machine is known to keep such a
	// text. It sends nothing.
	Name(site string, term uint64)
	// Outranked looks through the sessions on the machine, and returns a
	// *LaterTermError when one is of the same site and a later term. A machine
	// whose sessions carry no text is not asked.
	Outranked(ctx context.Context) error
}

// Ender is a Machine on which a session can be ended: that of an earlier term,
// so that none of its late writes is accepted.
type Ender interface {
	// End ends a session by the name that Session gave. One that is over, or
	// that by now is another user's, is success. It must not end the handle's
	// own.
	End(ctx context.Context, session string) error
}

// Heir is a Machine that may find no room for its login, because of the sessions
// that earlier terms have left on it.
type Heir interface {
	// Inherit names sessions, as Session gave them, that nobody uses any more.
	// When there is no room for the handle's own session they are ended, they
	// alone, before it logs in once more. It sends nothing by itself.
	Inherit(sessions []string)
}

// Surveyor is a Machine that can list what is set in its installed system.
type Surveyor interface {
	// Survey lists what a design could ask for inside the system, whoever set it, and
	// what no design can say, by facet. It changes nothing of the system, and tells no
	// secret. An error means that nothing could be seen at all.
	Survey(ctx context.Context, n *site.Node) (map[site.Facet]item.Found, error)
}

// Linked is a Machine whose system tells what it sees of the network: the contract of a
// site's network driver, of which the only one checks and sets nothing on a switch.
type Linked interface {
	// Targets gives which other machines a look at the facet links is to try, and a change of
	// the system's network is to leave in reach. It sends nothing.
	Targets(of func(n *site.Node) []item.Target)
	// Listen waits for what is at the other end of the node's ports to tell of itself, at
	// most item.MaxListen seconds, and changes nothing. It is not asked in a look, which is
	// short. It is nil where it cannot be done now.
	Listen(ctx context.Context, n *site.Node) (*item.LinksSeen, error)
}

// Inspector is a Machine that can tell in full what it is made of.
type Inspector interface {
	// Inspect reads the inventory with all its lists and changes nothing. It
	// may take minutes. A part that cannot be read costs that part only and is
	// told of in Missing; an error means that nothing could be read at all, or
	// that the context ended.
	Inspect(ctx context.Context, n *site.Node) (*site.Inventory, error)
}

// Identifier is a Machine that can tell all that it is known by.
type Identifier interface {
	// Identify reads the identity with all that tells the machine from others
	// behind the same controller: its slot, and where it shows one a MAC address
	// of its own, the wanted one if it has that. Where it is the only one they
	// are left out.
	Identify(ctx context.Context, want site.Identity) (site.Identity, error)
}

// Certifier is a Machine that trusts the certificate that the other side shows
// first, where site.Trust says so. The engine records it, and gives it back as
// the fingerprint to expect when the machine is opened again.
type Certifier interface {
	// Certificate is the fingerprint of the certificate that was trusted at
	// its first use: "sha256:" and hex digits. It is empty before, and where
	// the certificate is verified otherwise. It sends nothing.
	Certificate() string
}

// Keyholder is a Machine that sets passwords inside the system or of accounts of its BMC, and puts
// secrets into files of the system, which a design names as credentials.
type Keyholder interface {
	// Credentials gives what the values come from. It is asked whenever one is
	// needed, refuses a credential that is not for the machine or for the use, and sends nothing.
	Credentials(get func(name string, use secret.Use) (secret.Value, error))
}

// Supplied is a Machine that puts artifacts into files of the system.
type Supplied interface {
	// Supply gives where the bytes of an artifact come from, by its SHA-256, and how
	// many they are. It sends nothing.
	Supply(open func(sha256 string) (io.ReadCloser, int64, error))
}

// Seeder is a Machine whose installation puts the disk of an installed system
// under it, which sets itself up at its first boot.
type Seeder interface {
	// Seed gives what the next installation hands to the first boot. It sends
	// nothing by itself.
	Seed(Seed)
}

// Seed is what a system is told at its first boot, as cloud-init's NoCloud data
// source has it: three files. They hold the system's own keys, and so are
// secrets.
type Seed struct {
	MetaData, UserData, NetworkConfig secret.Value
}

// Consoler is a Machine whose serial console is kept.
type Consoler interface {
	// Console is the last of what the machine wrote to its serial console since
	// it was made, at most so many bytes. It is empty before it wrote anything.
	Console(ctx context.Context, most int) ([]byte, error)
}

// LongestStep is how long a driver has for a step at least; it ends by itself before,
// and says what it has waited for. What takes longer is tried again, and joined.
const LongestStep = 30 * time.Minute

// The classes of error. A driver wraps one of them into what it returns,
// together with what the machine said; anything else is treated as
// ErrUnreachable.
var (
	// ErrUnreachable: no answer, or not in time. Retried.
	ErrUnreachable = errors.New("unreachable")
	// ErrBusy: the machine answered that it cannot now. Retried, not before
	// RetryAfter if the error has one.
	ErrBusy = errors.New("busy")
	// ErrDenied: the credential was not accepted, or must not be sent. Never
	// tried again with the same credential, so as not to lock the account.
	ErrDenied = errors.New("denied")
	// ErrRefused: the machine, or the driver on its behalf, says no: another
	// machine's identity, a certificate that is not the pinned one, an answer
	// that makes no sense. Needs a person.
	ErrRefused = errors.New("refused")
	// ErrInterrupted: the session or connection over which the machine's identity
	// was read is gone in the middle of a step, and nothing was sent since.
	// Retried: the engine looks at the machine again, which logs in and reads
	// the identity anew, checks its term and its gates, and resumes the step.
	ErrInterrupted = errors.New("interrupted")
	// ErrOutranked: a later term of the same site acts on the machine. The
	// records of this engine are older than what was done; it must not write.
	ErrOutranked = errors.New("outranked")
	// ErrNotPermitted: the engine did not let the step destroy anything. A
	// driver returns it as it got it; the step is planned again.
	ErrNotPermitted = errors.New("not permitted")
	// errors.ErrUnsupported: this machine cannot do it.
)

// LaterTermError is ErrOutranked with the term.
type LaterTermError struct {
	Term uint64 // the latest that a session is named for
	Host string // whose session it is
}

func (e *LaterTermError) Error() string {
	return fmt.Sprintf("a session of term %d of this site is open at %s: a controller with newer records acts on the machine; "+
		"stop one of the two, and let no copy or older state of the records be used", e.Term, e.Host)
}

// Is says that it is ErrOutranked.
func (e *LaterTermError) Is(target error) bool { return target == ErrOutranked }

// RetryAfter is implemented by errors that know when to try again.
type RetryAfter interface {
	error
	// RetryAfterSeconds is the machine's own wish, from now.
	RetryAfterSeconds() int
}
