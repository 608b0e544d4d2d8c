package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Config is a fleet to start.
type Config struct {
	Seed string `json:"seed"`
	// Ports of all BMCs, of all systems' SSH, and of the image server; 0 lets
	// the kernel choose.
	BMCPort   int `json:"bmcPort,omitempty"`
	SSHPort   int `json:"sshPort,omitempty"`
	ImagePort int `json:"imagePort,omitempty"`
	// ImageAddr is the image server's loopback address, 127.0.0.1 by default.
	ImageAddr string  `json:"imageAddr,omitempty"`
	Latency   Latency `json:"latency,omitzero"`
	// Speed divides every latency and duration of the machines' lives; 0 means
	// 1. What a BMC itself counts, such as the age of a session, stays.
	Speed    float64         `json:"speed,omitempty"`
	Machines []MachineConfig `json:"machines"`
	Images   []ImageConfig   `json:"images,omitempty"`
	// LaxMedia has BMCs take any URL of an image, and find out at boot that it
	// leads nowhere. Without it they read of the image first, as most real ones do.
	LaxMedia bool `json:"laxMedia,omitempty"`
	// OwnNetwork lets machines and the image server have any address: the process is in a network
	// namespace of its own, which traffic does not leave. Without it all addresses are loopback ones.
	OwnNetwork bool `json:"-"`
	// Folder holds a folder with the drives of each real machine. Without it they are removed
	// at the end.
	Folder string `json:"folder,omitempty"`
}

// Latency is how long things take at speed 1. Zero takes no time. In JSON
// each is a text such as "30s".
type Latency struct {
	GET   time.Duration // until a read is answered
	Write time.Duration // until any other request is
	// PowerOn is from an accepted On to PowerState On, PowerOff from a
	// shutdown or the end of an installer to PowerState Off.
	PowerOn  time.Duration
	PowerOff time.Duration
	Boot     time.Duration // from PowerState On to the system answering
	Install  time.Duration // from the fetched image to the written disk
	// Jitter lets each duration be longer or shorter by up to this share of
	// it, 0 to 1, as the seed decides.
	Jitter float64
	// Tails has the answers of each vendor's BMCs vary as theirs do: most take
	// about GET and Write, a few many times as long, and pages of logs always.
	Tails bool
}

// latencyText is a Latency as JSON has it.
type latencyText struct {
	GET      site.Duration `json:"get,omitempty"`
	Write    site.Duration `json:"write,omitempty"`
	PowerOn  site.Duration `json:"powerOn,omitempty"`
	PowerOff site.Duration `json:"powerOff,omitempty"`
	Boot     site.Duration `json:"boot,omitempty"`
	Install  site.Duration `json:"install,omitempty"`
	Jitter   float64       `json:"jitter,omitempty"`
	Tails    bool          `json:"tails,omitempty"`
}

// MarshalJSON writes the durations as text.
func (l Latency) MarshalJSON() ([]byte, error) {
	return json.Marshal(latencyText{site.Duration(l.GET), site.Duration(l.Write), site.Duration(l.PowerOn),
		site.Duration(l.PowerOff), site.Duration(l.Boot), site.Duration(l.Install), l.Jitter, l.Tails})
}

// UnmarshalJSON reads the durations as text, over those that are set.
func (l *Latency) UnmarshalJSON(text []byte) error {
	t := latencyText{site.Duration(l.GET), site.Duration(l.Write), site.Duration(l.PowerOn),
		site.Duration(l.PowerOff), site.Duration(l.Boot), site.Duration(l.Install), l.Jitter, l.Tails}
	if err := strictly(bytes.NewReader(text), &t); err != nil {
		return err
	}
	*l = Latency{time.Duration(t.GET), time.Duration(t.Write), time.Duration(t.PowerOn),
		time.Duration(t.PowerOff), time.Duration(t.Boot), time.Duration(t.Install), t.Jitter, t.Tails}
	return nil
}

// Usual are the latencies of common rack servers, boots included.
var Usual = Latency{
	GET: 200 * time.Millisecond, Write: 500 * time.Millisecond,
	PowerOn: 30 * time.Second, PowerOff: 20 * time.Second, Boot: 90 * time.Second, Install: 5 * time.Minute,
}

// MachineConfig is one machine as it stands in the rack.
type MachineConfig struct {
	Name string `json:"name"`
	// Personality is the kind of its BMC, one of Personalities; plain without.
	Personality string `json:"personality,omitempty"`
	// SystemID is what a plain BMC calls its system, 1 without, and which system of
	// a capture the machine is, the first that can be reset without.
	SystemID string `json:"systemID,omitempty"`
	BMCAddr  string `json:"bmcAddr,omitempty"` // 127.x.y.z
	// Behind names the machine whose BMC this one is behind too, as a node of
	// an enclosure with one BMC; it has no BMCAddr then. All machines of an
	// enclosure are plain or of one capture, and each has a SystemID.
	Behind string `json:"behind,omitempty"`
	OSAddr string `json:"osAddr,omitempty"`
	// Inside is what is set in the system that the machine has from the start: the
	// fields of items by facet and key.
	Inside   map[string]map[string]map[string]string `json:"inside,omitempty"`
	Identity site.Identity                           `json:"identity"`
	Username string                                  `json:"username"`
	Password string                                  `json:"password"`
	// Baseboard has the BMC list the baseboard of accelerators as a system, before
	// the machine's own.
	Baseboard bool `json:"baseboard,omitempty"`
	// BasicOnly is a BMC without sessions.
	BasicOnly bool `json:"basicOnly,omitempty"`
	// Closes is how the BMC ends each connection after one answer: one of
	// Closings; empty for one that keeps it open.
	Closes string `json:"closes,omitempty"`
	// SessionContext is a BMC whose sessions keep the Context of their login
	// (DSP0268, Session 1.5).
	SessionContext bool `json:"sessionContext,omitempty"`
	// MaxSessions is how many sessions its BMC has room for, as many as the
	// personality's without.
	MaxSessions  int    `json:"maxSessions,omitempty"`
	Manufacturer string `json:"manufacturer,omitempty"`
	Model        string `json:"model,omitempty"`
	MemoryGiB    int    `json:"memoryGiB,omitempty"`
	Processors   int    `json:"processors,omitempty"`
	// Power is "on" or "off"; a machine that starts on has booted long ago.
	Power     string   `json:"power,omitempty"`
	BootOrder []string `json:"bootOrder,omitempty"` // Hdd, Pxe by default
	// HTTPBoot is a BMC that can be given a URL to boot from, as a plain one can
	// anyway; NoMedia is one without virtual media.
	HTTPBoot bool `json:"httpBoot,omitempty"`
	NoMedia  bool `json:"noMedia,omitempty"`
	// Blank is a machine with nothing on its disk.
	Blank bool `json:"blank,omitempty"`
	// Marker is what the installed system says of its installation.
	Marker *site.Marker `json:"marker,omitempty"`
	// Capture is a file with the resources of a real BMC, which the machine then
	// shows instead of a personality's; what happens to the machine is laid over
	// them. Its identity is the capture's as far as none is configured.
	Capture string `json:"capture,omitempty"`
	// BIOS are attributes of the firmware over the personality's defaults.
	BIOS map[string]any `json:"bios,omitempty"`
	// Parts are what it is made of.
	Parts Parts `json:"parts,omitzero"`
	// AuthorizedKeys open the installed system for everybody, Password does
	// for Username.
	AuthorizedKeys []string `json:"authorizedKeys,omitempty"`
	// Real makes the machine an emulated computer. Without it the machine is simulated.
	Real *Real `json:"real,omitempty"`
	// FailedUnits are those of the installed system that have failed.
	FailedUnits []string `json:"failedUnits,omitempty"`
}

// ImageConfig is an installation medium that the lab's image server has.
type ImageConfig struct {
	Name string `json:"name"`
	// Size is how many bytes of noise the image is, 256 KiB by default.
	Size int `json:"size,omitempty"`
	// Content is the image itself, instead of noise.
	Content []byte `json:"content,omitempty"`
}

// ReadConfig reads a fleet as JSON, over the latencies of c. A field that it
// does not know is an error.
func ReadConfig(r io.Reader, c Config) (Config, error) {
	if err := strictly(r, &c); err != nil {
		return Config{}, fmt.Errorf("the fleet is not as expected: %w", err)
	}
	return c, c.check()
}

func strictly(r io.Reader, into any) error {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more after the JSON value")
	}
	return nil
}

// check says all that is wrong with a fleet.
func (c Config) check() error {
	var errs []error
	if c.Speed < 0 || c.Latency.Jitter < 0 || c.Latency.Jitter > 1 {
		errs = append(errs, fmt.Errorf("speed %v and jitter %v: a speed is above 0, a jitter from 0 to 1", c.Speed, c.Latency.Jitter))
	}
	if c.ImageAddr != "" && !c.OwnNetwork && !loopback(c.ImageAddr) {
		errs = append(errs, fmt.Errorf("the image server's address %q is not a loopback address, 127.x.y.z", c.ImageAddr))
	}
	for _, i := range c.Images {
		if i.Name == "" || strings.ContainsAny(i.Name, "/?# ") || i.Size < 0 || i.Size > maxImage || len(i.Content) > maxImage {
			errs = append(errs, fmt.Errorf("image %q: a name without slashes and spaces is needed, and at most %d MiB", i.Name, maxImage>>20))
		}
	}
	seen := map[string]bool{}
	for _, m := range c.Machines {
		if err := errors.Join(m.check(seen, c.OwnNetwork), c.checkEnclosure(m)); err != nil {
			errs = append(errs, fmt.Errorf("machine %q: %w", m.Name, err))
		}
	}
	return errors.Join(errs...)
}

// checkEnclosure says what is wrong with a machine behind the BMC of another.
func (c Config) checkEnclosure(m MachineConfig) error {
	if m.Behind == "" {
		return nil
	}
	i := slices.IndexFunc(c.Machines, func(other MachineConfig) bool { return other.Name == m.Behind })
	switch {
	case i < 0 || c.Machines[i].Behind != "":
		return fmt.Errorf("there is no machine %q with a BMC of its own", m.Behind)
	case m.BMCAddr != "":
		return errors.New("a machine behind another's BMC has no BMC address")
	}
	for _, of := range []MachineConfig{m, c.Machines[i]} {
		if of.SystemID == "" {
			return fmt.Errorf("machine %q of an enclosure has no system id", of.Name)
		}
	}
	if m.Capture != c.Machines[i].Capture {
		return fmt.Errorf("machine %q has another BMC than the one that it is behind", m.Name)
	}
	same := func(other MachineConfig) bool {
		return other.Name != m.Name && other.SystemID == m.SystemID && (other.Name == m.Behind || other.Behind == m.Behind)
	}
	if slices.ContainsFunc(c.Machines, same) {
		return fmt.Errorf("another system behind the BMC has the id %q", m.SystemID)
	}
	return nil
}

// check says what is wrong with a machine; seen are the names and addresses
// that are taken, and anywhere lets them be other than loopback ones.
func (c MachineConfig) check(seen map[string]bool, anywhere bool) error {
	take := func(what string) bool { taken := seen[what]; seen[what] = true; return !taken }
	for _, t := range c.BootOrder {
		if !slices.Contains(bootTargets, t) {
			return noTarget(t)
		}
	}
	for _, k := range c.AuthorizedKeys {
		if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(k)); err != nil {
			return fmt.Errorf("an authorized key cannot be read: %w", err)
		}
	}
	switch {
	case c.Name == "" || !take("name "+c.Name):
		return errors.New("a name is needed, once")
	case c.Behind == "" && (!anywhere && !loopback(c.BMCAddr) || !take("bmc "+c.BMCAddr)):
		return fmt.Errorf("the BMC address %q is not a loopback address, 127.x.y.z, of its own", c.BMCAddr)
	case c.OSAddr != "" && (!anywhere && !loopback(c.OSAddr) || !take("os "+c.OSAddr)):
		return fmt.Errorf("the OS address %q is not a loopback address, 127.x.y.z, of its own", c.OSAddr)
	case c.Capture != "" && c.Personality != "":
		return errors.New("a machine has a personality or is made from a capture, not both")
	case c.SystemID != "" && c.Personality != "" && c.Personality != "plain":
		return errors.New("only a plain machine's system has another id")
	case strings.ContainsAny(c.SystemID, "/?#% "):
		return fmt.Errorf("the system's id %q has characters that a path cannot have", c.SystemID)
	case c.Closes != "" && !slices.Contains(Closings, c.Closes):
		return fmt.Errorf("a BMC closes its connections in one of the ways %v, not %q", Closings, c.Closes)
	case c.Real.check(c) != nil:
		return c.Real.check(c)
	case c.Power != "" && c.Power != "on" && c.Power != "off":
		return fmt.Errorf("power is on or off, not %q", c.Power)
	}
	return nil
}

func loopback(addr string) bool {
	ip := net.ParseIP(addr)
	return ip != nil && ip.To4() != nil && ip.IsLoopback() && ip.String() == addr
}
