package netboot

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Firmware is a kind of firmware, which decides what the machine can start.
type Firmware string

// The kinds of firmware.
const (
	BIOS      Firmware = "bios"       // a network boot program
	IPXE      Firmware = "ipxe"       // the file that iPXE starts, even under a BIOS
	UEFIAMD64 Firmware = "uefi-amd64" // an EFI application
	UEFIARM64 Firmware = "uefi-arm64"
)

// Boot says what a machine boots over the network, once.
type Boot struct {
	Node string
	// ID identifies one boot of the node. Arming the same ID again changes nothing. Empty for none.
	ID string
	// MACs are the addresses that the machine's firmware may use.
	MACs []string
	// UUID is the machine's SMBIOS UUID in lower case; empty if unknown. Firmware that reports another UUID gets no
	// answer.
	UUID string
	// Files are the files to boot, as paths on this host.
	Files map[Firmware]string
	// Words are the answer for the booted agent when it asks where its daemon is. They contain no secret; empty for
	// none.
	Words string
	// URL replaces the file in HTTP boot; empty for none.
	URL string
	// Until is the deadline; zero for none.
	Until time.Time
}

// rereadFor is how long a machine that has read a whole file may read it again. Firmware sometimes restarts a
// transfer.
const rereadFor = 2 * time.Minute

// arms are the machines that boot over the network.
type arms struct {
	mu      sync.Mutex
	byNode  map[string]*armed
	byMAC   map[string]*armed
	byToken map[string]*armed
}

// armed is a machine with its boot.
type armed struct {
	Boot
	token string
	mu    sync.Mutex
	// read is when a client finished reading a whole file; zero before.
	read time.Time
	by   netip.Addr
	// sent counts the bytes of each file that each HTTP client received.
	sent map[sending]int64
	// odd is the last refusal: somebody else asked for this boot.
	odd string
}

type sending struct {
	client netip.Addr
	file   string
}

func newArms() *arms {
	return &arms{byNode: map[string]*armed{}, byMAC: map[string]*armed{}, byToken: map[string]*armed{}}
}

var macAddress = regexp.MustCompile(`^[0-9a-f]{2}(:[0-9a-f]{2}){5}$`)

// arm checks a boot and replaces the node's last one.
func (a *arms) arm(b Boot) error {
	if b.Node == "" || len(b.MACs) == 0 {
		return errors.New("arm a node for network boot: it needs a name and a MAC address")
	}
	if len(b.Files) == 0 && b.URL == "" {
		return fmt.Errorf("arm %s for network boot: there is neither a file nor a URL", b.Node)
	}
	if u, err := url.Parse(b.URL); b.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || len(b.URL) > 255) {
		return fmt.Errorf("arm %s for network boot: %q is not an http or https URL of at most 255 letters", b.Node, b.URL)
	}
	for _, kind := range slices.Sorted(maps.Keys(b.Files)) {
		if info, err := os.Stat(b.Files[kind]); err != nil {
			return fmt.Errorf("arm %s for network boot: %w", b.Node, err)
		} else if !info.Mode().IsRegular() {
			return fmt.Errorf("arm %s for network boot: %s is not a file", b.Node, b.Files[kind])
		}
	}
	if len(b.Words) > maxWords {
		return fmt.Errorf("arm %s for network boot: what its agent is told has %d bytes, and %d fit into an answer", b.Node, len(b.Words), maxWords)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if is := a.byNode[b.Node]; is != nil && b.ID != "" && is.ID == b.ID {
		return errArmed
	}
	for _, mac := range b.MACs {
		if !macAddress.MatchString(mac) {
			return fmt.Errorf("arm %s for network boot: %q is not a MAC address in lower case", b.Node, mac)
		}
		if other := a.byMAC[mac]; other != nil && other.Node != b.Node {
			return fmt.Errorf("arm %s for network boot: %s is armed by the same MAC address %s", b.Node, other.Node, mac)
		}
	}
	a.disarmLocked(b.Node)
	it := &armed{Boot: b, token: strings.ToLower(rand.Text()), sent: map[sending]int64{}}
	a.byNode[b.Node], a.byToken[it.token] = it, it
	for _, mac := range b.MACs {
		a.byMAC[mac] = it
	}
	return nil
}

// errArmed reports that a node is already armed with the same boot.
var errArmed = errors.New("armed already")

// maxWords bounds Boot.Words, so that they fit into one packet with the other options.
const maxWords = 512

func (a *arms) disarm(node string) (was bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.disarmLocked(node)
}

func (a *arms) disarmLocked(node string) (was bool) {
	it := a.byNode[node]
	if it == nil {
		return false
	}
	delete(a.byNode, node)
	delete(a.byToken, it.token)
	for _, mac := range it.MACs {
		delete(a.byMAC, mac)
	}
	return true
}

// of is the boot of a client; nil for a machine that boots from its disk: it is not armed, is another machine, or
// has read its file.
func (a *arms) of(id identity, now time.Time) *armed {
	it := a.meant(id, now)
	if it == nil || !it.isUnread() {
		return nil
	}
	return it
}

// meant is a client's armed machine, even after it has read its file.
func (a *arms) meant(id identity, now time.Time) *armed {
	it := a.find(id)
	if it == nil || it.late(now) {
		return nil
	}
	if it.UUID != "" && id.uuid != "" && it.UUID != id.uuid && it.UUID != site.TurnedRound(id.uuid) {
		it.refused(fmt.Sprintf("a machine with its MAC address %s and another UUID, %s, asked what to boot, and got no answer", id.mac, id.uuid))
		return nil
	}
	return it
}

// find finds an armed machine by the MAC address of a client, or by the UUID of one whose MAC address is unknown.
func (a *arms) find(id identity) *armed {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id.mac != "" {
		return a.byMAC[id.mac]
	}
	for _, it := range a.byNode {
		if id.uuid != "" && (it.UUID == id.uuid || it.UUID == site.TurnedRound(id.uuid)) {
			return it
		}
	}
	return nil
}

// refused records a request from somebody else.
func (b *armed) refused(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.odd = what
}

// odd is the last refusal for a node's boot; empty for none.
func (a *arms) odd(node string) string {
	it := a.ofNode(node)
	if it == nil {
		return ""
	}
	it.mu.Lock()
	defer it.mu.Unlock()
	return it.odd
}

// ofNode is a node's boot; nil if none is armed.
func (a *arms) ofNode(node string) *armed {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byNode[node]
}

func (b *armed) late(now time.Time) bool { return !b.Until.IsZero() && now.After(b.Until) }

// nodes maps the armed nodes that have not read their file yet to their MAC addresses.
func (a *arms) nodes(now time.Time) map[string][]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[string][]string{}
	for name, it := range a.byNode {
		if it.isUnread() && !it.late(now) {
			all[name] = it.MACs
		}
	}
	return all
}

// isUnread reports whether nobody has read the boot file yet.
func (b *armed) isUnread() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.read.IsZero()
}

// names are the file names in URLs and TFTP paths.
var names = map[Firmware]string{BIOS: "boot.0", IPXE: "boot.ipxe", UEFIAMD64: "bootx64.efi", UEFIARM64: "bootaa64.efi"}

// path is the path of a file for TFTP and, after a slash, for HTTP; empty if the machine has no file of this kind.
func (b *armed) path(kind Firmware) string {
	if b.Files[kind] == "" {
		return ""
	}
	return b.token + "/" + names[kind]
}

// errNoFile is the error for everything that a client may not read.
var errNoFile = errors.New("no such file")

// open finds the file of a requested path. Firmware is careless about slashes.
func (a *arms) open(asked string, client netip.Addr, now time.Time) (*armed, *os.File, error) {
	token, name, _ := strings.Cut(strings.TrimPrefix(path.Clean("/"+asked), "/"), "/")
	it := a.ofToken(token)
	if it == nil || it.late(now) {
		return nil, nil, errNoFile
	}
	if over, by := it.isOver(client, now); over {
		if by != client {
			it.refused(fmt.Sprintf("%s asked for its boot file after %s had read it, and got nothing", client, by))
		}
		return nil, nil, errNoFile
	}
	for kind, file := range it.Files {
		if names[kind] == name {
			f, err := os.Open(file)
			return it, f, err
		}
	}
	return nil, nil, errNoFile
}

// ofToken is the boot with a token; nil for none.
func (a *arms) ofToken(token string) *armed {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byToken[token]
}

// isOver reports whether a client may no longer read the boot file, and which client has read it.
func (b *armed) isOver(client netip.Addr, now time.Time) (over bool, by netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.read.IsZero() && (b.by != client || now.Sub(b.read) > rereadFor), b.by
}

// done records that a client has read a whole file.
func (b *armed) done(client netip.Addr, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.read.IsZero() {
		b.read, b.by = now, client
	}
}

// sentTo records what a client received of a file in one answer. Receiving all bytes, in one answer or in ranges,
// counts as reading the whole file.
func (b *armed) sentTo(client netip.Addr, file string, n, size int64, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := sending{client, file}
	if _, known := b.sent[key]; !known && len(b.sent) >= 64 {
		return
	}
	if b.sent[key] += n; b.sent[key] >= size && b.read.IsZero() {
		b.read, b.by = now, client
	}
}

// kindOf is the kind of firmware for a value of option 93 (RFC 4578, section 2.1, and IANA's registry of processor
// architectures); empty for others.
func kindOf(arch uint16) Firmware {
	switch arch {
	case 0, 20:
		return BIOS
	case 7, 9, 16, 17:
		return UEFIAMD64
	case 11, 19:
		return UEFIARM64
	}
	return ""
}
