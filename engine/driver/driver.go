// Package driver is the contract between the engine and the code that speaks to
// machines. A driver classifies errors and never retries; only the engine does.
// The suite in package drivertest checks every driver against the contract.
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

// LongestLook limits a look through one endpoint.
const LongestLook = 2 * time.Minute

// Looked are the facets that every look reads from a machine's BMC.
var Looked = []site.Facet{site.FacetPower, site.FacetBoot, site.FacetHealth}

// Driver speaks one protocol, named by the part of an endpoint's scheme before "+".
type Driver interface {
	// Facets lists what the driver can observe and, if the facet has steps,
	// apply. It is constant.
	Facets() []site.Facet
	// Open returns a handle on the machine behind an endpoint. It may connect,
	// or leave that to the first use. Handles of different machines share
	// nothing that one machine could spoil for another.
	Open(ctx context.Context, e site.Endpoint, s secret.Value) (Machine, error)
}

// Machine is an open handle on one machine. The engine calls Observe and Apply
// of a handle one at a time.
type Machine interface {
	// Observe looks at the requested facets and changes nothing on the machine. For each facet it fills
	// Have in the canonical terms in which the node's design is compared. It always fills what the protocol
	// reports of the machine's identity and, in brief, of its inventory. It leaves out a facet that cannot
	// be seen. An error means that nothing could be seen at all.
	Observe(ctx context.Context, n *site.Node, facets []site.Facet) (site.Observed, error)
	// Apply takes one step and returns when Observe would show its effect: a request that was only accepted
	// is not an effect. It is idempotent: "already so" is success, and work already under way is joined. With
	// Step.Resumed the step may have begun before, and Apply continues from what it sees. Without it, Apply
	// first clears leftovers of older work.
	//
	// Before the first write it checks that the machine is Step.Machine and refuses any other. During the
	// step it compares every answer that carries the machine's identity. It sends a write only over the
	// session or connection on which it read that identity: never over a new one, and never again because of
	// a new login. If the session is gone it returns ErrInterrupted. Right before its first request that may
	// lose data it asks for permission, see Permit. On a virtual machine it deletes only disks that
	// Step.Disks names; if it would delete others, it refuses before deleting any.
	//
	// When the context ends it returns soon. The machine is then as if a power cut of the daemon had
	// interrupted the step. An error does not name the step, because its reader knows it.
	Apply(ctx context.Context, step site.Step, n *site.Node, may Permit) error
	// Close ends sessions on the machine and frees the handle.
	Close() error
}

// Permit says whether a step may destroy data now, and records that it does.
// The engine passes one with each destructive step. A driver calls it right
// before the step's first request that may lose data, after everything that may
// still fail without loss, because hours may have passed since planning. Its
// error wraps ErrNotPermitted and ends the step. Nothing was lost then, and the
// driver reverts preparations that would lose something later.
type Permit func(ctx context.Context) error

// Ask asks for permission if the step destroys something, or starts the agent that will.
// Such a step is refused if p is nil.
func (p Permit) Ask(ctx context.Context, s site.Step) error {
	switch {
	case s.Impact < site.ImpactDestructive && s.Action != site.ActionStartAgent:
		return nil
	case p == nil:
		return fmt.Errorf("%w: %s destroys data or prepares to destroy it, and nobody permitted that", ErrNotPermitted, s.Action)
	}
	return p(ctx)
}

// Serves returns the facets that some driver observes or acts on.
func Serves(drivers map[string]Driver) map[site.Facet]bool {
	serves := map[site.Facet]bool{}
	for _, d := range drivers {
		for _, f := range d.Facets() {
			serves[f] = true
		}
	}
	return serves
}

// Sessioner is a Machine that logs in. The engine records the session before
// any write, so that the next term can end it.
type Sessioner interface {
	// Session names the session that the handle holds, in a form that End
	// understands through another handle on the same endpoint. It is empty
	// before the first login, and if each request carries the credential
	// itself. It sends nothing.
	Session() string
}

// Binder is a Machine that knows how its writes are bound.
type Binder interface {
	// Binding returns how writes are bound, by what was seen so far. It sends
	// nothing.
	Binding() site.Binding
}

// Namer is a Machine whose sessions may carry a text that others can read.
type Namer interface {
	// Name sets the site and term for which the handle acts. Later sessions
	// carry both, if the machine is known to keep such a text. It sends
	// nothing.
	Name(site string, term uint64)
	// Outranked looks through the sessions on the machine. It returns a
	// *LaterTermError if one is of the same site and a later term. A machine
	// whose sessions carry no text is not asked.
	Outranked(ctx context.Context) error
}

// Ender is a Machine that can end the session of an earlier term, so that the
// machine accepts none of its late writes.
type Ender interface {
	// End ends a session by the name that Session gave. It succeeds for a
	// session that is over, or that now belongs to another user. It must not
	// end the handle's own session.
	End(ctx context.Context, session string) error
}

// Heir is a Machine that may find no room for its login, because earlier terms
// left sessions on it.
type Heir interface {
	// Inherit names sessions, as Session gave them, that nobody uses any more.
	// If there is no room for the handle's own session, the handle ends only
	// these and logs in once more. Inherit itself sends nothing.
	Inherit(sessions []string)
}

// Surveyor is a Machine that can list the settings of its installed system.
type Surveyor interface {
	// Survey lists by facet what a design could ask for inside the system, whoever set
	// it, and what no design can express. It changes nothing and reveals no secret. An
	// error means that nothing could be seen at all.
	Survey(ctx context.Context, n *site.Node) (map[site.Facet]item.Found, error)
}

// Linked is a Machine whose system reports what it sees of the network. It is the contract of
// a site's network driver. The only implementation checks and configures nothing on a switch.
type Linked interface {
	// Targets sets which other machines a look at the facet links tries, and which a change
	// of the system's network must keep reachable. It sends nothing.
	Targets(of func(n *site.Node) []item.Target)
	// Listen waits for announcements at the other end of the node's ports, at most
	// item.MaxListen seconds, and changes nothing. It is not part of a look, which is
	// short. The result is nil if listening is not possible now.
	Listen(ctx context.Context, n *site.Node) (*item.LinksSeen, error)
}

// Inspector is a Machine that can report fully what it is made of.
type Inspector interface {
	// Inspect reads the inventory with all its lists and changes nothing. It
	// may take minutes. A part that cannot be read is only reported in Missing.
	// An error means that nothing could be read at all, or that the context
	// ended.
	Inspect(ctx context.Context, n *site.Node) (*site.Inventory, error)
}

// Identifier is a Machine that can report its full identity.
type Identifier interface {
	// Identify reads the identity with everything that distinguishes the machine
	// from others behind the same controller: its slot and, if it shows one, a
	// MAC address of its own, preferably the wanted one. If it is the only
	// machine there, they are left out.
	Identify(ctx context.Context, want site.Identity) (site.Identity, error)
}

// Certifier is a Machine that trusts the certificate presented first, if
// site.Trust says so. The engine records it, and passes it as the expected
// fingerprint when it opens the machine again.
type Certifier interface {
	// Certificate returns the fingerprint of the certificate that was trusted
	// at first use: "sha256:" and hex digits. It is empty before that, and if
	// the certificate is verified otherwise. It sends nothing.
	Certificate() string
}

// Shower is a Machine that says which certificate the other side shows, however it is verified.
type Shower interface {
	// Shown returns the fingerprint of the certificate that was verified last: "sha256:" and hex digits. It
	// is empty before the first connection. It sends nothing.
	Shown() string
}

// Keyholder is a Machine that sets passwords inside the system or of accounts of its BMC, and puts
// secrets into files of the system, which a design names as credentials.
type Keyholder interface {
	// Credentials sets the source of the values. The machine calls it whenever it needs one. It
	// refuses a credential that is not for the machine or not for the use, and sends nothing.
	Credentials(get func(name string, use secret.Use) (secret.Value, error))
}

// Supplied is a Machine that writes artifacts into files of the system.
type Supplied interface {
	// Supply sets the source of an artifact's bytes and their number, by SHA-256. It
	// sends nothing.
	Supply(open func(sha256 string) (io.ReadCloser, int64, error))
}

// Seeder is a Machine whose installation attaches the disk of an installed
// system, which configures itself at its first boot.
type Seeder interface {
	// Seed sets what the next installation passes to the first boot. It sends
	// nothing itself.
	Seed(Seed)
}

// Seed is what a system is told at its first boot: the three files of
// cloud-init's NoCloud data source. They contain the system's own keys, so they
// are secrets.
type Seed struct {
	MetaData, UserData, NetworkConfig secret.Value
}

// Consoler is a Machine whose serial console is kept.
type Consoler interface {
	// Console returns the last output on the machine's serial console since its
	// creation, at most the given number of bytes. It is empty before any output.
	Console(ctx context.Context, most int) ([]byte, error)
}

// LongestStep is the minimum time that a driver has for a step. The step ends by itself
// before that, and says what it waited for. Longer work is tried again and joined.
const LongestStep = 30 * time.Minute

// The classes of error. A driver wraps one of them in each returned error,
// together with what the machine said. Any other error is treated as
// ErrUnreachable.
var (
	// ErrUnreachable: no answer, or not in time. Retried.
	ErrUnreachable = errors.New("unreachable")
	// ErrNotAsked comes with ErrUnreachable where nothing was sent: the machine did not answer a moment
	// ago, and it is not asked again yet.
	ErrNotAsked = errors.New("not asked again yet")
	// ErrBusy: the machine answered that it cannot now. Retried, not before
	// RetryAfter if the error has one.
	ErrBusy = errors.New("busy")
	// ErrDenied: the credential was not accepted, or must not be sent. Never
	// retried with the same credential, so as not to lock the account.
	ErrDenied = errors.New("denied")
	// ErrRefused: the machine, or the driver on its behalf, says no: the
	// identity of another machine, a certificate that is not the pinned one, an
	// answer that makes no sense. Needs a person.
	ErrRefused = errors.New("refused")
	// ErrInterrupted: the session or connection on which the machine's identity
	// was read was lost during a step, and nothing was sent since. Retried: the
	// engine looks at the machine again, which logs in and reads the identity
	// anew. It then checks its term and its gates, and resumes the step.
	ErrInterrupted = errors.New("interrupted")
	// ErrOutranked: a later term of the same site acts on the machine. The
	// records of this engine are outdated; it must not write.
	ErrOutranked = errors.New("outranked")
	// ErrNotPermitted: the engine did not permit the step to destroy data. A
	// driver returns it unchanged; the step is planned again.
	ErrNotPermitted = errors.New("not permitted")
	// errors.ErrUnsupported: the machine cannot do it.
)

// LaterTermError is an ErrOutranked with the term.
type LaterTermError struct {
	Term uint64 // the latest term among the sessions
	Host string // the owner of that session
}

func (e *LaterTermError) Error() string {
	return fmt.Sprintf("a session of term %d of this site is open at %s: a daemon with newer records acts on the machine; "+
		"stop one of the two, and let no copy or older state of the records be used", e.Term, e.Host)
}

// Is reports whether target is ErrOutranked.
func (e *LaterTermError) Is(target error) bool { return target == ErrOutranked }

// RetryAfter is implemented by errors that know when to try again.
type RetryAfter interface {
	error
	// RetryAfterSeconds returns the delay that the machine asks for.
	RetryAfterSeconds() int
}
