package firstboot

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
)

// UserData returns what the first boot sets up besides the networks, in the
// form of cloud-init's user data.
func UserData(s *site.Site, n *site.Node) map[string]any {
	all := everybody(s, n)
	user := map[string]any{
		"hostname":          n.Name,
		"preserve_hostname": false,
		"users":             users(all),
		"write_files":       append(sudoers(all), ownName(s, n)),
		"ssh_pwauth":        false,
		"disable_root":      false, // "users" below says who may log in, including root
	}
	if domain := domain(s, n); domain != "" {
		user["fqdn"] = n.Name + "." + domain
	}
	if n.System.Time.Zone != "" {
		user["timezone"] = n.System.Time.Zone
	}
	return user
}

// ownName lets the system find its own name without a name server. Otherwise sudo
// waits for one at each login (hosts(5); 127.0.1.1 as Debian's installer does).
func ownName(s *site.Site, n *site.Node) map[string]any {
	names := n.Name
	if domain := domain(s, n); domain != "" {
		names = n.Name + "." + domain + " " + n.Name
	}
	return map[string]any{"path": "/etc/hosts", "append": true, "content": "127.0.1.1\t" + names + "\n"}
}

// domain returns the domain of the node's primary network.
func domain(s *site.Site, n *site.Node) string {
	if net := s.Networks[n.PrimaryNetwork]; net != nil {
		return net.DNS.Domain
	}
	return ""
}

// everybody returns the accounts of the node's design, including those for the
// family of its image.
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

// users returns the accounts in cloud-init's form. It sets no passwords: logins
// to a new system need a key.
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
	return a
}

// sudoers returns the rules of those who may become root. The helper sets the same
// rules later, and removes them by the same names.
func sudoers(all map[string]site.User) []any {
	var files []any
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if u := all[name]; u.Sudo && u.State != "absent" {
			files = append(files, map[string]any{"path": item.SudoFile(name), "permissions": "0440", "content": item.SudoRule(name)})
		}
	}
	return files
}
