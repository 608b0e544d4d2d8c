package record

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/slipway-gitops/slipway/engine/site"
)

const proofsBelow = "proofs/"

// PutProof records the BMC to which derived passwords of a machine go. It outlives the machine's node.
func (s *Site) PutProof(ctx context.Context, p site.MachineProof) error {
	return s.put(ctx, proofsBelow+url.PathEscape(p.From), p)
}

// Proofs returns what is known of each machine whose UUID passwords were ever derived from.
func (s *Site) Proofs(ctx context.Context) (all []site.MachineProof, err error) {
	err = s.each(ctx, proofsBelow, func(_ string, value []byte) error {
		var p site.MachineProof
		if err := json.Unmarshal(value, &p); err != nil {
			return damaged(err)
		}
		all = append(all, p)
		return nil
	})
	return all, err
}
