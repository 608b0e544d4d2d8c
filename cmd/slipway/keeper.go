package main

import (
	"context"
	"fmt"

	"github.com/slipway-gitops/slipway/engine"
	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// keeper answers the API for one site.
type keeper struct {
	engine *engine.Engine
	files  artifact.Keeper // nil for none
}

func (k keeper) Sites() []string { return []string{k.engine.Site} }

func (k keeper) mine(name string) error {
	if name != "" && name != k.engine.Site {
		return fmt.Errorf("%w: this daemon manages site %s, not %s", site.ErrNotFound, k.engine.Site, name)
	}
	return nil
}

func (k keeper) Report(name string) (site.Report, error) {
	if err := k.mine(name); err != nil {
		return site.Report{}, err
	}
	return k.engine.Report(), nil
}

func (k keeper) Chart(name string) (site.RolloutChart, error) {
	if err := k.mine(name); err != nil {
		return site.RolloutChart{}, err
	}
	return k.engine.Chart(), nil
}

func (k keeper) Proposals(name string) ([]site.ProposalBrief, error) {
	if err := k.mine(name); err != nil {
		return nil, err
	}
	return k.engine.Proposals()
}

func (k keeper) Proposal(name string, number int) (site.ProposalDetail, error) {
	if err := k.mine(name); err != nil {
		return site.ProposalDetail{}, err
	}
	return k.engine.Proposal(number)
}

func (k keeper) ProposalsOf(name, node string) ([]site.NodeProposal, error) {
	if err := k.mine(name); err != nil {
		return nil, err
	}
	return k.engine.ProposalsOf(node), nil
}

func (k keeper) Commits(ctx context.Context, name string) (site.CommitList, error) {
	if err := k.mine(name); err != nil {
		return site.CommitList{}, err
	}
	return k.engine.Commits(ctx)
}

func (k keeper) Commit(ctx context.Context, name, id string) (site.CommitDetail, error) {
	if err := k.mine(name); err != nil {
		return site.CommitDetail{}, err
	}
	return k.engine.Commit(ctx, id)
}

func (k keeper) PlanCommit(ctx context.Context, name, id string) (site.CommitDetail, error) {
	if err := k.mine(name); err != nil {
		return site.CommitDetail{}, err
	}
	return k.engine.PlanCommit(ctx, id)
}

func (k keeper) Verification(name string) (site.Verification, error) {
	if err := k.mine(name); err != nil {
		return site.Verification{}, err
	}
	return k.engine.Verification(), nil
}

func (k keeper) RunVerification(ctx context.Context, name string, r site.VerificationRequest) (site.VerificationRun, error) {
	if err := k.mine(name); err != nil {
		return site.VerificationRun{}, err
	}
	return k.engine.Verify(ctx, r)
}

func (k keeper) Known(name string) (site.Known, error) {
	if err := k.mine(name); err != nil {
		return site.Known{}, err
	}
	return k.engine.Known(), nil
}

func (k keeper) Events(name string, after uint64) ([]site.Event, error) {
	if err := k.mine(name); err != nil {
		return nil, err
	}
	return k.engine.Events(after), nil
}

func (k keeper) History(ctx context.Context, name, node string) ([]site.Event, error) {
	if err := k.mine(name); err != nil {
		return nil, err
	}
	return k.engine.History(ctx, node)
}

func (k keeper) MachineLog(name, node string) (site.MachineLog, error) {
	if err := k.mine(name); err != nil {
		return site.MachineLog{}, err
	}
	return k.engine.MachineLog(node)
}

func (k keeper) Watched(name string) (site.Watched, error) {
	if err := k.mine(name); err != nil {
		return site.Watched{}, err
	}
	return k.engine.Watched(), nil
}

func (k keeper) Closeup(ctx context.Context, name, node string) (site.Closeup, error) {
	if err := k.mine(name); err != nil {
		return site.Closeup{}, err
	}
	return k.engine.Closeup(ctx, node)
}

func (k keeper) File(_ context.Context, name, node, key string) (item.Content, error) {
	if err := k.mine(name); err != nil {
		return item.Content{}, err
	}
	return k.engine.File(node, key)
}

func (k keeper) Console(ctx context.Context, name, node string) ([]byte, error) {
	if err := k.mine(name); err != nil {
		return nil, err
	}
	return k.engine.Console(ctx, node)
}

func (k keeper) Said(ctx context.Context, name, node string) ([]site.Said, error) {
	if err := k.mine(name); err != nil {
		return nil, err
	}
	return k.engine.Said(ctx, node)
}

func (k keeper) CertifyLogin(ctx context.Context, name string, r site.SSHRequest) (site.SSHGrant, error) {
	if err := k.mine(name); err != nil {
		return site.SSHGrant{}, err
	}
	return k.engine.CertifyLogin(ctx, r)
}

func (k keeper) Do(ctx context.Context, name string, o site.Order) (string, error) {
	if err := k.mine(name); err != nil {
		return "", err
	}
	return k.engine.Do(ctx, o)
}

func (k keeper) Artifacts() artifact.Keeper { return k.files }

func (k keeper) Design(name string) (*site.Site, error) {
	if err := k.mine(name); err != nil {
		return nil, err
	}
	return k.engine.Design(), nil
}

func (k keeper) Where(name, node string) (rack, role string, known bool) {
	if k.mine(name) != nil {
		return "", "", false
	}
	return k.engine.Where(node)
}

func (k keeper) Access(name string) (approved site.GrantedState, inForce site.Granted, err error) {
	if err := k.mine(name); err != nil {
		return site.GrantedState{}, site.Granted{}, err
	}
	approved, inForce = k.engine.Access()
	return approved, inForce, nil
}

func (k keeper) AccessReport(name string) (site.AccessReport, error) {
	if err := k.mine(name); err != nil {
		return site.AccessReport{}, err
	}
	return k.engine.AccessReport(), nil
}

func (k keeper) AddAudit(ctx context.Context, name string, e site.AuditEntry) (site.AuditEntry, error) {
	if err := k.mine(name); err != nil {
		return e, err
	}
	select {
	case <-k.engine.Ready(): // nothing is written before the records were read
		return k.engine.Records.AddAudit(ctx, e)
	case <-ctx.Done():
		return e, context.Cause(ctx)
	}
}

func (k keeper) EndAudit(ctx context.Context, name string, e site.AuditEntry) error {
	if err := k.mine(name); err != nil {
		return err
	}
	return k.engine.Records.EndAudit(ctx, e)
}

func (k keeper) Audit(ctx context.Context, name string, after uint64, most int) ([]site.AuditEntry, error) {
	if err := k.mine(name); err != nil {
		return nil, err
	}
	return k.engine.Records.Audit(ctx, after, most)
}
