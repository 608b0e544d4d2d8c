package discovery

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/design/author"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Recognize sets what a design says about each discovered machine. It matches a
// machine by its UUID, in either byte order, its serial number, or one of its
// MAC addresses. If the design names no machine for a node, the machine known
// for that node counts. Recognize is pure.
func Recognize(s *site.Site, known map[string]site.Memory, met []site.Met) {
	r := newRegister(s, known)
	r.told, _ = Distinct(met)
	at := map[string][]int{}
	for i := range met {
		met[i].Standing = r.standing(met[i], r.told[i])
		if k := met[i].Standing.Kind; k == site.StandingKnown || k == site.StandingMoved {
			at[met[i].Standing.Node] = append(at[met[i].Standing.Node], i)
		}
	}
	for node, same := range at {
		if len(same) > 1 {
			doubt(met, node, same)
		}
	}
}

// doubt replaces the result of several machines that would all belong to one
// node.
func doubt(met []site.Met, node string, same []int) {
	var where []string
	for _, i := range same {
		where = append(where, met[i].Address)
	}
	for _, i := range same {
		met[i].Standing = site.Standing{Kind: site.StandingDoubt, Node: node, By: met[i].Standing.By,
			Text: fmt.Sprintf("the machines at %s all match what the design says about %s; correct the identity of %[2]s, or of the machines", strings.Join(where, " and "), node)}
	}
}

// Distinct returns for each discovered machine the smallest identity that
// distinguishes it from the others. That is its UUID and serial number, as far
// as no other machine has them. Otherwise it is a shared serial number with one
// of its MAC addresses, which stays with the machine in another slot, or else
// with its slot. The notes say what was left out.
func Distinct(met []site.Met) (ids []site.Identity, notes []string) {
	count := map[string]int{}
	for _, m := range met {
		id := m.Observed.Identity.Own()
		for _, key := range []string{uuidKey(id), serialKey(id), macKey(id), serialKey(id) + " " + id.Slot} {
			count[key]++
		}
	}
	shared := func(m site.Met, key, value string) bool {
		if value == "" || count[key] < 2 {
			return false
		}
		notes = append(notes, fmt.Sprintf("%s shares its %s with another machine, so that alone does not identify it", m.Address, key))
		return true
	}
	for _, m := range met {
		id := m.Observed.Identity.Own()
		least := site.Identity{UUID: id.UUID, Serial: id.Serial}
		if shared(m, uuidKey(id), id.UUID) {
			least.UUID = ""
		}
		sharedSerial := shared(m, serialKey(id), id.Serial)
		switch {
		case !sharedSerial && least.Known():
		case id.MAC != "" && count[macKey(id)] < 2 && least.UUID == "":
			least.MAC = id.MAC
		case sharedSerial && id.Slot != "" && count[serialKey(id)+" "+id.Slot] < 2 && least.UUID == "":
			least.Slot = id.Slot
		default:
			least.Serial = ""
		}
		ids = append(ids, least)
	}
	return ids, notes
}

func uuidKey(id site.Identity) string   { return "UUID " + lesser(id.UUID) }
func serialKey(id site.Identity) string { return "serial number " + id.Serial }
func macKey(id site.Identity) string    { return "MAC address " + id.MAC }

// register indexes a design's nodes by what identifies their machines.
type register struct {
	site      *site.Site
	ids       map[string]site.Identity // by node
	uuid, mac map[string]string
	serial    map[string][]string // several if the nodes of an enclosure share one
	// addr holds nodes by endpoint, and by host if only one node is there.
	addr map[string]string
	told []site.Identity
}

func newRegister(s *site.Site, known map[string]site.Memory) *register {
	r := &register{site: s, ids: map[string]site.Identity{}, uuid: map[string]string{}, serial: map[string][]string{}, mac: map[string]string{}, addr: map[string]string{}}
	for _, name := range s.NodeNames() {
		n := s.Nodes[name]
		id := machineOf(n, known[name]).Own()
		r.ids[name] = id
		if id.UUID != "" {
			r.uuid[lesser(id.UUID)] = name
		}
		if id.Serial != "" {
			r.serial[id.Serial] = append(r.serial[id.Serial], name)
		}
		if id.MAC != "" {
			r.mac[id.MAC] = name
		}
		for _, mac := range macsOf(n, known[name]) {
			r.mac[mac] = name
		}
		host := hostOf(n.Endpoints[site.Manager].URL)
		if _, another := r.addr[host]; another {
			r.addr[host] = ""
		} else {
			r.addr[host] = name
		}
		r.addr[n.Endpoints[site.Manager].URL] = name
	}
	return r
}

// machineOf returns the machine that a node's name stands for: the designed
// one, or the one it was bound to.
func machineOf(n *site.Node, m site.Memory) site.Identity {
	if n.Machine().Known() {
		return n.Machine()
	}
	if a := m.Recorded.Adopted; a != nil {
		return a.Machine
	}
	return m.Observed.Identity
}

// macsOf returns the MAC addresses of a node's interfaces, as designed and as
// seen.
func macsOf(n *site.Node, m site.Memory) []string {
	macs := inventoryMACs(m.Observed.Inventory)
	for _, i := range n.Interfaces {
		if i.MAC != "" {
			macs = append(macs, strings.ToLower(i.MAC))
		}
	}
	for _, d := range n.Hardware.Devices {
		if d.MAC != "" {
			macs = append(macs, strings.ToLower(d.MAC))
		}
	}
	return macs
}

func inventoryMACs(i *site.Inventory) []string {
	if i == nil {
		return nil
	}
	var macs []string
	for _, n := range i.NICs {
		for _, p := range n.Ports {
			macs = append(macs, p.MACs...)
		}
	}
	return macs
}

// lesser returns a UUID in the byte order whose text sorts first, so that both
// orders compare equal.
func lesser(uuid string) string { return min(uuid, site.TurnedRound(uuid)) }

// hostOf returns the host of an endpoint with its port.
func hostOf(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	return u.Host
}

// claim is a node that a machine may be, and what says so.
type claim struct{ node, by string }

// claims returns the nodes that a machine may be, each with the first thing
// that says so.
func (r *register) claims(o site.Observed) []claim {
	var all []claim
	add := func(node, by string) {
		if node != "" && !slices.ContainsFunc(all, func(c claim) bool { return c.node == node }) {
			all = append(all, claim{node, by})
		}
	}
	id := o.Identity.Own()
	if id.UUID != "" {
		add(r.uuid[lesser(id.UUID)], "UUID")
	}
	if id.Serial != "" {
		for _, node := range r.serial[id.Serial] {
			if r.inSlot(node, o) {
				add(node, "serial number")
			}
		}
	}
	for _, mac := range inventoryMACs(o.Inventory) {
		add(r.mac[strings.ToLower(mac)], "MAC address")
	}
	return all
}

// inSlot reports whether a machine can be a node's by what the node names
// besides a serial number.
func (r *register) inSlot(node string, o site.Observed) bool {
	want, macs := r.ids[node], inventoryMACs(o.Inventory)
	if o.Identity.MAC != "" {
		macs = append(macs, o.Identity.MAC)
	}
	slot := want.Slot == "" || o.Identity.Slot == "" || want.Slot == o.Identity.Slot
	return slot && (want.MAC == "" || len(macs) == 0 || slices.Contains(macs, want.MAC))
}

// standing returns what a machine is to the design. told is the identity that
// distinguishes it from the other discovered machines.
func (r *register) standing(m site.Met, told site.Identity) site.Standing {
	here := cmp.Or(r.addr[m.Endpoint.URL], r.addr[hostOf(m.Endpoint.URL)])
	if m.Why != "" {
		return site.Standing{Kind: site.StandingUnread, Node: here, By: by(here)}
	}
	switch claims := r.claims(m.Observed); {
	case len(claims) > 1:
		return contradiction(claims)
	case len(claims) == 1:
		return r.recognized(m, claims[0])
	case here == "":
		return site.Standing{Kind: site.StandingUnknown, CUE: declaration(m, told), Text: "this machine is not a node of the design; to add it, add these lines, a role and a rack"}
	case r.ids[here].Known():
		return site.Standing{Kind: site.StandingOther, Node: here, By: "address", Place: r.site.Nodes[here].Place, CUE: declaration(m, told),
			Text: fmt.Sprintf("the design has %s here, which is %s; this is %s", here, full(r.ids[here]), full(m.Observed.Identity))}
	}
	return r.unnamed(here, told)
}

// declaration returns the lines that would make a machine a node.
func declaration(m site.Met, told site.Identity) string {
	m.Observed.Identity = told
	return author.Declaration(m)
}

func by(node string) string {
	if node == "" {
		return ""
	}
	return "address"
}

func full(i site.Identity) string {
	if i.UUID != "" && i.Serial == "" || i.UUID == "" && i.Serial != "" && i.Slot == "" && i.MAC == "" {
		return i.String()
	}
	return i.Full()
}

func contradiction(claims []claim) site.Standing {
	var says []string
	for _, c := range claims {
		says = append(says, "its "+c.by+" belongs to "+c.node)
	}
	return site.Standing{Kind: site.StandingDoubt, Text: strings.Join(says, ", ") + "; a part may have been moved from one to the other: correct the identities in the design"}
}

// unnamed returns the standing of a machine at the address of a node for which
// the design names no machine.
func (r *register) unnamed(here string, id site.Identity) site.Standing {
	st := site.Standing{Kind: site.StandingKnown, Node: here, By: "address"}
	if id.Known() {
		st.Place, st.Want = r.site.Nodes[here].Place, identityLine(id)
		st.Text = fmt.Sprintf("the design names no machine for %s, so Slipway only observes it; this one is %s", here, full(id))
	}
	return st
}

func identityLine(id site.Identity) string {
	var parts []string
	for _, p := range []struct{ name, value string }{{"uuid", id.UUID}, {"serial", id.Serial}, {"slot", id.Slot}, {"mac", id.MAC}} {
		if p.value != "" {
			parts = append(parts, p.name+": "+strconv.Quote(p.value))
		}
	}
	return "identity: {" + strings.Join(parts, ", ") + "}"
}

// recognized returns the standing of a machine that belongs to a node.
func (r *register) recognized(m site.Met, c claim) site.Standing {
	n := r.site.Nodes[c.node]
	st := site.Standing{Kind: site.StandingKnown, Node: c.node, By: c.by}
	want, have := r.ids[c.node], m.Observed.Identity
	now := have.Own()
	now.Slot, now.MAC = "", ""
	switch {
	case want.UUID != "" && have.UUID != "" && lesser(want.UUID) != lesser(have.UUID),
		want.Serial != "" && have.Serial != "" && want.Serial != have.Serial:
		st.Kind, st.Place = site.StandingDoubt, n.Place
		st.Text = fmt.Sprintf("its %s belongs to %s, which the design has as %s; this machine is %s: if a board was replaced, write %s",
			c.by, c.node, full(want), full(have), strings.Replace(identityLine(now), "identity", "moved", 1))
		return st
	case c.by == "UUID" && want.UUID != have.UUID:
		st.Text = "it reports the bytes of its UUID's first three fields in the opposite order to the design"
		st.Place, st.Have, st.Want = n.Origins.Of("identity.uuid"), strconv.Quote(want.UUID), strconv.Quote(have.UUID)
	}
	if where := hostOf(n.Endpoints[site.Manager].URL); where != hostOf(m.Endpoint.URL) && isAddress(where) {
		return r.moved(m, n, st)
	}
	return st
}

// isAddress reports whether a host is an address: where a name leads is unknown
// without resolving it.
func isAddress(host string) bool {
	u := url.URL{Host: host}
	_, err := netip.ParseAddr(u.Hostname())
	return err == nil
}

// moved returns the standing of a node's machine at another address than
// designed, with the line to change: that of the node's address if the endpoint
// refers to it.
func (r *register) moved(m site.Met, n *site.Node, st site.Standing) site.Standing {
	was := n.Endpoints[site.Manager].URL
	u := url.URL{Host: hostOf(was)}
	st.Kind = site.StandingMoved
	st.Text = fmt.Sprintf("the machine of %s has moved from %s to %s", n.Name, u.Hostname(), m.Address)
	st.Place, st.Have, st.Want = n.Origins.Of("endpoints.manager.url"), strconv.Quote(was), strconv.Quote(m.Endpoint.URL)
	for network, a := range n.Addresses {
		if o := n.Origins.Of("addresses." + network); a == u.Hostname() && !o.IsZero() {
			st.Place, st.Have, st.Want = o, strconv.Quote(a), strconv.Quote(m.Address)
		}
	}
	return st
}
