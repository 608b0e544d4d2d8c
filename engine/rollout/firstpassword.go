package rollout

import (
	"cmp"
	"slices"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Password is the reason that a derived password is not replaced yet: no machine of the rollout has accepted the new
// one, and another goes first.
type Password struct {
	// First is the node that goes first; empty while none can.
	First string
	// Accounts are those whose password none has accepted.
	Accounts []string
	node     *Node
}

// passwordFor holds a step that replaces derived passwords until one node of the rollout has accepted those of the same
// epoch and form: what is wrong with them costs one machine then. It goes by the step and by what is recorded, whatever
// the canaries are, and whoever joined the rollout since.
func (f *Facts) passwordFor(t Try) *Password {
	n := t.Node
	if len(t.Step.Rotates) == 0 || !f.IsUnderWay() || n.Part == Aside || n.sent() || t.Step.Drift || !t.isOrdered() {
		return nil
	}
	lack := slices.DeleteFunc(slices.Clone(t.Step.Rotates), func(account string) bool {
		d, derived := n.derived(account)
		return !derived || slices.ContainsFunc(f.Rollout.Nodes, func(name string) bool {
			x := f.Nodes.Node(name)
			return x != nil && x.Proven(account) == d
		})
	})
	if len(lack) == 0 {
		return nil
	}
	first := f.firstToRotate(n.Name())
	if first == n.Name() {
		return nil
	}
	return &Password{First: first, Accounts: lack, node: n}
}

// firstToRotate is the node that gets its new passwords before the others: one that may have them and waits for nobody,
// or else one that the rollout has begun for another change, or else the first that can, canaries before others. A node
// that has failed or waits for a person lets another one go, unless it may have been set already.
func (f *Facts) firstToRotate(asks string) string {
	first, begun := "", ""
	for _, name := range slices.Concat(f.Rollout.Canaries, f.Rollout.Nodes) {
		n := f.Nodes.Node(name)
		if n == nil || !f.inUse(n) || n.Part == Failed || n.State == site.InSync && !n.Outdated && name != asks {
			continue
		}
		if !n.Rotates && name != asks {
			continue
		}
		if n.sent() && !n.Paused && !n.Quarantined && n.Part != Resting {
			return name
		}
		if n.InHand && n.Part != Resting && begun == "" {
			begun = name
		}
		cannot := n.Paused || n.Quarantined || n.Part == Resting || n.Seen && n.Blind
		if first == "" && (!cannot || name == asks) {
			first = name
		}
	}
	return cmp.Or(begun, first)
}

// sent reports whether the password that the design has may have been set on the node and is not proven.
func (n *Node) sent() bool {
	for account := range n.Design.BMC.Accounts {
		d, _ := n.derived(account) // zero for another password, as which none is sent
		if use := n.Accounts[account]; use.IsSent() && use.OfferedAs == d && !use.OfferedDenied {
			return true
		}
	}
	return false
}

// derived is the derived password that the design has for an account of the node's BMC.
func (n *Node) derived(account string) (site.Derived, bool) {
	d, ok := n.Design.References.Derived[n.Design.BMC.Accounts[account].Credential]
	return d, ok
}

// Proven is the derived password that an account of the node's BMC has accepted last; zero for none.
func (n *Node) Proven(account string) site.Derived {
	use := n.Accounts[account]
	if !use.IsOf(n.Design.DerivedFrom()) || use.ProvenDenied {
		return site.Derived{}
	}
	return use.ProvenAs
}

// Verdict implements Reason.
func (r *Password) Verdict(f *Facts) Verdict {
	what := "the new password of " + say.Some(r.Accounts, Most)
	if r.First == "" {
		return Verdict{Sentence: "no node can take " + what + " first", Release: "a node that can", Waits: []Topic{CanariesProven}}
	}
	v := Verdict{For: []string{r.First}, Waits: []Topic{CanariesProven, PlaceTopic(r.First)},
		Sentence: "it waits for " + r.First + ", which goes first, to accept " + what,
		Detail:   f.notInSync([]string{r.First}), Release: r.First + " accepting " + what}
	return f.inTheWay(v, r.node, r.First)
}
