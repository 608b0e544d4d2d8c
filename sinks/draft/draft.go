// Package draft proposes changes to a site's design that adopt what was observed of its machines. Each change is
// one commit on its own branch and, with a forge, a pull request.
//
// Proposals are not recorded. A branch's name contains a digest of the node, the facet and the values, so the
// remote's branches and the forge's pull requests show earlier proposals. Nothing is force-pushed, and no branch is
// pushed twice.
package draft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/engine/forge"
	"github.com/slipway-gitops/slipway/engine/repo"
	"github.com/slipway-gitops/slipway/engine/site"
)

// most is the maximum number of branches that a site may have at once.
const most = 10

// Config configures a Proposer.
type Config struct {
	Remote repo.Remote
	// Base is the branch that the site follows.
	Base string
	Site string
	// Edit changes a design, and proves that nothing else changes.
	Edit func(ctx context.Context, files fs.FS, a site.Amendment) (site.Amended, error)
	// Forge opens the pull requests; nil for none.
	Forge forge.Proposer
	Log   *slog.Logger
}

// Proposer proposes changes for one site. It implements engine.Proposer. It is not safe for concurrent use.
type Proposer struct {
	Config
	prefix string
	// refused says why changes of this revision cannot be made, by branch.
	revision string
	refused  map[string]string
	// pushed are the commits that this process has pushed, by branch.
	pushed map[string]string
}

// New makes a Proposer without contacting the remote.
func New(c Config) *Proposer {
	return &Proposer{Config: c, pushed: map[string]string{}, prefix: "slipway/drift/" + plain(c.Site) + "/"}
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// plain makes a name fit for a branch's name. Git refuses "..", ".lock" and more there.
func plain(name string) string { return unfit.ReplaceAllString(name, "-") }

// branchOf is the branch of a change. The digest keeps names apart that plain makes equal.
func (p *Proposer) branchOf(a site.Amendment) string {
	return p.prefix + plain(a.Node) + "-" + plain(string(a.Facet)) + "-" + a.Digest()
}

// Propose implements engine.Proposer.
func (p *Proposer) Propose(ctx context.Context, revision string, all []site.Amendment, fits func(site.Amendment, *site.Site) string) ([]site.Drafted, error) {
	heads, err := p.Remote.Heads(ctx, p.prefix)
	if err != nil {
		return nil, err
	}
	if p.revision != revision {
		p.revision, p.refused = revision, map[string]string{}
	}
	r := round{Proposer: p, branches: slices.Collect(maps.Keys(heads)), heads: heads, fits: fits}
	done := make([]site.Drafted, len(all))
	for i, a := range all {
		if err == nil {
			done[i], err = r.one(ctx, a)
		} else { // the remote or the forge would also refuse the others
			done[i] = site.Drafted{Why: "not looked at yet: " + err.Error()}
		}
		done[i].Facet = a.Facet
	}
	return done, err
}

// round is one call of Propose.
type round struct {
	*Proposer
	branches []string          // the remote's branches
	heads    map[string]string // of the branches at the start
	fits     func(site.Amendment, *site.Site) string
	store    *repo.Store // contains the base; nil until needed
	head     string
}

// one proposes one change, unless it was proposed before.
func (r *round) one(ctx context.Context, a site.Amendment) (d site.Drafted, err error) {
	branch := r.branchOf(a)
	pushed := slices.Contains(r.branches, branch)
	if pushed {
		d.Branch = branch
	}
	switch {
	case a.Why != "":
		return site.Drafted{Why: a.Why}, nil
	case r.refused[branch] != "":
		return site.Drafted{Why: r.refused[branch]}, nil
	case !pushed && len(r.branches) >= most:
		return site.Drafted{Why: fmt.Sprintf("there are %d branches %s… already: merge or close what they propose, and delete them", len(r.branches), r.prefix)}, nil
	}
	if r.Forge != nil {
		is, found, err := r.Forge.Proposed(ctx, branch)
		if err != nil {
			d.Why = cmp.Or(d.Why, err.Error())
			return d, err
		}
		if found && (pushed || is.State != site.ProposalMerged) {
			d = told(branch, is)
			if pushed && !r.ownHead(branch) && is.State != site.ProposalMerged && is.State != site.ProposalClosed {
				d.Why = fmt.Sprintf("Slipway has not pushed what is on the branch %s since it was started, so read it before you merge it", branch)
			}
			return d, nil
		}
	}
	if pushed && !r.ownHead(branch) {
		return site.Drafted{Why: foreign(branch)}, nil
	}
	if other := r.another(branch, a); !pushed && other != "" {
		return site.Drafted{Why: fmt.Sprintf("the branch %s proposes other values of this facet: merge it or close its pull request, and delete the branch", other)}, nil
	}
	if !pushed {
		if why, err := r.push(ctx, branch, a); why != "" || err != nil {
			return site.Drafted{Why: why}, err
		}
		d.Branch = branch
	}
	if r.Forge == nil {
		return d, nil
	}
	is, err := r.Forge.Propose(ctx, forge.Draft{Branch: branch, Base: r.Base, Title: title(a), Body: body(a)})
	if err != nil {
		d.Why = err.Error()
		return d, err
	}
	r.Log.Info("drift proposed", "site", r.Site, "node", a.Node, "facet", string(a.Facet), "proposal", is.Number)
	return told(branch, is), nil
}

// ownHead reports whether this process has pushed what is on the branch.
func (r *round) ownHead(branch string) bool { return r.pushed[branch] == r.heads[branch] }

// foreign says why an existing branch is not proposed: this process has not pushed it, so anybody may have written
// its content.
func foreign(branch string) string {
	return fmt.Sprintf("the branch %s is there, and Slipway has not pushed it since it was started: read it, then merge it or delete it", branch)
}

// another is a branch with other values of the same node and facet; empty for none.
func (r *round) another(branch string, a site.Amendment) string {
	of := strings.TrimSuffix(branch, a.Digest())
	for _, b := range slices.Sorted(slices.Values(r.branches)) {
		if digest, ok := strings.CutPrefix(b, of); ok && len(digest) == len(a.Digest()) && !strings.Contains(digest, "-") {
			return b
		}
	}
	return ""
}

func told(branch string, p site.Proposal) site.Drafted {
	return site.Drafted{Branch: branch, Number: p.Number, State: p.State, URL: p.URL}
}

// behind says why nothing is proposed while the branch is at another commit than the design in force.
const behind = "the branch is at another commit than the design in force; Slipway waits until that is in force"

// push makes the change and pushes it, or says why not.
func (r *round) push(ctx context.Context, branch string, a site.Amendment) (why string, err error) {
	if err := r.fetch(ctx); err != nil {
		return "", err
	}
	if r.head != r.revision {
		return behind, nil
	}
	files, err := r.store.Files(r.head)
	if err != nil {
		return "", err
	}
	done, err := r.Edit(ctx, files, a)
	if err != nil {
		return fmt.Sprintf("the design of %s cannot be changed: %v", a.Node, err), nil // the others can be proposed
	}
	if why := done.Why; why != "" {
		r.refused[branch] = why
		return why, nil
	}
	if why := r.fits(a, done.Site); why != "" {
		return why, nil
	}
	tree, err := r.store.Tree(r.head)
	if err != nil {
		return "", err
	}
	for name, text := range done.Files {
		if err := tree.Set(name, text); err != nil {
			return "", err
		}
	}
	id, err := r.Remote.Branch(ctx, branch, tree, repo.Message{Text: message(r.Site, a), When: time.Now(), Author: "slipway", Email: "slipway@localhost"})
	switch {
	case errors.Is(err, repo.ErrMoved):
		return "somebody else has pushed the branch " + branch + " meanwhile", nil
	case err != nil:
		return "", fmt.Errorf("branch %s: %w", branch, err)
	}
	r.pushed[branch] = id
	r.branches = append(r.branches, branch)
	r.Log.Info("drift pushed", "site", r.Site, "node", a.Node, "facet", string(a.Facet), "branch", branch)
	return "", nil
}

// fetch fetches the newest commit of the base once.
func (r *round) fetch(ctx context.Context) error {
	if r.store != nil {
		return nil
	}
	store, err := repo.OpenStore("")
	if err != nil {
		return err
	}
	head, err := r.Remote.Fetch(ctx, store, r.Base, "")
	if err == nil {
		r.store, r.head = store, head
	}
	return err
}

// title, body and message only name places in the design. What machines report appears only in the changed lines,
// as a literal. In a text, a forge could take it for a command, and a commit message can close the issue that it
// names.
func title(a site.Amendment) string {
	return fmt.Sprintf("%s: adopt the %s that Slipway observed", a.Node, a.Facet)
}

func body(a site.Amendment) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The %s of %s is not as designed: it was, and has changed on the machine. "+
		"This pull request changes the design to what Slipway observed, at:\n\n", a.Facet, a.Node)
	for _, v := range a.Values {
		fmt.Fprintf(&b, "- `%s`\n", strings.ReplaceAll(site.Printable(v.At()), "`", "'"))
	}
	fmt.Fprintf(&b, "\nSlipway has evaluated the changed design: nothing else differs. Merging ends the difference, and writes nothing to the machine. "+
		"To keep the design, close this pull request: Slipway does not propose the same values again. "+
		"`drift: %s: \"propose\"` in the design asks for this.\n", a.Facet)
	return b.String()
}

func message(siteName string, a site.Amendment) string {
	var b strings.Builder
	b.WriteString(title(a) + "\n\n")
	for _, v := range a.Values {
		fmt.Fprintf(&b, "- %s\n", site.Printable(v.At()))
	}
	return b.String() + "\nSlipway-Site: " + siteName + "\n"
}
