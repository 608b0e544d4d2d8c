package site

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/bios"
)

// Known is what a daemon knows beside the design: enough to plan without
// looking.
type Known struct {
	Nodes   map[string]Memory `json:"nodes"`
	History History           `json:"history,omitempty"`
	// Accounts are what was approved, by node, also of nodes that the design has
	// no more. Records names the records that it is in.
	Accounts map[string]Account `json:"accounts,omitempty"`
	Records  string             `json:"records,omitempty"`
	// Serves are the facets that a driver acts on, beside power, boot and
	// image.
	Serves map[Facet]bool `json:"serves,omitempty"`
	// Paused is the hold on the whole site, and Rollout the last rollout; nil
	// for none.
	Paused  *Hold          `json:"paused,omitempty"`
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// Unseen are the nodes whose machine could not be looked at when it was tried last.
	Unseen map[string]bool `json:"unseen,omitempty"`
	// Reach is how the machine of each node is reached out of band.
	Reach map[string]Reach `json:"reach,omitempty"`
	// Placed are the virtual machines that have a place by the design in force,
	// also those of nodes that it has dropped and that are held.
	Placed map[string]Placed `json:"placed,omitempty"`
}

// MarshalJSON writes the terms that the observations name beside them.
func (k Known) MarshalJSON() ([]byte, error) {
	return json.Marshal(sentKnown{plainKnown(k), Words(func(yield func(Observed) bool) {
		for _, m := range k.Nodes {
			if !yield(m.Observed) {
				return
			}
		}
	})})
}

// UnmarshalJSON gives the terms back to the observations.
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

// sentKnown is how Known is sent: many machines name the same terms.
type sentKnown struct {
	plainKnown
	Words bios.Library `json:"words,omitzero"`
}

// Account is what was approved for a node.
func (k Known) Account(node string) Account {
	a := k.Accounts[node]
	a.Records = k.Records
	return a
}

// Reach is how a machine is reached out of band, and which one it has to be,
// by the design in force.
type Reach struct {
	Manager Endpoint `json:"manager"`
	Machine Identity `json:"machine,omitzero"`
	// Hypervisor is where a virtual machine is placed.
	Hypervisor string `json:"hypervisor,omitempty"`
	// Addresses are those of the node by network, Extra further ones, and MACs those of
	// its interfaces in lower case: what nobody else may have while the machine is there.
	Addresses map[string]string   `json:"addresses,omitempty"`
	Extra     map[string][]string `json:"extra,omitempty"`
	MACs      []string            `json:"macs,omitempty"`
	// Held is set where nothing is done to the node now, so that its machine has
	// all this whatever is designed next.
	Held bool `json:"held,omitempty"`
}

// ReachOf is how a node is reached by its own design.
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
	return r
}

// Memory is what a daemon knows of one node: enough to plan without looking.
type Memory struct {
	Observed Observed `json:"observed"`
	Recorded Recorded `json:"recorded"`
	// Account is what was approved for the node; Known.Accounts has it.
	Account Account `json:"-"`
}
