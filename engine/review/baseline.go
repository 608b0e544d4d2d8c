package review

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/placement"
	"github.com/slipway-gitops/slipway/engine/plan"
	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/rollout"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/site"
)

// baseline is what plans are compared with: the branch without any proposal, or the design in force, and what is known of the
// machines. Comments below call it the branch.
type baseline struct {
	planner planner
	name    string // in a sentence
	base    site.Revision
	unread  bool // the repository does not have base any more: only the design in force is known

	asked    bool
	known    site.Known
	design   *site.Site // of the branch
	findings []site.Finding
	plan     site.Plan
	waiting  site.Losses // the losses of the branch
	// placed holds the machines that have a place, by the design in force or by the branch.
	placed map[string]site.Placed

	merged *site.Site // result of the last proposal; nil if it has none
	shown  site.Known // the facts for its comment
	nodes  []site.NodeConsequence
}

// ask evaluates and plans the branch, once. If its newest commit is broken, ask uses the design
// in force.
func (b *baseline) ask(ctx context.Context) error {
	if b.asked {
		return nil
	}
	b.known = b.planner.site.Known()
	var design *site.Site
	var findings []site.Finding
	if !b.unread {
		var err error
		if design, findings, err = b.planner.evaluate(ctx, b.base); err != nil {
			return fmt.Errorf("evaluate %s: %w", b.name, err)
		}
		design, findings = placement.PlaceEvaluated(design, findings, b.known.Placed)
	}
	if site.HasErrors(findings) || design == nil {
		design = b.planner.site.Design()
	}
	b.design, b.findings, b.asked, b.placed = design, findings, true, b.known.Placed
	if design != nil {
		b.placed = placement.With(design, b.known.Placed)
		b.plan = plan.Site(design, b.base.ID, b.known)
		b.waiting = b.plan.Destroys()
	}
	return nil
}

// differ adds to a review what its merged design changes.
func (b *baseline) differ(v *site.Review) {
	all := plan.Site(b.merged, v.Proposal.Head, b.known)
	v.Plan, v.Pending, v.Spared = plan.Beyond(&b.plan, &all)
	v.Waiting = b.waiting
	v.Plan.Forecast = rollout.Forecast(b.merged, &v.Plan, b.known, v.When)
	b.nodes = present.Consequences(v, &all, present.Designs{InForce: b.planner.site.Design(), Branch: b.design, Merged: b.merged})
}

// racks returns those of the last proposal.
func (b *baseline) racks() map[string]*site.Rack {
	if b.merged == nil {
		return nil
	}
	return b.merged.Racks
}

// hindrances returns the findings to report for a design that cannot be planned: its own, and
// the errors of the branch, which prevent planning as well.
func hindrances(all, before []site.Finding) (told []site.Finding, common int) {
	var others []site.Finding
	for _, f := range all {
		if f.Severity == site.SeverityError {
			told = append(told, f)
		} else {
			others = append(others, f)
		}
	}
	fresh, common := newFindings(others, before)
	return append(told, fresh...), common
}

// newFindings returns the findings that are not in before, even if their lines have moved, and
// how many both lists have in common.
func newFindings(all, before []site.Finding) (fresh []site.Finding, common int) {
	type key struct {
		code, file, path, node, message string
		severity                        site.Severity // a warning does not excuse an error
	}
	keyOf := func(f site.Finding) key { return key{f.Code, f.File, f.Path, f.Node, f.Message, f.Severity} }
	had := map[key]bool{}
	for _, f := range before {
		had[keyOf(f)] = true
	}
	for _, f := range all {
		if had[keyOf(f)] {
			common++
		} else {
			fresh = append(fresh, f)
		}
	}
	return fresh, common
}

// changedRules returns which rules for designs and rollouts differ from the branch.
func changedRules(branch, merged *site.Site) []string {
	if branch == nil {
		return nil
	}
	var all []string
	if !reflect.DeepEqual(branch.Rollout, merged.Rollout) {
		all = append(all, "rollout")
	}
	if was, is := branch.Install, merged.Install; was != is {
		text := "how machines are installed (site.install)"
		if is.Allows(site.TrustNetwork) && !was.Allows(site.TrustNetwork) {
			text += `, also at the trust "network", where whoever controls their network could pose as the daemon`
		}
		all = append(all, text)
	}
	if moved := changedEndpoints(branch, merged); len(moved) > 0 {
		all = append(all, "where credentials are sent, and what proves who gets them (endpoints): "+say.Some(moved, mostMoved))
	}
	all = append(all, changedAccounts(branch, merged)...)
	if branch.SSH.Epoch != merged.SSH.Epoch {
		all = append(all, "which SSH authority of the daemon signs (site.ssh.epoch)")
	}
	if !reflect.DeepEqual(branch.Discovery, merged.Discovery) {
		all = append(all, "where machines are looked for, and what is sent to them (site.discovery)")
	}
	for _, part := range []struct {
		name    string
		changed []string
	}{
		{"policies", changedKeys(branch.Policies, merged.Policies)},
		{"suppressions", changedKeys(branch.Suppressions, merged.Suppressions)},
		{"approvals", changedKeys(branch.Approvals, merged.Approvals)},
		{"site keys", changedItems(branch.Keys, merged.Keys)},
		{"authorities whose SSH certificates log in (site.ssh.users)", changedItems(branch.SSH.Users, merged.SSH.Users)},
		{"authorities whose certificates nodes prove themselves by over SSH (site.ssh.hosts)", changedItems(branch.SSH.Hosts, merged.SSH.Hosts)},
		{"people who may not log in by SSH certificate (site.ssh.revoked.people)", changedItems(branch.SSH.Revoked.People, merged.SSH.Revoked.People)},
		{"SSH keys that may not log in (site.ssh.revoked.keys)", changedItems(branch.SSH.Revoked.Keys, merged.SSH.Revoked.Keys)},
		{"credentials", changedKeys(branch.Credentials, merged.Credentials)},
		{"epochs of derived passwords (credentials)", changedEpochs(branch, merged)},
		{"roles", changedKeys(branch.Roles, merged.Roles)},
		{"racks", changedKeys(branch.Racks, merged.Racks)},
		{"windows", changedKeys(branch.Windows, merged.Windows)},
	} {
		if len(part.changed) > 0 {
			all = append(all, part.name+": "+strings.Join(part.changed, ", "))
		}
	}
	if reworded := len(branch.Policies) > 0 && branch.Ruling != "" && branch.Ruling != merged.Ruling; reworded {
		all = append(all, "the text of policies or suppressions, or what they refer to")
	}
	return all
}

// mostMoved is how many nodes with changed endpoints are named.
const mostMoved = 10

// changedEndpoints returns the nodes and hypervisors that exist before and after and have a
// changed endpoint: its address, its credential, or what proves who answers there.
func changedEndpoints(branch, merged *site.Site) (names []string) {
	for name, is := range merged.Hypervisors {
		if was := branch.Hypervisors[name]; was != nil && (was.URL != is.URL || was.Credential != is.Credential || !reflect.DeepEqual(was.Trust, is.Trust)) {
			names = append(names, "hypervisor "+name)
		}
	}
	for name, is := range merged.Nodes {
		if was := branch.Nodes[name]; was != nil && !reflect.DeepEqual(was.Endpoints, is.Endpoints) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// changedAccounts says which accounts of BMCs are others than on the branch, and who becomes an
// administrator of them: whoever knows such a password reaches console, media and power of
// the machine past Slipway.
func changedAccounts(branch, merged *site.Site) (all []string) {
	administrators, others := map[string][]string{}, map[string][]string{}
	for name, is := range merged.Nodes {
		var had map[string]site.BMCAccount
		if was := branch.Nodes[name]; was != nil {
			had = was.BMC.Accounts
		}
		for account, a := range is.BMC.Accounts {
			before, there := had[account]
			switch {
			case there && before == a:
			case a.IsEnabled() && a.Role == "administrator":
				administrators[account] = append(administrators[account], name)
			default:
				others[account] = append(others[account], name)
			}
		}
	}
	for _, part := range []struct {
		what string
		of   map[string][]string
	}{{"who is an administrator of BMCs (bmc.accounts)", administrators}, {"other accounts of BMCs (bmc.accounts)", others}} {
		for _, account := range slices.Sorted(maps.Keys(part.of)) {
			slices.Sort(part.of[account])
			all = append(all, fmt.Sprintf("%s: %s on %s", part.what, account, say.Some(part.of[account], mostMoved)))
		}
	}
	return all
}

// changedEpochs says which derived passwords are replaced, and which are not as their epoch is lowered.
func changedEpochs(branch, merged *site.Site) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(merged.Credentials)) {
		is, derived := merged.Credentials[name].Derived()
		was, before := branch.Credentials[name].Derived()
		switch {
		case !derived || !before || is.Epoch == was.Epoch:
		case is.Epoch < was.Epoch:
			all = append(all, fmt.Sprintf("%s from %d down to %d, which Slipway refuses where the later password was set", name, was.Epoch, is.Epoch))
		default:
			all = append(all, fmt.Sprintf("%s from %d to %d", name, was.Epoch, is.Epoch))
		}
	}
	return all
}

// changedItems are those of two lists that only one of them has.
func changedItems(a, b []string) (changed []string) {
	for _, x := range slices.Concat(a, b) {
		if slices.Contains(a, x) != slices.Contains(b, x) {
			changed = append(changed, x)
		}
	}
	return changed
}

func changedKeys[V any](a, b map[string]V) (changed []string) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if v, ok := b[name]; !ok || !reflect.DeepEqual(a[name], v) {
			changed = append(changed, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			changed = append(changed, name)
		}
	}
	return changed
}
