package driver

import (
	"io"
	"net/netip"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Agents accepts the calls of Slipway's agents from the memory of machines. All methods return at
// once. The engine decides whose agent is expected.
type Agents interface {
	// Serving returns nil while agents can call, or says why they cannot.
	Serving() error
	// Medium returns the SHA-256 of the medium that starts the agent, which is its key in the
	// artifact store.
	Medium() string
	// Changes delivers a value when an agent has connected or was lost.
	Changes() <-chan struct{}
	// Expect expects the agent of a new boot, in place of any other agent of the node. It returns
	// the SHA-256 of the boot's token, in hex. Only the medium has the token itself.
	Expect(b Boot) (token string, err error)
	// Recall expects the agent of an earlier boot again, by the recorded digests of its token and
	// of the key that has used it, which may be empty. It does nothing if this boot is expected
	// already.
	Recall(b Boot, token, key string)
	// Words writes the words of a boot onto the medium while it is served. It is nil if this
	// process does not know the token.
	Words(node string) Words
	// Directions returns the words by which an agent that was started over the network finds this
	// daemon. They contain no secret.
	Directions(b Boot) (string, error)
	// Refused says why the last agent that called for the boot of a node was refused; empty if none
	// was.
	Refused(node string) string
	// Forget stops expecting the node's agent and closes its connection.
	Forget(node string)
	// Agent returns the connected agent of a node; nil for none.
	Agent(node string) Agent
	// Hear sets a function that receives what agents say, as printable single lines: what they do,
	// why they fail, and that one has connected or was lost. The function returns at once.
	Hear(hear func(node, text string))
}

// Words are what a medium of the ramdisk says for one boot.
type Words interface {
	// On returns the medium, of the given size, with the words on it.
	On(medium io.ReaderAt, size int64) (io.ReadSeeker, error)
}

// Agent is a Machine that has called from memory.
type Agent interface {
	Machine
	Installer
	// Host returns the agent's address as the daemon sees it.
	Host() string
	// Key returns the SHA-256 of the key that the agent has called with, in hex.
	Key() string
	// Disks returns the machine's disks as of the last look.
	Disks() []item.Disk
	// Inventory returns what the machine is made of as of the last look; nil before the first.
	Inventory() *site.Inventory
}

// Boot is one boot of a machine into the ramdisk, after which its agent may call.
type Boot struct {
	Node string
	// Machine is the node's machine as designed or seen. It has at least one of the UUID, the
	// serial number and the MAC address.
	Machine site.Identity
	// MACs are the designed addresses of its ports, in lower case. The machine must have one of
	// them, unless MACs is empty.
	MACs []string
	// Until is when an unused token expires; zero means never.
	Until time.Time
	// Daemon is the address of this host as the machine reaches it; empty if unknown.
	Daemon string
	// Address is the machine's address while the agent runs; the zero value means DHCP.
	Address site.BootAddress
	// From are the networks that the machine boots over, whose agent calls without a token. It is
	// empty for a boot from a medium, which has a token.
	From []netip.Prefix
}

// Installer is a Machine whose Apply can install a system onto the disks.
type Installer interface {
	// Prepare sets what the next installation consists of. It sends nothing.
	Prepare(Installation)
	// Installed returns what the last successful installation reported.
	Installed() Installed
}

// Installation is what an agent needs besides the step and the node.
type Installation struct {
	// Layout is what the disks become.
	Layout item.Layout
	// Medium is the SHA-256 of the ramdisk's medium that the agent belongs to.
	Medium string
	// SHA256 is the digest of the served file: the image or, for a whole disk, its frames. Bytes is
	// the file's size and URL its address on the daemon. CA is the SHA-256 of the certificate that
	// an https server presents, "sha256:" and hex digits.
	SHA256 string
	Bytes  int64
	URL    string
	CA     string
	// Marker is the content of /etc/slipway/marker.json.
	Marker string
	// Facets are the facets to configure in the new system.
	Facets []site.Facet
	// Limit is how long the installation may take.
	Limit time.Duration
	// Erased are the disks, by item.Erasure.ID, that an earlier try of this installation has erased
	// as Layout.Erase asks.
	Erased []string
	// Passphrase opens the encrypted volumes of Layout; zero if there are none.
	Passphrase secret.Value
	// Derived is what Passphrase was derived from.
	Derived item.DerivedFrom
}

// Installed is a system that an agent has read back from the disks.
type Installed struct {
	// HostKeys are the public keys of its SSH server, in authorized_keys form.
	HostKeys []string
	// Already means that an earlier try had finished the system.
	Already bool
	// BootUnknown says why nobody knows which entries of the firmware's boot manager start the
	// system; empty if they are known.
	BootUnknown string
}
