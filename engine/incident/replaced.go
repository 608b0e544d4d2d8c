package incident

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Facts is what Slipway knows of secrets and of those that have them.
type Facts struct {
	Now time.Time
	// Delivered are the records of what was given to whom, by node or other holder.
	Delivered map[string]site.Delivered
	// Present is what the source of a credential has now; for a derived one that of a node. It is false where it
	// was not read yet.
	Present func(credential, node string) (Present, bool)
	// LoginLife is the longest life of a certificate for logins.
	LoginLife time.Duration
	// Certified is when the last TLS certificate of a name that was signed for a node ends; zero for none.
	Certified func(node, name string) time.Time
	// Installed is what is recorded of the system on the machine of a node of an incident, under whatever name the design has
	// it now; nil for none. One without a machine stands for its name.
	Installed func(node string, n site.IncidentNode) *site.Installation
	holders   map[string][]string // by machine, see indexed
}

// indexed is it with the holders of which a delivery names a machine. Sites have thousands, and are searched for each
// secret and node.
func (f Facts) indexed() Facts {
	if f.holders != nil {
		return f
	}
	f.holders = map[string][]string{}
	for holder, d := range f.Delivered {
		last := ""
		for _, g := range d.Given {
			if g.Machine != last && !slices.Contains(f.holders[g.Machine], holder) {
				f.holders[g.Machine] = append(f.holders[g.Machine], holder)
			}
			last = g.Machine
		}
	}
	return f
}

func (f Facts) certified(node, name string) time.Time {
	if f.Certified == nil {
		return time.Time{}
	}
	return f.Certified(node, name)
}

// Present is what a source has.
type Present struct {
	Version string // see secret.Versions; empty without a site key
	Key     bool   // a private key, of which a login sends nothing
	Err     string // why it cannot be read; then nothing else counts
}

// Begun is what an incident keeps, from the moment at which Slipway acts on it, about the secrets that its nodes could
// read: who was given them, and which versions they had.
func Begun(s *site.Site, i *site.IncidentState, f Facts) []site.Exposed {
	f = f.indexed()
	return withBaselines(i, exposed(s, i.Incident.Nodes, i, f), f)
}

// Noted is that with what is known by now. It never loses a secret, a node or a version. What the design alone
// has named since was never on a machine that is off.
func Noted(s *site.Site, i *site.IncidentState, f Facts) []site.Exposed {
	all, f := slices.Clone(i.Exposed), f.indexed()
	for _, x := range exposed(s, i.Incident.Nodes, i, f) {
		if len(x.Known) == 0 {
			continue
		}
		if at := slices.IndexFunc(all, func(was site.Exposed) bool { return was.Secret == x.Secret }); at >= 0 {
			all[at] = merged(all[at], x)
		} else {
			all = append(all, x)
		}
	}
	return withBaselines(i, all, f)
}

func withBaselines(i *site.IncidentState, all []site.Exposed, f Facts) []site.Exposed {
	for at := range all {
		all[at].Had, all[at].Assumed = baseline(i, all[at], f)
	}
	return all
}

// merged adds to what was noted of a secret what the records show by now.
func merged(was, x site.Exposed) site.Exposed {
	was.Nodes = union(was.Nodes, x.Known)
	was.Known = union(was.Known, x.Known)
	had := maps.Clone(was.Had)
	for node, versions := range x.Had {
		if had == nil {
			had = map[string][]string{}
		}
		had[node] = union(had[node], versions)
	}
	was.Had = had
	return was
}

// baseline adds, for each node of which the records may lack a version, the one that the source has now: the
// node may have it. That is done once, so a later value is another one.
func baseline(i *site.IncidentState, x site.Exposed, f Facts) (had map[string][]string, assumed []string) {
	name := site.CredentialOf(x.Secret)
	if name == "" || f.Present == nil {
		return x.Had, x.Assumed
	}
	had, assumed = maps.Clone(x.Had), x.Assumed
	for _, node := range x.Nodes {
		p, is := f.Present(name, node)
		if !is || p.Err != "" || p.Version == "" || p.Key && x.Login || slices.Contains(assumed, node) || isWhole(i, node, x.Secret, f) {
			continue
		}
		if had == nil {
			had = map[string][]string{}
		}
		had[node], assumed = union(had[node], []string{p.Version}), union(assumed, []string{node})
	}
	return had, assumed
}

// isWhole reports whether the records of a node have a delivery of a secret from after the time of which something may be
// missing.
func isWhole(i *site.IncidentState, node, secret string, f Facts) bool {
	for holder, g := range deliveriesTo(i, node, f) {
		if g.Secret == secret && g.When.After(f.Delivered[holder].Since) {
			return true
		}
	}
	return false
}

// deliveriesTo goes through what was given to a node, and to its machine under other names, with the holder.
func deliveriesTo(i *site.IncidentState, node string, f Facts) func(yield func(string, site.Delivery) bool) {
	machine, holders := "", []string{node}
	if i != nil && i.Nodes[node].Machine.Known() {
		machine = i.Nodes[node].Machine.String()
		holders = union(holders, f.holders[machine])
	}
	return func(yield func(string, site.Delivery) bool) {
		for _, holder := range holders {
			for _, g := range f.Delivered[holder].Given {
				if (holder == node || g.Machine == machine) && !yield(holder, g) {
					return
				}
			}
		}
	}
}

// wasRead reports whether a delivery to a node of an incident counts as read. Whatever came before Slipway acted does, also if
// the system was installed again since: its disks may have kept it. After that a BMC still gets the logins by which
// Slipway keeps the machine off; the system gets nothing more once it is off.
func wasRead(i *site.IncidentState, node string, g site.Delivery) bool {
	if i == nil || i.Acted.IsZero() || !g.When.After(i.Acted) {
		return true
	}
	if g.To != site.ToSystem {
		return false
	}
	var end time.Time
	for name, n := range i.Nodes {
		if _, own := i.Nodes[node]; own && name != node {
			continue // the guests of a hypervisor run until the last node of the incident is off
		}
		off := n.Off
		if off.IsZero() {
			off = n.Released
		}
		if off.IsZero() {
			return true
		}
		end = later(end, off)
	}
	return !g.When.After(end)
}

// Judged is what an incident noted about secrets, with what is known of their replacement now.
func Judged(s *site.Site, i *site.IncidentState, f Facts) []site.Exposed {
	all, f := slices.Clone(i.Exposed), f.indexed()
	named, machines := map[string]*secretUse{}, map[string]string{}
	for name, n := range s.Nodes {
		if n.Machine().Known() {
			machines[n.Machine().String()] = name
		}
	}
	for _, u := range uses(s) {
		named[u.text] = u
	}
	for at := range all {
		x := &all[at]
		if name := site.CredentialOf(x.Secret); name != "" {
			judgeCredential(s, i, x, name, named[x.Secret], machines, f)
		} else {
			judgeOther(i, x, f)
		}
	}
	return all
}

// AllClear reports whether all nodes of an incident are released and all secrets are known to be replaced.
func AllClear(i *site.IncidentState, judged []site.Exposed) bool {
	return i.IsReleased() && !slices.ContainsFunc(judged, func(x site.Exposed) bool { return !x.State.IsDone() })
}

// judgeCredential compares what the source of a credential has with what the nodes had, and then looks at those who
// have to be given the new value.
func judgeCredential(s *site.Site, i *site.IncidentState, x *site.Exposed, name string, used *secretUse, machines map[string]string, f Facts) {
	var read []string
	for _, versions := range x.Had {
		read = union(read, versions)
	}
	for _, node := range x.Nodes {
		p, is := f.Present(name, node)
		switch {
		case !is:
			x.State, x.Why = site.ReplacedUnknown, "Slipway has not read its source since the daemon started"
		case p.Err != "":
			x.State, x.Why = site.ReplacedUnknown, "its source cannot be read: "+p.Err
		case p.Key && x.Login && len(x.Had) == 0:
			x.State, x.Why = site.NeverSent, "it is a private key, and Slipway only logs in with it to these nodes"
			continue
		case p.Version == "":
			x.State, x.Why = site.ReplacedUnknown, "without a site key this daemon cannot tell values apart"
		case len(x.Had[node]) == 0:
			x.State, x.Why = site.ReplacedUnknown, "which value "+node+" had is not known yet"
		case !slices.ContainsFunc(x.Had[node], func(v string) bool { return site.ComparableVersions(v, p.Version) }):
			x.State, x.Why = site.ReplacedUnknown, "the site key was replaced since, so its values cannot be compared"
		case slices.Contains(read, p.Version):
			x.State, x.Why = site.ReplacedNot, "its source still has a value that "+node+" had"
		default:
			continue
		}
		return
	}
	if x.State != "" {
		return
	}
	spread(s, i, x, name, used, machines, f, read)
}

// spread looks at who has the new value of a credential. Only a login that was accepted, or a look into a system, shows it.
// Machines are the names of nodes by their machines.
func spread(s *site.Site, i *site.IncidentState, x *site.Exposed, name string, used *secretUse, machines map[string]string, f Facts, read []string) {
	_, derived := s.Credentials[name].Derived()
	holders := map[string]bool{}
	if !derived {
		for holder, d := range f.Delivered {
			for _, g := range d.Unreplaced(x.Secret, read) {
				holders[nameOf(s, machines, holder, g.Machine)] = true
			}
		}
		if used != nil {
			for holder := range used.by {
				holders[holder] = true
			}
		}
	}
	delete(holders, sweep) // it sends what the source has
	for _, node := range x.Nodes {
		delete(holders, node)
	}
	for _, holder := range slices.Sorted(maps.Keys(holders)) {
		note(x, name, holder, withInside(f.Delivered[holder].Lasts(x.Secret), used, holder), f)
	}
	for _, node := range x.Nodes {
		if lasts, may := kept(i, x, node, used, f); may {
			note(x, name, node, lasts, f)
		}
	}
	slices.Sort(x.Old)
	slices.Sort(x.New)
	if len(x.Old) == 0 {
		x.State, x.Why = site.ReplacedAll, "its source has another value"
		if len(x.New) > 0 {
			x.Why += ", and so have all that Slipway gave the old one"
		}
		return
	}
	x.State, x.Why = site.ReplacedPartly, fmt.Sprintf("its source has another value, and Slipway has not seen that %s has it", say.Some(x.Old, 10))
}

// note notes a holder among those that were seen with the present value in each place where it is, or among the others.
func note(x *site.Exposed, credential, holder string, lasts []site.Delivery, f Facts) {
	p, _ := f.Present(credential, holder)
	if len(lasts) > 0 && p.Version != "" && !slices.ContainsFunc(lasts, func(g site.Delivery) bool { return g.Seen.IsZero() || g.Version != p.Version }) {
		x.New = append(x.New, holder)
	} else {
		x.Old = append(x.Old, holder)
	}
}

// withInside adds a delivery that was not seen where the design puts a secret into a node, and the records only have
// logins with it: these say nothing of the value inside.
func withInside(lasts []site.Delivery, used *secretUse, node string) []site.Delivery {
	if used != nil && used.sent[node] && !slices.ContainsFunc(lasts, func(g site.Delivery) bool { return g.As != site.AsLogin }) {
		return append(lasts, site.Delivery{})
	}
	return lasts
}

// kept are the latest deliveries of a secret to a node of an incident, in each place that may still accept it: its BMC, and
// from its release on its system, until that is installed again. May is false where no place may, as where a search sent it
// to a BMC whose password it is not.
func kept(i *site.IncidentState, x *site.Exposed, node string, used *secretUse, f Facts) (lasts []site.Delivery, may bool) {
	n, own := i.Nodes[node]
	runs := own && !n.Released.IsZero() || !own && i.IsReleased()
	anew := installedSince(i, node, f)
	var given site.Delivered
	for _, g := range deliveriesTo(i, node, f) {
		if g.Secret == x.Secret && (g.To == site.ToBMC || runs && (anew == nil || g.Generation >= anew.Generation)) {
			given.Given = append(given.Given, g)
		}
	}
	slices.SortStableFunc(given.Given, func(a, b site.Delivery) int { return a.When.Compare(b.When) })
	lasts = given.Lasts(x.Secret)
	if runs && anew == nil {
		lasts = withInside(lasts, used, node)
	}
	searched := used != nil && used.by[sweep] && !used.by[node]
	return lasts, len(lasts) > 0 || used != nil && used.bmcs[node] || runs && anew == nil && !searched
}

// installedSince is the system that Slipway was seen to have installed on a node since it acted; nil for none. One that a
// person accepted in its place is none. Nor is one that was found again with the generation that it had, as after a move
// of its disks or a return of the node.
func installedSince(i *site.IncidentState, node string, f Facts) *site.Installation {
	is := f.Installed(node, i.Nodes[node])
	if is == nil || !is.Proven || !is.ByUs() || !is.Since.After(i.Acted) {
		return nil
	}
	if n, own := i.Nodes[node]; own && (!n.Machine.Known() || is.Generation <= n.Generation) {
		return nil
	}
	return is
}

// nameOf is the name under which a holder counts: where it has left the design, that of the node that has its machine now.
func nameOf(s *site.Site, machines map[string]string, holder, machine string) string {
	if now := machines[machine]; now != "" && s.Nodes[holder] == nil {
		return now
	}
	return holder
}

// judgeOther judges a secret that is no credential.
func judgeOther(i *site.IncidentState, x *site.Exposed, f Facts) {
	node := x.Nodes[0]
	own := strings.HasPrefix(x.Secret, site.SecretHostKey) || strings.HasPrefix(x.Secret, site.SecretDiskPassphrase)
	switch is := installedSince(i, node, f); {
	case own && is == nil:
		x.State, x.Why = site.ReplacedNot, "Slipway has not seen a later generation of the system"
	case own && hasAnother(i, x, node, is, f):
		x.State, x.Why = site.ReplacedAll, "the system was installed again since, with another one"
	case own:
		x.State, x.Why = site.ReplacedNot, "the system was installed again since, and no record shows that it got another one"
	case x.Until.IsZero():
		x.State, x.Why = site.ReplacedUnknown, "Slipway cannot see whether somebody replaced it"
	case f.Now.After(x.Until):
		x.State, x.Why = site.ReplacedAll, "it has ended at "+at(x.Until)
	default:
		x.State, x.Why = site.ReplacedNot, "others accept it until "+at(x.Until)
	}
}

// hasAnother reports whether the records show that an installation was given another one than those that the node had,
// and none of these.
func hasAnother(i *site.IncidentState, x *site.Exposed, node string, is *site.Installation, f Facts) (another bool) {
	secret, machine := strings.TrimSuffix(x.Secret, " of "+node), i.Nodes[node].Machine
	for _, g := range deliveriesTo(i, node, f) {
		if g.Secret != secret || g.Generation != is.Generation || machine.Known() && g.Machine != machine.String() {
			continue
		}
		if slices.Contains(x.Had[node], g.Version) {
			return false
		}
		another = true
	}
	return another
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// union returns what is in either list, sorted.
func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(a), b...))))
}
