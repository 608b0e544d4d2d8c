package firstboot

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// markerFile is where a system keeps its marker. Until the first boot has ended
// well the marker is beside it.
const (
	markerFile   = "/etc/slipway/marker.json"
	unprovenFile = "/etc/slipway/marker.unproven"
)

// prove is the last that a first boot does. A system of which a part failed to
// set itself up does not prove itself: cloud-init keeps the errors of its
// stages in status.json (docs.cloud-init.io, "Failure states").
const prove = `set -eu
status=/run/cloud-init/status.json
if ! [ -s "$status" ] || grep '"errors": \[' "$status" | grep -qv '\[\]'; then
  echo 'slipway: the first boot had errors, and the system does not prove itself; /var/log/cloud-init.log has them' | tee /dev/console >&2
  exit 1
fi
touch /var/lib/cloud/instance/manual-clean
mv ` + unprovenFile + ` ` + markerFile + `
echo 'slipway: the first boot has ended well' > /dev/console
`

// cacheFile has cloud-init go by what it was told at the first boot, since the
// seed is taken away after it: without one it would find nothing, or begin as
// another machine with other host keys (docs.cloud-init.io,
// "manual_cache_clean").
const cacheFile = "/etc/cloud/cloud.cfg.d/99-slipway.cfg"

func file(path, content string) map[string]string {
	return map[string]string{"path": path, "permissions": "0644", "content": content}
}

// userData is what cloud-init is asked for.
func userData(s *site.Site, n *site.Node, key hostKey, marker site.Marker) (map[string]any, error) {
	text, err := json.Marshal(marker)
	if err != nil {
		return nil, err
	}
	user := map[string]any{
		"hostname":          n.Name,
		"preserve_hostname": false,
		"users":             users(everybody(s, n)),
		"ssh_pwauth":        false,
		"disable_root":      false, // who may log in is said below "users", root or not
		"ssh_deletekeys":    true,
		"ssh_genkeytypes":   []string{},
		"ssh_keys":          map[string]string{"ed25519_private": key.private, "ed25519_public": key.public},
		"write_files":       []any{file(unprovenFile, string(text)+"\n"), file(cacheFile, "manual_cache_clean: true\n")},
		"runcmd":            []any{[]string{"/bin/sh", "-c", prove}},
	}
	if domain := domain(s, n); domain != "" {
		user["fqdn"] = n.Name + "." + domain
	}
	if n.System.Time.Zone != "" {
		user["timezone"] = n.System.Time.Zone
	}
	return user, nil
}

// domain is that of the node's primary network.
func domain(s *site.Site, n *site.Node) string {
	if net := s.Networks[n.PrimaryNetwork]; net != nil {
		return net.DNS.Domain
	}
	return ""
}

// everybody are the accounts of the node's design, those for the family of its
// image with them.
func everybody(s *site.Site, n *site.Node) map[string]site.User {
	all := maps.Clone(n.System.Users)
	if all == nil {
		all = map[string]site.User{}
	}
	if image := s.Images[n.Image]; image != nil {
		maps.Copy(all, n.Families[image.Family].Users)
	}
	return all
}

// users are the accounts as cloud-init has them. Passwords are not set: nobody
// logs in to a new system but by key.
func users(all map[string]site.User) []any {
	list := []any{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if u := all[name]; u.State != "absent" {
			list = append(list, account(name, u))
		}
	}
	return list
}

func account(name string, u site.User) map[string]any {
	a := map[string]any{"name": name, "lock_passwd": true, "shell": cmp.Or(u.Shell, "/bin/bash")}
	if u.UID != nil && name != "root" {
		a["uid"] = strconv.FormatInt(*u.UID, 10)
	}
	if len(u.Groups) > 0 {
		a["groups"] = strings.Join(u.Groups, ",")
	}
	if len(u.Keys) > 0 {
		a["ssh_authorized_keys"] = u.Keys
	}
	if u.Sudo {
		a["sudo"] = "ALL=(ALL) NOPASSWD:ALL"
	}
	return a
}
