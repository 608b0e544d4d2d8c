package driver

import (
	"io"
	"net/netip"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Agents listen to Slipway's agents, which call from the memory of machines. All methods
// return at once. The engine is the one that says whose agent is expected.
type Agents interface {
	// Serving is nil while agents can call, or says why they cannot.
	Serving() error
	// Medium is the SHA-256 of the medium that starts the agent, by which the artifacts have
	// it.
	Medium() string
	// Changes gives a value when an agent has connected, or one is lost.
	Changes() <-chan struct{}
	// Expect expects the agent of a new boot, instead of any other one of the node. It gives
	// the SHA-256 of the token of the boot, in hex: the token itself is on the medium alone.
	Expect(b Boot) (token string, err error)
	// Recall expects the agent of a boot again, by the digests that are recorded of its
	// token and of the key that has used it; empty for none. It does nothing where this
	// boot is expected already.
	Recall(b Boot, token, key string)
	// Words put the words of a boot onto the medium as it is served; nil where this process
	// does not know its token.
	Words(node string) Words
	// Directions are the words by which an agent that was started over the network finds this
	// daemon. There is no secret in them.
	Directions(b Boot) (string, error)
	// Refused says why the last agent was refused that called for the boot of a node; empty for
	// none.
	Refused(node string) string
	// Forget expects the node's agent no more, and ends its connection.
	Forget(node string)
	// Agent is the agent of a node that is connected; nil for none.
	Agent(node string) Agent
	// Hear has what agents say told to a function, printable and in one line each: what they
	// do, why they fail, and that one has connected or is lost. The function returns at once.
	Hear(hear func(node, text string))
}

// Words are what a medium of the ramdisk says for one boot.
type Words interface {
	// On is the medium with them, of which as many bytes are given.
	On(medium io.ReaderAt, size int64) (io.ReadSeeker, error)
}

// Agent is a Machine that has called from memory.
type Agent interface {
	Machine
	Installer
	// Host is its address as the daemon sees it.
	Host() string
	// Key is the SHA-256 of the key that it has called with, in hex.
	Key() string
	// Disks are those of the machine, as it has told them in the last look.
	Disks() []item.Disk
	// Inventory is what the machine is made of, as the agent has told it in the last look; nil
	// before one.
	Inventory() *site.Inventory
}

// Boot is one boot of a machine into the ramdisk, after which its agent may call.
type Boot struct {
	Node string
	// Machine is the node's machine as it is designed or was seen. At least one of the UUID,
	// the serial number and the MAC address must be there.
	Machine site.Identity
	// MACs are the designed addresses of its ports, in lower case; the machine must have one of
	// them. Empty for none.
	MACs []string
	// Until is when a token that was not used ends; zero for never.
	Until time.Time
	// Daemon is the address of this host towards the machine; empty where it is not known.
	Daemon string
	// Address is the machine's own while the agent runs; not valid where DHCP gives it.
	Address site.BootAddress
	// From are the networks that the machine is started over, from which its agent calls without
	// a token; none where it is started from a medium, which has one.
	From []netip.Prefix
}

// Installer is a Machine on which Apply of an installation puts a system onto the disks.
type Installer interface {
	// Prepare says what the next installation is made of. It sends nothing.
	Prepare(Installation)
	// Installed is what the last installation that succeeded has told.
	Installed() Installed
}

// Installation is what an agent needs beside the step and the node.
type Installation struct {
	// Layout is what the disks become.
	Layout item.Layout
	// Medium is the SHA-256 of the medium of the ramdisk that the agent belongs to.
	Medium string
	// SHA256 is the digest of the file that is served, which is the image, or of one of a whole
	// disk its frames; Bytes is its size, URL where the daemon serves it, and CA the SHA-256 of
	// a certificate that an https server shows, "sha256:" and hex digits.
	SHA256 string
	Bytes  int64
	URL    string
	CA     string
	// Marker is the content of /etc/slipway/marker.json.
	Marker string
	// Facets are those that are configured in the new system.
	Facets []site.Facet
	// Limit is how long it may take.
	Limit time.Duration
	// Erased are the disks, by item.Erasure.ID, that an earlier try of this installation has
	// erased as Layout.Erase asks.
	Erased []string
}

// Installed is a system that an agent has read back from the disks.
type Installed struct {
	// HostKeys are the public halves of the keys of its SSH server, in authorized_keys form.
	HostKeys []string
	// Already says that an earlier try had finished it.
	Already bool
	// BootUnknown says why nobody knows which entries of the firmware's boot manager start it;
	// empty where that is known.
	BootUnknown string
}
