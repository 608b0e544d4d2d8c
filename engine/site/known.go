package site

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/bios"
)

// Known is what a daemon knows besides the design: enough to plan without looking at machines.
type Known struct {
	Nodes   map[string]Memory `json:"nodes"`
	History History           `json:"history,omitempty"`
	// Accounts are the approvals by node, including nodes that have left the design. Records names
	// the records that contain them.
	Accounts map[string]Account `json:"accounts,omitempty"`
	Records  string             `json:"records,omitempty"`
	// Delivered is which secrets were given to whom, by node or other holder, also of nodes that are gone.
	Delivered map[string]Delivered `json:"delivered,omitempty"`
	// Serves are the facets that a driver acts on, besides power, boot and image.
	Serves map[Facet]bool `json:"serves,omitempty"`
	// Paused is the hold on the whole site, Rollout the last rollout; nil for none.
	Paused  *Hold          `json:"paused,omitempty"`
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// Unseen are the nodes whose machine could not be looked at in the last attempt.
	Unseen map[string]bool `json:"unseen,omitempty"`
	// Reach is how each node's machine is reached out of band.
	Reach map[string]Reach `json:"reach,omitempty"`
	// Placed are the virtual machines with a place in the design in force. They include held nodes
	// that the design has dropped.
	Placed map[string]Placed `json:"placed,omitempty"`
}

// MarshalJSON writes the terms that the observations refer to beside them.
func (k Known) MarshalJSON() ([]byte, error) {
	return json.Marshal(sentKnown{plainKnown(k), Words(func(yield func(Observed) bool) {
		for _, m := range k.Nodes {
			if !yield(m.Observed) {
				return
			}
		}
	})})
}

// UnmarshalJSON attaches the terms to the observations again.
func (k *Known) UnmarshalJSON(text []byte) error {
	var sent sentKnown
	if err := json.Unmarshal(text, &sent); err != nil {
		return err
	}
	*k = Known(sent.plainKnown)
	terms := sent.Words.All()
	for _, m := range k.Nodes {
		m.Observed.Attach(terms)
	}
	return nil
}

type plainKnown Known

// sentKnown is the transfer form of Known: many machines refer to the same terms.
type sentKnown struct {
	plainKnown
	Words bios.Library `json:"words,omitzero"`
}

// Account returns what was approved for a node.
func (k Known) Account(node string) Account {
	a := k.Accounts[node]
	a.Records = k.Records
	return a
}

// Reach says how a machine is reached out of band, and which machine it must be, according to the
// design in force.
type Reach struct {
	Manager Endpoint `json:"manager"`
	Machine Identity `json:"machine,omitzero"`
	// Hypervisor is where a virtual machine is placed.
	Hypervisor string `json:"hypervisor,omitempty"`
	// Addresses are the node's addresses by network, Extra its further addresses, and MACs those of
	// its interfaces in lower case. Nobody else may have them while the machine exists.
	Addresses map[string]string   `json:"addresses,omitempty"`
	Extra     map[string][]string `json:"extra,omitempty"`
	MACs      []string            `json:"macs,omitempty"`
	// Names are the names and addresses that its certificates are good for, and that of its OS endpoint, as TLSName has them.
	Names []string `json:"names,omitempty"`
	// Held means that Slipway does nothing to the node now, so its machine keeps all this whatever
	// the next design says.
	Held bool `json:"held,omitempty"`
}

// ReachOf returns how a node is reached by its own design.
func ReachOf(n *Node) Reach {
	r := Reach{Manager: n.Endpoints[Manager], Machine: n.Machine(), Hypervisor: n.Virtual.Host.Hypervisor, Addresses: n.Addresses, Extra: n.ExtraAddresses}
	add := func(mac string) {
		if mac != "" {
			r.MACs = append(r.MACs, strings.ToLower(mac))
		}
	}
	for _, i := range n.Interfaces {
		add(i.MAC)
	}
	for _, d := range n.Hardware.Devices {
		add(d.MAC)
	}
	for _, i := range n.Virtual.Interfaces {
		add(i.MAC)
	}
	slices.Sort(r.MACs)
	r.Names = tlsNames(slices.Concat(n.References.HostNames, n.References.TLSNames, hostOf(n.Endpoints[OS])))
	return r
}

// hostOf returns the host of an endpoint; none if the endpoint names none.
func hostOf(e Endpoint) []string {
	u, err := url.Parse(e.URL)
	if err != nil || u.Hostname() == "" || u.Hostname() == AddressDHCP {
		return nil
	}
	return []string{u.Hostname()}
}

// Memory is what a daemon knows of one node: enough to plan without looking at the machine.
type Memory struct {
	Observed Observed `json:"observed"`
	Recorded Recorded `json:"recorded"`
	// Account is what was approved for the node; it comes from Known.Accounts.
	Account Account `json:"-"`
}
