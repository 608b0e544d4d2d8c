package firstboot

import (
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// NetworkConfig returns how the system reaches its networks, in version 2 of
// cloud-init's format, which is netplan's.
func NetworkConfig(s *site.Site, n *site.Node) (map[string]any, error) {
	links, err := s.Wiring(n)
	return item.Netplan(links), err
}
