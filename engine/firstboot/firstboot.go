// Package firstboot says what the design gives to the system of a virtual machine
// at its first boot: who may log in, and how it reaches its networks. It is in the
// form that cloud-init reads from a NoCloud data source
// (https://docs.cloud-init.io, "NoCloud").
package firstboot

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/slipway-gitops/slipway/engine/site"
)

// parts are those of the design that a first boot sets up, by their path in a
// node, and where in cloud-init's data they are.
var parts = map[string]func(user, network map[string]any) any{
	"system.users":     func(user, _ map[string]any) any { return user["users"] },
	"system.time.zone": func(user, _ map[string]any) any { return user["timezone"] },
	"interfaces":       func(_, network map[string]any) any { return network["ethernets"] },
	"bonds":            func(_, network map[string]any) any { return network["bonds"] },
	"bridges":          func(_, network map[string]any) any { return network["bridges"] },
	"vlans":            func(_, network map[string]any) any { return network["vlans"] },
}

// Given are digests of what the design gives to a first boot, by its path in the
// node: the addresses, routes and DNS of a network are parts of the interface that
// carries it. It is nil where the design cannot be put into such terms.
func Given(s *site.Site, n *site.Node) map[string]string {
	network, err := NetworkConfig(s, n)
	if err != nil {
		return nil
	}
	user, given := UserData(s, n), map[string]string{}
	for path, of := range parts {
		text, err := json.Marshal(of(user, network))
		if err != nil {
			panic(err) // maps, lists and texts alone are given
		}
		sum := sha256.Sum256(text)
		given[path] = hex.EncodeToString(sum[:8])
	}
	return given
}

// EditedSince are the paths of what the design gives now and the first boot of a
// system was not given, in order. It is empty where nobody knows what that was.
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
