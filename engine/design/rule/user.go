package rule

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// userRules: can Slipway create the accounts, and will they work?
var userRules = []Rule{
	{
		Code: "user-keys", Severity: site.SeverityError,
		What:  "The SSH keys of an account can be read, and are of a kind that OpenSSH still takes: no DSA, and RSA of 2048 bits or more.",
		Why:   "The account cannot log in with them: OpenSSH took DSA out in release 10 and refuses short RSA keys (RequiredRSASize, sshd_config(5): below 1024 bits, and with the policies of many distributions below 2048), which shows when the node is installed and nobody gets in.",
		Wrong: `nodes: "n1": system: users: ops: keys: ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOps"]`,
		Right: `nodes: "n1": system: users: ops: keys: ["` + someKey + ` ops"]`,
		Node:  eachUser(userKeys),
	},
	{
		Code: "user-login", Severity: site.SeverityWarning,
		What:  "An account with keys, a password or sudo has a shell that lets it log in.",
		Why:   "A shell such as nologin ends the session right after the login.",
		Wrong: `nodes: "n1": system: users: ops: {sudo: true, shell: "/usr/sbin/nologin"}`,
		Right: `nodes: "n1": system: users: ops: {sudo: true, shell: "/bin/bash"}`,
		Node: eachUser(func(_ *site.Site, _ *site.Node, path, name string, u site.User) []site.Finding {
			if !slices.Contains(noLogin, u.Shell) || len(u.Keys) == 0 && u.Password == "" && !u.Sudo {
				return nil
			}
			return []site.Finding{wrong(path+".shell",
				fmt.Sprintf("%s may log in, but its shell %s ends the session at once", name, u.Shell),
				"Give it a shell such as /bin/bash, or take its keys, password and sudo away.")}
		}),
	},
	{
		Code: "user-groups", Severity: site.SeverityError,
		What:  "The groups of an account have names that groups can have, each once.",
		Why:   "useradd(8) refuses the account as a whole.",
		Wrong: `nodes: "n1": system: users: ops: groups: ["adm, docker"]`,
		Right: `nodes: "n1": system: users: ops: groups: ["adm", "docker"]`,
		Node:  eachUser(userGroups),
	},
	{
		Code: "user-absent", Severity: site.SeverityError,
		What:  "An account that is absent has nothing else set, and is not root.",
		Why:   "Slipway cannot tell whether to keep or remove the account; and without root no system starts.",
		Wrong: `nodes: "n1": system: users: ops: {state: "absent", sudo: true}`,
		Right: `nodes: "n1": system: users: ops: state: "absent"`,
		Node:  eachUser(userAbsent),
	},
	{
		Code: "user-password", Severity: site.SeverityError, Firm: true,
		What: "The password of an account is an entry in `credentials`.", Why: noMeaning,
		Wrong: `nodes: "n1": system: users: ops: password: "oss"`,
		Right: `nodes: "n1": system: users: ops: password: "os"`,
		Node: eachUser(func(s *site.Site, _ *site.Node, path, _ string, u site.User) []site.Finding {
			return refer(path+".password", "credentials", u.Password, s.Credentials)
		}),
	},
	{
		Code: "duplicate-uid", Severity: site.SeverityError,
		What:  "No two accounts of a node have one number; 0 is root's.",
		Why:   "The kernel knows accounts by their numbers only: each could do, read and stop whatever is the other's.",
		Wrong: `nodes: "n1": system: users: {ops: uid: 1000, web: uid: 1000}`,
		Right: `nodes: "n1": system: users: {ops: uid: 1000, web: uid: 1001}`,
		Node:  duplicateUIDs,
	},
}

// someKey is a public key for examples.
const someKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"

// otherKey is another one.
const otherKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"

// noLogin are shells that refuse every login.
var noLogin = []string{"/usr/sbin/nologin", "/sbin/nologin", "/bin/false", "/usr/bin/false"}

// eachUser checks every account of a node; name is the account's name for
// messages.
func eachUser(check func(s *site.Site, n *site.Node, path, name string, u site.User) []site.Finding) func(*site.Site, *site.Node) []site.Finding {
	return func(s *site.Site, n *site.Node) []site.Finding {
		return eachSystem(func(path string, x site.System) []site.Finding {
			var found []site.Finding
			for _, name := range keys(x.Users) {
				found = append(found, check(s, n, path+".users."+name, name, x.Users[name])...)
			}
			return found
		})(s, n)
	}
}

func userKeys(_ *site.Site, _ *site.Node, path, name string, u site.User) []site.Finding {
	var found []site.Finding
	for i, text := range u.Keys {
		if what := keyFault(text); what != "" {
			found = append(found, wrong(path+".keys",
				fmt.Sprintf("key %d of %s, %q, %s", i+1, name, cutShort(text), what),
				"Copy the whole line of the public key's file, of a key that `ssh-keygen -t ed25519` made."))
		}
	}
	for _, text := range repeated(u.Keys) {
		found = append(found, wrong(path+".keys", fmt.Sprintf("%s has the key %q twice", name, cutShort(text)), "Remove one of the two."))
	}
	return found
}

// keyParts are the kinds of public key that OpenSSH accepts (sshd(8),
// AUTHORIZED_KEYS FILE FORMAT), with their numbers of parts.
var keyParts = map[string]int{
	"ssh-ed25519": 2, "ssh-rsa": 3,
	"ecdsa-sha2-nistp256": 3, "ecdsa-sha2-nistp384": 3, "ecdsa-sha2-nistp521": 3,
	"sk-ssh-ed25519@openssh.com": 3, "sk-ecdsa-sha2-nistp256@openssh.com": 4,
}

// keyFault says what is wrong with a public key.
func keyFault(text string) string {
	kind, rest, _ := strings.Cut(text, " ")
	encoded, _, _ := strings.Cut(rest, " ")
	blob, err := base64.StdEncoding.DecodeString(encoded)
	parts := wireParts(blob)
	switch {
	case kind == "ssh-dss":
		return "is a DSA key, which nothing accepts today"
	case keyParts[kind] == 0:
		return fmt.Sprintf("is of the unknown kind %q", cutShort(kind))
	case err != nil || len(parts) == 0:
		return "cannot be read"
	case parts[0] != kind:
		return fmt.Sprintf("says %s and is something else", kind)
	case len(parts) != keyParts[kind] || kind == "ssh-ed25519" && len(parts[1]) != 32:
		return "cannot be read"
	}
	if bits := bitLen(parts[len(parts)-1]); kind == "ssh-rsa" && bits < 2048 {
		return fmt.Sprintf("is an RSA key of %d bits", bits)
	}
	return ""
}

// wireParts returns the strings and numbers of a key in SSH's encoding, each
// after its length (RFC 4251, section 5). It returns none if the lengths do not
// add up.
func wireParts(blob []byte) []string {
	var parts []string
	for len(blob) > 0 {
		if len(blob) < 4 {
			return nil
		}
		n := binary.BigEndian.Uint32(blob)
		if blob = blob[4:]; uint64(n) > uint64(len(blob)) {
			return nil
		}
		parts = append(parts, string(blob[:n]))
		blob = blob[n:]
	}
	return parts
}

// bitLen returns the number of bits of a number.
func bitLen(number string) int { return new(big.Int).SetBytes([]byte(number)).BitLen() }

// groupName matches the names that useradd(8) accepts.
var groupName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,30}[$a-z0-9_-]?$`)

func userGroups(_ *site.Site, _ *site.Node, path, name string, u site.User) []site.Finding {
	var found []site.Finding
	for _, g := range u.Groups {
		if !groupName.MatchString(g) {
			found = append(found, wrong(path+".groups", fmt.Sprintf("%q cannot be the name of a group of %s", cutShort(g), name),
				"Write each group as an item of its own: at most 32 lower case letters, digits, '_' and '-'."))
		}
	}
	for _, g := range repeated(u.Groups) {
		found = append(found, wrong(path+".groups", fmt.Sprintf("%s is in the group %s twice", name, g), "Remove one of the two."))
	}
	return found
}

// userAbsent allows a nearer layer to remove an account that other layers set
// up.
func userAbsent(_ *site.Site, n *site.Node, path, name string, u site.User) []site.Finding {
	switch {
	case u.State != "absent":
		return nil
	case name == "root":
		return []site.Finding{wrong(path+".state", "root is to be absent", "Remove the state.")}
	}
	for _, field := range []string{"uid", "groups", "shell", "keys", "password", "sudo"} {
		if rank := rankOf(n, path+"."+field); rank >= 0 && rank >= rankOf(n, path+".state") {
			return []site.Finding{wrong(path+"."+field,
				fmt.Sprintf("%s is absent and has its %s set", name, field), "Remove it, or the state.")}
		}
	}
	return nil
}

// duplicateUIDs compares the accounts of each family with each other, and with
// those of all families.
func duplicateUIDs(s *site.Site, n *site.Node) []site.Finding {
	return eachSystem(func(path string, x site.System) []site.Finding {
		owner := map[int64]string{0: "root"}
		var found []site.Finding
		for _, name := range keys(n.System.Users) {
			_, again := x.Users[name]
			if u := n.System.Users[name]; path != "system" && !again && u.UID != nil && u.State != "absent" {
				owner[*u.UID] = name
			}
		}
		for _, name := range keys(x.Users) {
			u := x.Users[name]
			if u.UID == nil || u.State == "absent" {
				continue
			}
			if other, ok := owner[*u.UID]; ok && other != name {
				found = append(found, wrong(path+".users."+name+".uid",
					fmt.Sprintf("%s and %s have the number %d", other, name, *u.UID), "Give one of them another number, or none."))
				continue
			}
			owner[*u.UID] = name
		}
		return found
	})(s, n)
}
