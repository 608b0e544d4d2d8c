package site

import "net/netip"

// Network is an IP network of the site.
type Network struct {
	Description string `json:"description,omitempty"`
	CIDR        string `json:"cidr"`
	VLAN        int    `json:"vlan,omitempty"`
	// MTU is in bytes; 0 means the MTU of the link.
	MTU         int              `json:"mtu,omitempty"`
	Gateway     string           `json:"gateway,omitempty"`
	Ranges      map[string]Range `json:"ranges,omitempty"`
	RouteDomain string           `json:"routeDomain,omitempty"`
	Routes      map[string]Route `json:"routes,omitempty"`
	// Autoconfigure means that nodes take addresses that routers announce.
	Autoconfigure bool `json:"autoconfigure,omitempty"`
	// Shared are addresses that move between nodes, by name.
	Shared    map[string]SharedAddress `json:"shared,omitempty"`
	DNS       DNS                      `json:"dns,omitzero"`
	DHCPRelay *DHCPRelay               `json:"dhcpRelay,omitempty"`
	Boot      NetworkBoot              `json:"boot,omitzero"`
}

// NetworkBoot is what the daemon does for machines that boot in a network.
type NetworkBoot struct {
	// DHCP is empty if the daemon never answers DHCP here.
	DHCP DHCPMode `json:"dhcp,omitempty"`
	// Announce means that the daemon sends router advertisements in a network of IPv6.
	Announce bool `json:"announce,omitempty"`
}

// Range is a part of a network, from its first to its last address.
type Range struct {
	From string   `json:"from"`
	To   string   `json:"to"`
	Use  RangeUse `json:"use"`
}

// SharedAddress is an address that a program on one of several nodes has at a time.
type SharedAddress struct {
	Description string `json:"description,omitempty"`
	Address     string `json:"address"`
	// Role restricts which nodes may have the address; empty means all nodes of the network.
	Role string `json:"role,omitempty"`
}

// RangeUse is what a range is for.
type RangeUse string

// The uses of a range.
const (
	RangeStatic   RangeUse = "static"   // addresses given in the design or allocated
	RangeDHCP     RangeUse = "dhcp"     // for a DHCP server
	RangeReserved RangeUse = "reserved" // not used here
)

// Route is a route of the nodes in a network, or of one node, to a range or to a route
// domain.
type Route struct {
	To      string `json:"to,omitempty"`
	Domain  string `json:"domain,omitempty"`
	Gateway string `json:"gateway"`
	Metric  int64  `json:"metric,omitempty"`
}

// DNS is the name service for the nodes in a network.
type DNS struct {
	Domain  string   `json:"domain,omitempty"`
	Servers []string `json:"servers,omitempty"`
}

// DHCPRelay forwards DHCP requests to servers in other networks.
type DHCPRelay struct {
	Address string   `json:"address"`
	Servers []string `json:"servers"`
}

// RouteDomain is a group of networks that reach each other by routes.
type RouteDomain struct {
	Description string `json:"description,omitempty"`
}

// Link is what a switch port and the interface plugged into it agree on.
type Link struct {
	Description string   `json:"description,omitempty"`
	Networks    []string `json:"networks"`
	Trunk       bool     `json:"trunk,omitempty"`
	Native      string   `json:"native,omitempty"`
	// MTU is in bytes; 0 is 1500.
	MTU     int      `json:"mtu,omitempty"`
	Rate    Rate     `json:"rate,omitempty"`
	Bonding *Bonding `json:"bonding,omitempty"`
}

// Bonding is how the kernel combines several links into one
// (Documentation/networking/bonding.rst).
type Bonding struct {
	Mode       string   `json:"mode"`
	LACPRate   string   `json:"lacpRate,omitempty"`
	HashPolicy string   `json:"hashPolicy,omitempty"`
	Monitor    Duration `json:"monitor,omitempty"`
	UpDelay    Duration `json:"upDelay,omitempty"`
	DownDelay  Duration `json:"downDelay,omitempty"`
	MinLinks   int      `json:"minLinks,omitempty"`
}

// Interface is a physical network interface of a node.
type Interface struct {
	// Device is the name of a device in the node's hardware.
	Device   string   `json:"device,omitempty"`
	MAC      string   `json:"mac,omitempty"`
	Link     string   `json:"link,omitempty"`
	Networks []string `json:"networks,omitempty"`
	// Boot is the network that the firmware boots from over this interface.
	Boot   string `json:"boot,omitempty"`
	MTU    int    `json:"mtu,omitempty"`
	Switch string `json:"switch,omitempty"`
	Port   string `json:"port,omitempty"`
	SRIOV  *SRIOV `json:"sriov,omitempty"`
}

// SRIOV configures the virtual functions of an interface.
type SRIOV struct {
	Functions int  `json:"functions"`
	Trusted   bool `json:"trusted,omitempty"`
}

// Bond is several interfaces used as one, as their link's Bonding says.
type Bond struct {
	Members  []string `json:"members"`
	Link     string   `json:"link"`
	Networks []string `json:"networks,omitempty"`
	MTU      int      `json:"mtu,omitempty"`
	Primary  string   `json:"primary,omitempty"`
}

// Bridge connects interfaces, bonds and VLANs with what runs on the node.
type Bridge struct {
	Members  []string `json:"members"`
	Networks []string `json:"networks,omitempty"`
	STP      bool     `json:"stp,omitempty"`
	MTU      int      `json:"mtu,omitempty"`
}

// VLAN is one tagged network of an interface or bond.
type VLAN struct {
	Parent  string `json:"parent"`
	Network string `json:"network"`
	MTU     int    `json:"mtu,omitempty"`
}

// Values of a node's addresses that are not addresses.
const (
	AddressDHCP     = "dhcp"
	AddressAllocate = "allocate"
)

// Rack is a failure domain.
type Rack struct {
	Location string            `json:"location,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	// Units is the height of the rack in units, up to MaxUnits; 0 if the design does
	// not say it.
	Units int `json:"units,omitempty"`
	// Domain is a failure domain shared with other racks.
	Domain string `json:"domain,omitempty"`
	// MaxUnavailable limits how many nodes of the rack may be out of service at
	// once, in addition to the site's limit; empty for no limit.
	MaxUnavailable string            `json:"maxUnavailable,omitempty"`
	Switches       map[string]Switch `json:"switches,omitempty"`
}

// Switch is a switch of a rack, with its ports by name.
type Switch struct {
	Address string                `json:"address,omitempty"`
	Ports   map[string]SwitchPort `json:"ports,omitempty"`
}

// SwitchPort is the configuration of a switch port.
type SwitchPort struct {
	Link string `json:"link,omitempty"`
}

// Unusable returns the addresses of a network that no host can have: in IPv4
// the first and last, except on point-to-point links (RFC 919, RFC 3021); in
// IPv6 the first, which every router has (RFC 4291, section 2.6.1).
func Unusable(p netip.Prefix) []netip.Addr {
	first := p.Masked().Addr()
	if p.Bits() >= first.BitLen()-1 {
		return nil
	}
	if first.Is6() {
		return []netip.Addr{first}
	}
	last := first.As4()
	for bit := p.Bits(); bit < 32; bit++ {
		last[bit/8] |= 1 << (7 - bit%8)
	}
	return []netip.Addr{first, netip.AddrFrom4(last)}
}
