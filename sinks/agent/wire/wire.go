// Package wire is the protocol between the daemon and the programs inside machines: one request, then progress
// frames, then one result. A frame is its length in four big-endian bytes, followed by JSON of that length.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Version is the version of the protocol. Both ends are built from the same commit and refuse another version.
const Version = 2

// Answers is the line after which the program inside a system reads a request and answers with frames.
const Answers = "--helper\n"

// These words occur in the report on the system before that line.
const (
	// Unread replaces a marker that exists but cannot be read.
	Unread = "unread"
	// AllUnits ends the list of failed units, which is empty on most systems.
	AllUnits = "--all"
)

// MaxFrame bounds one frame, in bytes.
const MaxFrame = 64 << 20

// Op is the operation of a request.
type Op string

// These are the operations.
const (
	// OpObserve looks and changes nothing.
	OpObserve Op = "observe"
	// OpApply makes the items of one facet match the request. It returns once they were seen to match.
	OpApply Op = "apply"
	// OpSurvey lists what exists that a design could ask for, whoever made it, and changes nothing.
	OpSurvey Op = "survey"
	// OpConfirm confirms a change of the network that waits for the proof that the machine is reachable.
	OpConfirm Op = "confirm"
	// OpInstall puts a system onto the machine's disks. Only the agent in the ramdisk does this. A repeated request
	// starts from the beginning, unless the requested system is already installed.
	OpInstall Op = "install"
	// OpErase erases the machine's disks as Install.Layout says, and installs nothing. Only the agent in the
	// ramdisk does this. A repeated request continues with the disks that are not erased yet.
	OpErase Op = "erase"
)

// Request is the request to the program.
type Request struct {
	Version int    `json:"version"`
	Op      Op     `json:"op"`
	Site    string `json:"site"`
	Node    string `json:"node"`
	// Term is the daemon's term. The program refuses a write with a term below the highest that the system has
	// seen.
	Term uint64 `json:"term"`
	// Key is the public key of the endpoint's credential, as in authorized_keys(5); empty where that is a password
	// or a certificate.
	Key string `json:"key,omitempty"`
	// Password says that the credential is the account's password.
	Password bool `json:"password,omitempty"`
	// Authority is the public key of the site's authority whose certificate logged in to this session; empty where
	// the credential did.
	Authority string `json:"authority,omitempty"`
	// Observe is for OpObserve: the keys of the items that the design asks for, by
	// facet. The program tells of them and of all that it owns in these facets.
	Observe map[string][]string `json:"observe,omitempty"`
	// Survey is for OpSurvey: the facets to list.
	Survey []string `json:"survey,omitempty"`
	// Show is for OpObserve: the designed digests of files, by their keys. The program returns the contents that
	// differ, if item.Show allows it.
	Show map[string]string `json:"show,omitempty"`
	// Hashes is for OpObserve: the keys of accounts to report in Facet.Hashes.
	Hashes []string `json:"hashes,omitempty"`
	// Keys is for OpObserve: random keys for files whose content is a secret, by item key. The program returns
	// item.KeyedDigest of the current content. In OpApply the bodies have these keys.
	Keys map[string][]byte `json:"keys,omitempty"`
	// Wants is for OpObserve: the wanted values of items, as in item.Needing. Facet.Cannot says which of them the
	// system cannot have yet.
	Wants map[string]string `json:"wants,omitempty"`
	// Health is for OpObserve: the health probes to run; nil for none.
	Health *item.Probes `json:"health,omitempty"`
	// Links is for OpObserve: the probes of the system's network links; nil for none.
	Links *item.LinkProbes `json:"links,omitempty"`
	// PCI requests the machine's model and PCI devices, in OpObserve and OpApply; nil for none.
	PCI *item.PCIProbe `json:"pci,omitempty"`
	// Machine requests the machine's identity and disks, in OpObserve. Only the agent in the ramdisk reports these.
	Machine bool `json:"machine,omitempty"`
	// Apply is for OpApply.
	Apply *Apply `json:"apply,omitempty"`
	// Install is for OpInstall. It is also for OpErase, without the parts for a new system: the image, Boot and
	// Apply.
	Install *Install `json:"install,omitempty"`
	// Echo is repeated in Result.Echo. A long text proves that packets of full size pass both ways.
	Echo string `json:"echo,omitempty"`
	// Confirm is for OpConfirm: the name of the change that Result.Unconfirmed gave.
	Confirm string `json:"confirm,omitempty"`
}

// Apply makes the items of one facet match the request.
type Apply struct {
	Facet string      `json:"facet"`
	Items []item.Item `json:"items"`
	// Remove lists the keys of items that Slipway made and that left the design. Each is removed, or its earlier
	// state is restored.
	Remove []string `json:"remove,omitempty"`
	// Owned is the digest of the list of what Slipway made, from the records. If the machine's list differs,
	// nothing is removed. It is empty before the first run.
	Owned string `json:"owned,omitempty"`
	// Again repeats a change that was reverted before.
	Again bool `json:"again,omitempty"`
	// Targets are peers on the machine's networks. If a peer answers before a change of the network, an answer
	// after it shows that the machine is still in the same network.
	Targets []item.Target `json:"targets,omitempty"`
	// Once is for actions that are done once per installation.
	Once *item.Once `json:"once,omitempty"`
}

// Frame is one answer. Exactly one of its fields is set, and the last frame has the result.
type Frame struct {
	Want     *Want     `json:"want,omitempty"`
	Progress *Progress `json:"progress,omitempty"`
	Result   *Result   `json:"result,omitempty"`
}

// Want requests an artifact from the daemon, or a certificate. The daemon writes a Blob, followed by the bytes.
type Want struct {
	SHA256 string `json:"sha256"`
	// Room is the free space in bytes.
	Room int64 `json:"room"`
	// For is the file that needs the artifact, or the key of the certificate's item.
	For string `json:"for"`
	// Sign is what to sign, nil for an artifact.
	Sign *Sign `json:"sign,omitempty"`
}

// Sign asks for a certificate.
type Sign struct {
	// Request is a signing request (PKCS #10, DER), Clock what the system's clock shows.
	Request []byte    `json:"request"`
	Clock   time.Time `json:"clock"`
}

// Blob precedes the bytes of an artifact.
type Blob struct {
	Size int64 `json:"size"`
	// Refused says why no bytes follow; empty if they do.
	Refused string `json:"refused,omitempty"`
}

// Progress says what the program is doing, for people.
type Progress struct {
	Text string `json:"text"`
	Done int    `json:"done,omitempty"`
	Of   int    `json:"of,omitempty"`
	// Erased is the result of erasing one disk. It is sent as soon as it is known.
	Erased *item.Erasure `json:"erased,omitempty"`
	// HostKeys are those of the system that is being installed, as in Installed. They are sent as soon as they are
	// made, because they identify the system if its result is lost.
	HostKeys []string `json:"hostKeys,omitempty"`
}

// Result is the result of a request. With an error it still contains what was seen.
type Result struct {
	// Facets are the observed facets.
	Facets map[string]Facet `json:"facets,omitempty"`
	// Found is the result of a survey: item.Found by facet, without what Slipway made. Only a caller that requested
	// a survey decodes it.
	Found json.RawMessage `json:"found,omitempty"`
	// Health is the result of the health probes: Have has each key that was probed, Unread the others.
	Health *Facet `json:"health,omitempty"`
	// Links is the result of the link probes. LinksUnread says why there is none.
	Links       *item.LinksSeen `json:"links,omitempty"`
	LinksUnread string          `json:"linksUnread,omitempty"`
	// Owned is the digest of the list of what Slipway made on the machine.
	Owned string `json:"owned,omitempty"`
	// Term is the highest term that the system has seen.
	Term   uint64 `json:"term,omitempty"`
	System System `json:"system,omitzero"`
	// Machine describes the machine, if requested.
	Machine *Machine `json:"machine,omitempty"`
	// Installed is the result of OpInstall. For OpErase it has what was erased and cleared.
	Installed *Installed `json:"installed,omitempty"`
	// Unconfirmed names a change of the network that is reverted unless it is confirmed. Deadline is how many
	// seconds it waits.
	Unconfirmed string `json:"unconfirmed,omitempty"`
	Deadline    int    `json:"deadline,omitempty"`
	// CutShort says that the program that changed the network was interrupted. The change is reverted in Deadline
	// seconds. This counts only if Busy is empty.
	CutShort bool `json:"cutShort,omitempty"`
	// Busy says what else works on the system. A write would be refused.
	Busy string `json:"busy,omitempty"`
	// Echo repeats the request's Echo.
	Echo  string `json:"echo,omitempty"`
	Error *Error `json:"error,omitempty"`
}

// Facet is the observed state of one facet.
type Facet struct {
	// Have holds the fields of the items under their flat names. It leaves out what does not exist, and what could
	// not be read, which is in Unread.
	Have map[string]string `json:"have,omitempty"`
	// Unread says why keys could not be read.
	Unread map[string]string `json:"unread,omitempty"`
	// Owned are the keys of the items that Slipway made.
	Owned []string `json:"owned,omitempty"`
	// Asked are the names of the fields that were last requested, by key.
	Asked map[string][]string `json:"asked,omitempty"`
	// Cannot says why this system cannot have some keys, such as a missing package. A field under its flat name
	// ("time.servers") means any value. One value is under the name from item.Valued. The rest of the item is
	// applied.
	Cannot map[string]string `json:"cannot,omitempty"`
	// Waits says what must happen before everything takes effect, such as "reboot"; empty for nothing.
	Waits string `json:"waits,omitempty"`
	// Upgrades are those that the system lacks; nil if nobody looked.
	Upgrades *item.Upgrades `json:"upgrades,omitempty"`
	// Pending holds fields that take these values at the next boot.
	Pending map[string]string `json:"pending,omitempty"`
	// Contents are the contents of files that the request asked to show, by key.
	Contents map[string]item.Content `json:"contents,omitempty"`
	// Hashes describe the passwords of the requested accounts, by key, if they are set. The daemon compares them
	// and keeps none.
	Hashes map[string]item.Hash `json:"hashes,omitempty"`
}

// System is the system in which the program runs.
type System struct {
	Family  string `json:"family"`  // "debian", "rhel", or what os-release(5) says
	ID      string `json:"id"`      // of os-release(5)
	Release string `json:"release"` // VERSION_ID of os-release(5)
	Kernel  string `json:"kernel"`
	// Network is the network manager: "networkd", "netplan", "networkmanager", "ifupdown", or empty.
	Network string `json:"network,omitempty"`
	BootID  string `json:"bootID,omitempty"`
	// Model is the machine's model from its firmware. PCI lists its devices. Both are reported only if requested.
	Model string    `json:"model,omitempty"`
	PCI   *item.PCI `json:"pci,omitempty"`
}

// Error says why a request was not done.
type Error struct {
	// Class is one of the classes below.
	Class string `json:"class"`
	Text  string `json:"text"`
}

// The classes of errors.
const (
	// Refused: a person must decide, for example about an older term, a list that disagrees, or a design that this
	// system cannot have.
	Refused = "refused"
	// Busy: something else holds a lock. The daemon tries again later.
	Busy = "busy"
	// Failed: the system did not do it. The daemon plans again.
	Failed = "failed"
	// Reverted: the network was reverted because the machine could not be reached.
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

// ReadAtMost reads one frame with a size limit, for a peer that is not known yet.
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
	for uint32(len(text)) < size { // memory grows only with received data
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
