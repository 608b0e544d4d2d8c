package record

import (
	"context"
	"encoding/json"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

const leasesKey = "leases/"

func leaseKey(l site.Lease) string { return leasesKey + l.Network + "/" + l.Address }

// PutLease records a lease that the DHCP server grants.
func (s *Site) PutLease(ctx context.Context, l site.Lease) error {
	return s.put(ctx, leaseKey(l), l)
}

// DropLease deletes the lease of an address.
func (s *Site) DropLease(ctx context.Context, l site.Lease) error {
	return s.commit(ctx, clientv3.OpDelete(s.prefix+leaseKey(l)))
}

// Leases returns the recorded leases, sorted by network and address as text.
func (s *Site) Leases(ctx context.Context) ([]site.Lease, error) {
	var all []site.Lease
	err := s.each(ctx, leasesKey, func(_ string, value []byte) error {
		var l site.Lease
		if err := json.Unmarshal(value, &l); err != nil {
			return damaged(err)
		}
		all = append(all, l)
		return nil
	})
	return all, err
}
