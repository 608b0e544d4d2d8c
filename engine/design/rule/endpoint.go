package rule

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

var endpoints = []Rule{
	{
		Code: "endpoint-url", Severity: site.SeverityError,
		What:  "The URL of an endpoint has a host, and a port from 1 to 65535 if any.",
		Why:   "No driver could reach the machine by it.",
		Wrong: `nodes: "n1": endpoints: manager: url: "redfish+https:///redfish/v1/Systems/1"`,
		Right: `nodes: "n1": endpoints: manager: url: "redfish+https://10.9.0.11:8443/redfish/v1/Systems/1"`,
		Node: eachEndpoint(func(kind site.EndpointKind, u *url.URL, _ site.Endpoint) (string, string) {
			if u.Hostname() != "" && goodPort(u) {
				return "", ""
			}
			return fmt.Sprintf("the URL of endpoints.%s needs a host, and a port from 1 to 65535 if any", kind), "Write " + example(kind) + "."
		}),
	},
	{
		Code: "endpoint-host", Severity: site.SeverityError,
		What: `The host of an endpoint's URL is not "allocate" or "dhcp", which a node has instead of an address.`,
		Why:  "CUE computes a URL from what is written, before an address is allocated; no machine has that name.",
		Wrong: `nodes: "n1": {addresses: {mgmt: "dhcp", bmc: "10.9.0.11"}, endpoints: os: url: "ssh://\(addresses.mgmt)"}
networks: mgmt: ranges: dhcp: {from: "10.1.0.100", to: "10.1.0.199", use: "dhcp"}`,
		Right: `nodes: "n1": {addresses: bmc: "10.9.0.11", endpoints: manager: url: "redfish+https://{addresses.bmc}/redfish/v1/Systems/1"}`,
		Node:  endpointHosts,
	},
	{
		// It is found when layers become a node.
		Code: "endpoint-reference", Severity: site.SeverityError, Firm: true,
		What:  "In the URL of an endpoint {…} is the path of an address, number or word that the node has, such as {addresses.bmc} or {name}.",
		Why:   "Slipway reaches the machine by this URL, and cannot tell from it where the machine is.",
		Wrong: `nodes: "n1": {addresses: bmc: "10.9.0.11", endpoints: manager: url: "redfish+https://{addresses.bcm}/redfish/v1/Systems/1"}`,
		Right: `nodes: "n1": {addresses: bmc: "10.9.0.11", endpoints: manager: url: "redfish+https://{addresses.bmc}/redfish/v1/Systems/1"}`,
	},
	{
		Code: "credential-in-url", Severity: site.SeverityError, Firm: true,
		What:  "The URL of an endpoint names no account and no password.",
		Why:   "Accounts and passwords do not belong in Git.",
		Wrong: `nodes: "n1": endpoints: manager: url: "redfish+https://root:calvin@10.9.0.11/redfish/v1/Systems/1"`,
		Right: `nodes: "n1": endpoints: manager: {url: "redfish+https://10.9.0.11/redfish/v1/Systems/1", credential: "bmc"}`,
		Node: eachEndpoint(func(_ site.EndpointKind, u *url.URL, _ site.Endpoint) (string, string) {
			if u.User == nil {
				return "", ""
			}
			return "the URL names an account", "Remove it from the URL, and name a credential: that holds the user name and the password."
		}),
	},
	{
		Code: "endpoint-scheme", Severity: site.SeverityError, Firm: true,
		What:  "The scheme of an endpoint's URL is one that a driver has, and is encrypted.",
		Why:   "No driver could reach the machine by it; and over plain HTTP the password is readable on the wire, and nothing proves which machine answers.",
		Wrong: `nodes: "n1": endpoints: manager: url: "redfish+http://10.9.0.11/redfish/v1/Systems/1"`,
		Right: `nodes: "n1": endpoints: manager: url: "redfish+https://10.9.0.11/redfish/v1/Systems/1"`,
		Node: eachEndpoint(func(kind site.EndpointKind, u *url.URL, _ site.Endpoint) (string, string) {
			switch want := schemes[kind]; {
			case u.Scheme == "redfish+http":
				return "a BMC is not spoken to over plain HTTP", "Use redfish+https."
			case u.Scheme != want:
				return fmt.Sprintf("%q is not a scheme for endpoints.%s", u.Scheme, kind), "Write " + example(kind) + "."
			}
			return "", ""
		}),
	},
	{
		Code: "host-key-missing", Severity: site.SeverityWarning,
		What:  "An SSH endpoint or hypervisor pins the host's key. A virtual machine with a generation, and a machine that Slipway's agent installs, need none: their installation makes the keys.",
		Why:   "Slipway connects to no SSH server whose key is not pinned, so it would learn nothing through this endpoint.",
		Wrong: `nodes: "n1": endpoints: os: {url: "ssh://10.1.0.11", trust: _ @unset()}`,
		Right: `nodes: "n1": endpoints: os: {url: "ssh://10.1.0.11", trust: hostKeys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample"]}`,
		Node:  hostKeyMissing, Site: hypervisorKeyMissing,
	},
	{
		Code: "duplicate-endpoint", Severity: site.SeverityError, Firm: true,
		What:  "No two nodes have the same endpoint.",
		Why:   "Two nodes would act on one machine.",
		Wrong: `nodes: "n2": endpoints: manager: url: "redfish+https://10.9.0.11/redfish/v1/Systems/1"`,
		Right: `nodes: "n2": endpoints: manager: url: "redfish+https://10.9.0.99/redfish/v1/Systems/1"`,
		Facts: endpointFacts, Fleet: twiceUnless("the endpoint", atOneAddress),
	},
}

// schemes are the URL schemes for each kind of endpoint.
var schemes = map[site.EndpointKind]string{
	site.Manager: "redfish+https",
	site.OS:      "ssh",
}

// eachEndpoint checks every endpoint of a node by its parsed URL. An objection
// is a message and what to do.
func eachEndpoint(object func(site.EndpointKind, *url.URL, site.Endpoint) (message, fix string)) func(*site.Site, *site.Node) []site.Finding {
	return func(_ *site.Site, n *site.Node) []site.Finding {
		var found []site.Finding
		for _, kind := range keys(n.Endpoints) {
			e := n.Endpoints[kind]
			if e.URL == "" {
				continue
			}
			if message, fix := object(kind, parsed(e.URL), e); message != "" {
				found = append(found, wrong("endpoints."+string(kind)+".url", message, fix))
			}
		}
		return found
	}
}

func hostKeyMissing(s *site.Site, n *site.Node) []site.Finding {
	if (n.IsVirtual() || s.Images[n.Image].ByAgent()) && states(n, "generation") {
		return nil
	}
	return eachEndpoint(func(kind site.EndpointKind, u *url.URL, e site.Endpoint) (string, string) {
		if kind != site.OS || u.Scheme != schemes[kind] || len(e.Trust.HostKeys) > 0 {
			return "", ""
		}
		if broken := e.Trust.HostKeys == nil && states(n, "endpoints."+string(kind)+".trust.hostKeys"); broken {
			return "", ""
		}
		return "the endpoint has no trust.hostKeys", "Add the host's public key, as `ssh-keyscan` prints it and you have checked it."
	})(s, n)
}

func hypervisorKeyMissing(s *site.Site) []site.Finding {
	var found []site.Finding
	for _, name := range keys(s.Hypervisors) {
		h, path := s.Hypervisors[name], "hypervisors."+name
		if parsed(h.URL).Scheme == "libvirt+ssh" && len(h.Trust.HostKeys) == 0 && !s.Origins.Has(path+".trust.hostKeys") {
			found = append(found, wrong(path+".url", fmt.Sprintf("the hypervisor %s has no trust.hostKeys", name),
				"Add the host's public key, as `ssh-keyscan` prints it and you have checked it."))
		}
	}
	return found
}

// parsed returns a URL. If the text cannot be parsed, the URL has only a
// scheme.
func parsed(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		scheme, _, _ := strings.Cut(text, "://")
		return &url.URL{Scheme: scheme}
	}
	return u
}

func goodPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	p, err := strconv.Atoi(u.Port())
	return err == nil && p >= 1 && p <= 65535
}

func example(kind site.EndpointKind) string {
	if kind == site.OS {
		return "ssh://192.0.2.11"
	}
	return "redfish+https://192.0.2.11/redfish/v1/Systems/1"
}

// isWish reports whether a host is a word that nodes use in place of an
// address.
func isWish(host string) bool { return host == site.AddressAllocate || host == site.AddressDHCP }

func endpointHosts(_ *site.Site, n *site.Node) []site.Finding {
	var found []site.Finding
	for _, kind := range keys(n.Endpoints) {
		if host := parsed(n.Endpoints[kind].URL).Hostname(); isWish(host) {
			found = append(found, wrong("endpoints."+string(kind)+".url", fmt.Sprintf("the host in the URL is %q, which is not a host", host), hostFix(n, host)))
		}
	}
	return found
}

// hostFix names the network that the node asks for an address, if there is
// exactly one.
func hostFix(n *site.Node, host string) string {
	if host == site.AddressDHCP {
		return "Write a host name, or give the node an address and write {addresses.NETWORK}, with the name of the network."
	}
	var asked []string
	for _, network := range keys(n.Addresses) {
		if asks(n, network) {
			asked = append(asked, network)
		}
	}
	if len(asked) == 1 {
		return fmt.Sprintf("Write {addresses.%s} for the host: it is the address that the node has, given or allocated.", asked[0])
	}
	return "Write {addresses.NETWORK} for the host, with the name of the network: it is the address that the node has, given or allocated."
}

// endpointFacts returns the endpoints of a node. If the host is the node's
// address, the fact is placed there, because the URL is then often a pattern of
// all nodes.
func endpointFacts(s *site.Site, n *site.Node) []Fact {
	var facts []Fact
	for _, kind := range keys(n.Endpoints) {
		u := parsed(n.Endpoints[kind].URL)
		if u.Host == "" || strings.HasSuffix(u.Host, ":") || isWish(u.Hostname()) {
			continue
		}
		path := "endpoints." + string(kind) + ".url"
		if network, ok := ownAddress(s, n, u.Hostname()); ok {
			path = addressesOf + network
		}
		facts = append(facts, Fact{Key: n.Endpoints[kind].Plain(), Path: path})
	}
	return facts
}

const addressesOf = "addresses."

// ownAddress returns the network in which a host's address belongs to the node.
func ownAddress(s *site.Site, n *site.Node, host string) (string, bool) {
	a := addrOf(host)
	for _, network := range keys(n.Addresses) {
		if a.IsValid() && addressIn(s, n, network) == a {
			return network, true
		}
	}
	return "", false
}

// atOneAddress reports whether two nodes have one endpoint because they have
// one address, which duplicate-address reports.
func atOneAddress(first, again Holder) bool {
	return strings.HasPrefix(first.Path, addressesOf) && strings.HasPrefix(again.Path, addressesOf)
}
