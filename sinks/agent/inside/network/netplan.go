package network

import (
	"encoding/json"

	"github.com/slipway-gitops/slipway/engine/item"
)

const netplanFile = "/etc/netplan/60-slipway.yaml"

// renderNetplan writes our single netplan file. It is JSON, which every YAML parser reads.
func renderNetplan(files map[string]file, all links) {
	if len(all) == 0 {
		return
	}
	text, _ := json.MarshalIndent(map[string]any{"network": item.Netplan(all)}, "", "  ") // only strings and numbers
	files[netplanFile] = file{header + string(text) + "\n", 0o600}
}
