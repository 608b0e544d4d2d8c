// Package firstboot computes what the design gives to the system of a virtual
// machine at its first boot: who may log in, and how it reaches its networks. The
// result has the form that cloud-init reads from a NoCloud data source
// (https://docs.cloud-init.io, "NoCloud").
package firstboot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// parts are the parts of the design that a first boot sets, by their path in a
// node, with their place in cloud-init's data.
var parts = map[string]func(user, network map[string]any) any{
	"system.users":     func(user, _ map[string]any) any { return user["users"] },
	"system.time.zone": func(user, _ map[string]any) any { return user["timezone"] },
	"interfaces":       func(_, network map[string]any) any { return network["ethernets"] },
	"bonds":            func(_, network map[string]any) any { return network["bonds"] },
	"bridges":          func(_, network map[string]any) any { return network["bridges"] },
	"vlans":            func(_, network map[string]any) any { return network["vlans"] },
}

// Given returns digests of what the design gives to a first boot, by path in the
// node. The addresses, routes and DNS of a network belong to the interface that
// carries it. It is nil if the design cannot be expressed for cloud-init.
func Given(s *site.Site, n *site.Node) map[string]string {
	network, err := NetworkConfig(s, n)
	if err != nil {
		return nil
	}
	user, given := UserData(s, n), map[string]string{}
	for path, of := range parts {
		text, err := json.Marshal(of(user, network))
		if err != nil {
			panic(err) // the values are only maps, lists and strings
		}
		sum := sha256.Sum256(text)
		given[path] = hex.EncodeToString(sum[:8])
	}
	return given
}

// EditedSince returns, sorted, the paths of what the design gives now and did not give
// to the first boot of a system. It is empty if nobody knows what was given then.
func EditedSince(s *site.Site, n *site.Node, given map[string]string) []string {
	var edited []string
	for path, now := range Given(s, n) {
		if was, known := given[path]; known && was != now {
			edited = append(edited, path)
		}
	}
	slices.Sort(edited)
	return edited
}
