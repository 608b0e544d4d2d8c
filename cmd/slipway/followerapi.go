package main

import (
	"context"
	"io"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// These implement control.Daemon for a follower, which answers only who leads.

func (w *follower) Export(context.Context, io.Writer) error              { return w.elsewhere() }
func (w *follower) Design(string) (*site.Site, error)                    { return nil, w.elsewhere() }
func (w *follower) Where(string, string) (rack, role string, known bool) { return "", "", false }
func (w *follower) Chart(string) (site.RolloutChart, error) {
	return site.RolloutChart{}, w.elsewhere()
}
func (w *follower) Proposals(string) ([]site.ProposalBrief, error) { return nil, w.elsewhere() }
func (w *follower) Proposal(string, int) (site.ProposalDetail, error) {
	return site.ProposalDetail{}, w.elsewhere()
}
func (w *follower) ProposalsOf(string, string) ([]site.NodeProposal, error) {
	return nil, w.elsewhere()
}
func (w *follower) Commits(context.Context, string) (site.CommitList, error) {
	return site.CommitList{}, w.elsewhere()
}
func (w *follower) Commit(context.Context, string, string) (site.CommitDetail, error) {
	return site.CommitDetail{}, w.elsewhere()
}
func (w *follower) PlanCommit(context.Context, string, string) (site.CommitDetail, error) {
	return site.CommitDetail{}, w.elsewhere()
}
func (w *follower) Verification(string) (site.Verification, error) {
	return site.Verification{}, w.elsewhere()
}
func (w *follower) RunVerification(context.Context, string, site.VerificationRequest) (site.VerificationRun, error) {
	return site.VerificationRun{}, w.elsewhere()
}
func (w *follower) Known(string) (site.Known, error)            { return site.Known{}, w.elsewhere() }
func (w *follower) Events(string, uint64) ([]site.Event, error) { return nil, w.elsewhere() }
func (w *follower) History(context.Context, string, string) ([]site.Event, error) {
	return nil, w.elsewhere()
}
func (w *follower) MachineLog(string, string) (site.MachineLog, error) {
	return site.MachineLog{}, w.elsewhere()
}
func (w *follower) Watched(string) (site.Watched, error) { return site.Watched{}, w.elsewhere() }
func (w *follower) File(context.Context, string, string, string) (item.Content, error) {
	return item.Content{}, w.elsewhere()
}
func (w *follower) Closeup(context.Context, string, string) (site.Closeup, error) {
	return site.Closeup{}, w.elsewhere()
}
func (w *follower) Console(context.Context, string, string) ([]byte, error) {
	return nil, w.elsewhere()
}
func (w *follower) Said(context.Context, string, string) ([]site.Said, error) {
	return nil, w.elsewhere()
}
func (w *follower) CertifyLogin(context.Context, string, site.SSHRequest) (site.SSHGrant, error) {
	return site.SSHGrant{}, w.elsewhere()
}
func (w *follower) Do(context.Context, string, site.Order) (string, error) { return "", w.elsewhere() }
func (w *follower) AddAudit(_ context.Context, _ string, e site.AuditEntry) (site.AuditEntry, error) {
	return e, w.elsewhere()
}
func (w *follower) EndAudit(context.Context, string, site.AuditEntry) error { return w.elsewhere() }
func (w *follower) Audit(context.Context, string, uint64, int) ([]site.AuditEntry, error) {
	return nil, w.elsewhere()
}
