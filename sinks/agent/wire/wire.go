// Package wire is what the daemon and the programs inside machines say to each
// other: one request, then frames of progress, then one result. A frame is its
// length in four octets, the highest first, and JSON of that length.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Version is that of the protocol. Both ends are built from the same commit and
// refuse another version.
const Version = 2

// Answers is the line behind which the program inside a system reads a request and answers
// it with frames.
const Answers = "--helper\n"

// Words of what is told before that, of the system itself.
const (
	// Unread is in the place of a marker that is there and cannot be read.
	Unread = "unread"
	// AllUnits ends the list of units that have failed, which is empty in most systems.
	AllUnits = "--all"
)

// MaxFrame bounds one frame, in bytes.
const MaxFrame = 64 << 20

// Op is what a request asks for.
type Op string

// The requests.
const (
	// OpObserve looks and changes nothing.
	OpObserve Op = "observe"
	// OpApply makes items of one facet as they are asked for, and returns when
	// they were seen to be so.
	OpApply Op = "apply"
	// OpSurvey lists what is there that a design could ask for, whoever made it, and
	// changes nothing.
	OpSurvey Op = "survey"
	// OpConfirm ends a change of the network that waits for the proof that the
	// machine can be reached.
	OpConfirm Op = "confirm"
	// OpInstall puts a system onto the disks of the machine. Only the agent in memory does
	// it. Asked for again it begins at its start, but for a system that is there already as
	// it was asked for.
	OpInstall Op = "install"
	// OpErase erases the disks of the machine, as Install.Layout says, and puts nothing there. Only
	// the agent in memory does it. Asked for again it goes on with the disks that are not erased.
	OpErase Op = "erase"
)

// Request is what the program is started for.
type Request struct {
	Version int    `json:"version"`
	Op      Op     `json:"op"`
	Site    string `json:"site"`
	Node    string `json:"node"`
	// Term is that of the daemon. A write with a term below the highest that the
	// system has seen is refused.
	Term uint64 `json:"term"`
	// Key is the public key that this session logged in with, as in
	// authorized_keys(5); empty where it came by a password or a certificate.
	Key string `json:"key,omitempty"`
	// Password says that this session logged in with the account's password.
	Password bool `json:"password,omitempty"`
	// Authority is the public key of the site's authority by whose certificate this session
	// logged in; empty where it came by something else.
	Authority string `json:"authority,omitempty"`
	// Observe is for OpObserve: the keys of the items that the design asks for, by
	// facet. The program tells of them and of all that it owns in these facets.
	Observe map[string][]string `json:"observe,omitempty"`
	// Survey is for OpSurvey: the facets to list.
	Survey []string `json:"survey,omitempty"`
	// Show is for OpObserve: the digests that files are designed with, by their keys.
	// The program tells the content of those that have another one, as far as
	// item.Show shows it.
	Show map[string]string `json:"show,omitempty"`
	// Hashes is for OpObserve: the keys of accounts of which Facet.Hashes tells.
	Hashes []string `json:"hashes,omitempty"`
	// Keys is for OpObserve: random keys for files whose content is a secret, by the keys of the
	// items. The program tells item.KeyedDigest of what is there. OpApply has them in the bodies.
	Keys map[string][]byte `json:"keys,omitempty"`
	// Wants is for OpObserve: what items ask for, as item.Needing has it. Facet.Cannot tells
	// which of these values the system cannot have yet.
	Wants map[string]string `json:"wants,omitempty"`
	// Health is for OpObserve: what is to be found out of the system's health; nil for
	// nothing.
	Health *item.Probes `json:"health,omitempty"`
	// Links is for OpObserve: what is to be found out of the system's network links; nil
	// for nothing.
	Links *item.LinkProbes `json:"links,omitempty"`
	// PCI asks for the model of the machine and its PCI devices, in OpObserve and OpApply;
	// nil for nothing.
	PCI *item.PCIProbe `json:"pci,omitempty"`
	// Machine asks what the machine is and which disks it has, in OpObserve. Only the agent in
	// memory tells it.
	Machine bool `json:"machine,omitempty"`
	// Apply is for OpApply.
	Apply *Apply `json:"apply,omitempty"`
	// Install is for OpInstall, and for OpErase without what is only for a new system: the image,
	// Boot and Apply.
	Install *Install `json:"install,omitempty"`
	// Echo is what Result.Echo repeats: a long one proves that packets of full size pass
	// both ways.
	Echo string `json:"echo,omitempty"`
	// Confirm is for OpConfirm: the name of the change that Result.Unconfirmed gave.
	Confirm string `json:"confirm,omitempty"`
}

// Apply makes the items of one facet so.
type Apply struct {
	Facet string      `json:"facet"`
	Items []item.Item `json:"items"`
	// Remove are keys of items that Slipway made and that left the design. Each is
	// removed, or what was there before is restored.
	Remove []string `json:"remove,omitempty"`
	// Owned is the digest of the list of what Slipway made, as the records have it.
	// With another list on the machine nothing is removed. It is empty before the
	// first run.
	Owned string `json:"owned,omitempty"`
	// Again has a change made that was set back before.
	Again bool `json:"again,omitempty"`
	// Targets are others on the networks of the machine. Those that answer before a change of
	// its network show afterwards that it is in the same networks still.
	Targets []item.Target `json:"targets,omitempty"`
	// Once is for what is done once in an installation.
	Once *item.Once `json:"once,omitempty"`
}

// Frame is one answer: exactly one of its fields is set, and the last frame has
// the result.
type Frame struct {
	Want     *Want     `json:"want,omitempty"`
	Progress *Progress `json:"progress,omitempty"`
	Result   *Result   `json:"result,omitempty"`
}

// Want asks the daemon for an artifact. The daemon writes a Blob, and behind it the
// bytes.
type Want struct {
	SHA256 string `json:"sha256"`
	// Room is how many bytes there is room for.
	Room int64 `json:"room"`
	// For is the file that it is for.
	For string `json:"for"`
}

// Blob is before the bytes of an artifact.
type Blob struct {
	Size int64 `json:"size"`
	// Refused says why no bytes follow; empty where they do.
	Refused string `json:"refused,omitempty"`
}

// Progress says what is being done, for people.
type Progress struct {
	Text string `json:"text"`
	Done int    `json:"done,omitempty"`
	Of   int    `json:"of,omitempty"`
	// Erased is what came of erasing one disk. It is told as soon as it is known.
	Erased *item.Erasure `json:"erased,omitempty"`
	// HostKeys are those of the system that is being installed, as in Installed. They are told as
	// soon as they are made: the system is known by them where its result is lost.
	HostKeys []string `json:"hostKeys,omitempty"`
}

// Result is what came of a request. What was seen is told with an error too.
type Result struct {
	// Facets are what was seen, by facet.
	Facets map[string]Facet `json:"facets,omitempty"`
	// Found is what a survey found: item.Found by facet. What Slipway made is not part of
	// it. Only who has asked for a survey decodes it.
	Found json.RawMessage `json:"found,omitempty"`
	// Health is what was found out of the health that was asked for: in Have each key
	// that was looked at, in Unread the others.
	Health *Facet `json:"health,omitempty"`
	// Links are what was asked of the system's links; LinksUnread says why that could not be
	// found out.
	Links       *item.LinksSeen `json:"links,omitempty"`
	LinksUnread string          `json:"linksUnread,omitempty"`
	// Owned is the digest of the list of what Slipway made on the machine.
	Owned string `json:"owned,omitempty"`
	// Term is the highest term that the system has seen.
	Term   uint64 `json:"term,omitempty"`
	System System `json:"system,omitzero"`
	// Machine is what the machine is, where it was asked for.
	Machine *Machine `json:"machine,omitempty"`
	// Installed is what came of OpInstall. Of OpErase it has what was erased and cleared.
	Installed *Installed `json:"installed,omitempty"`
	// Unconfirmed names a change of the network that is reverted unless it is
	// confirmed; Deadline is for how many seconds it waits.
	Unconfirmed string `json:"unconfirmed,omitempty"`
	Deadline    int    `json:"deadline,omitempty"`
	// CutShort says that the program that changed the network was ended in the middle: the
	// change is set back in so many seconds as Deadline says. It counts where nothing is busy.
	CutShort bool `json:"cutShort,omitempty"`
	// Busy says what works on the system meanwhile; a write would be refused.
	Busy string `json:"busy,omitempty"`
	// Echo is that of the request.
	Echo  string `json:"echo,omitempty"`
	Error *Error `json:"error,omitempty"`
}

// Facet is what was seen of one facet.
type Facet struct {
	// Have are the fields of the items under their flat names. What is not there
	// is left out, and so is what could not be read, which Unread tells of.
	Have map[string]string `json:"have,omitempty"`
	// Unread says of keys why they could not be read.
	Unread map[string]string `json:"unread,omitempty"`
	// Owned are the keys of the items that Slipway made.
	Owned []string `json:"owned,omitempty"`
	// Asked are the names of the fields that they were last asked for, by their keys.
	Asked map[string][]string `json:"asked,omitempty"`
	// Cannot says of keys why this system cannot have them: no such package. Of fields
	// under their flat names it says so for any value ("time.servers"), and of one value
	// under the name that item.Valued gives it; the rest of the item is applied.
	Cannot map[string]string `json:"cannot,omitempty"`
	// Waits says what must happen before all of it has its effect, such as
	// "reboot"; empty for nothing.
	Waits string `json:"waits,omitempty"`
	// Upgrades are those that the system lacks; nil where nobody looked.
	Upgrades *item.Upgrades `json:"upgrades,omitempty"`
	// Pending are fields that have their values after the next boot.
	Pending map[string]string `json:"pending,omitempty"`
	// Contents are those of the files that the request asked to show, by key.
	Contents map[string]item.Content `json:"contents,omitempty"`
	// Hashes tell the passwords of accounts that the request asked for, by key, as far
	// as they are set. The daemon compares them and keeps none.
	Hashes map[string]item.Hash `json:"hashes,omitempty"`
}

// System is what the program found itself in.
type System struct {
	Family  string `json:"family"`  // "debian", "rhel", or what os-release(5) says
	ID      string `json:"id"`      // of os-release(5)
	Release string `json:"release"` // VERSION_ID of os-release(5)
	Kernel  string `json:"kernel"`
	// Network is what manages the network: "networkd", "netplan",
	// "networkmanager", "ifupdown", or empty.
	Network string `json:"network,omitempty"`
	BootID  string `json:"bootID,omitempty"`
	// Model is that of the machine as its firmware tells it, and PCI its devices; both are
	// told where they were asked for.
	Model string    `json:"model,omitempty"`
	PCI   *item.PCI `json:"pci,omitempty"`
}

// Error is why a request was not done.
type Error struct {
	// Class is one of the classes below.
	Class string `json:"class"`
	Text  string `json:"text"`
}

// The classes of errors.
const (
	// Refused: a person must decide: an older term, a list that disagrees, a
	// design that this system cannot have.
	Refused = "refused"
	// Busy: something else holds a lock. Tried again later.
	Busy = "busy"
	// Failed: it was tried, and the system did not do it. Planned again.
	Failed = "failed"
	// Reverted: the network was set back, because the machine could not be reached.
	Reverted = "reverted"
)

func (e *Error) Error() string { return e.Text }

// Write writes one frame.
func Write(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(text) > MaxFrame {
		return fmt.Errorf("a frame of %d bytes is larger than the limit of %d", len(text), MaxFrame)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// Read reads one frame.
func Read(r io.Reader, v any) error { return ReadAtMost(r, v, MaxFrame) }

// ReadAtMost reads one frame of at most some bytes: of somebody who is not known yet.
func ReadAtMost(r io.Reader, v any, most uint32) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > most {
		return fmt.Errorf("a frame of %d bytes is larger than the limit of %d", size, most)
	}
	text := make([]byte, 0, min(size, 1<<20))
	for uint32(len(text)) < size { // memory grows with what really comes
		part := make([]byte, min(size-uint32(len(text)), 1<<20))
		if _, err := io.ReadFull(r, part); err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		text = append(text, part...)
	}
	return json.Unmarshal(text, v)
}
