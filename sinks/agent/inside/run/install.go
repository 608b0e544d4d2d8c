package run

import (
	"context"

	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// installLocked puts a system onto the disks, or erases them, with the machine's lock held and in a current term.
// It records the start first. The record stays if the work does not finish.
func (p *Program) installLocked(ctx context.Context, r wire.Request, result *wire.Result) error {
	switch {
	case r.Install == nil:
		return refused("the request to %s does not say what to %s", r.Op, r.Op)
	case p.Install == nil:
		return refused("this program works in an installed system, and never installs another one over it")
	}
	unlock, err := p.lock("install")
	if err != nil {
		return err
	}
	defer unlock()
	if err := p.fence(r.Site, r.Term); err != nil {
		return err
	}
	result.Term = max(result.Term, r.Term)
	j, err := p.readJournal()
	if err != nil {
		return err
	}
	if j.Begun != nil {
		p.Host.Tell(j.Begun.unended())
	}
	j.Begun = &begun{Facet: string(r.Op), Keys: []string{r.Node}, Site: r.Site, Term: r.Term, At: p.now().UTC()}
	if err := p.writeJournal(j); err != nil {
		return err
	}
	if result.Installed, err = p.Install(ctx, p.Host, r); err != nil {
		return p.giveUp(&j, err)
	}
	return p.end(&j)
}
