// Package seed makes what one try of an installation hands to the first boot of a
// virtual machine: what the design gives it, and beside that its own keys and the
// marker by which it proves itself from inside.
package seed

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/firstboot"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// Identity is what one try of an installation is known by. The secret halves are
// in its seed alone.
type Identity struct {
	// HostKey is the public half of the system's SSH host key, in
	// authorized_keys form.
	HostKey string
	// Token is the digest, as site.TokenDigest gives it, of the token that the
	// system's marker carries.
	Token string
}

// Make makes the seed of one try of an installation by the controller of a term,
// with a host key that nobody else has, and with a marker that the site's key has
// signed. Without a key its token is one that nobody else has.
func Make(s *site.Site, n *site.Node, step site.Step, key *sitekey.Key, term uint64) (driver.Seed, Identity, error) {
	host, err := newHostKey(n.Name)
	if err != nil {
		return driver.Seed{}, Identity{}, fmt.Errorf("host key of %s: %w", n.Name, err)
	}
	marker := site.Marker{Site: s.Name, Node: n.Name, Machine: step.Machine, Generation: step.Generation, Image: step.Image.SHA256,
		Attempt: step.Attempt, Term: term, Token: rand.Text()}
	if key != nil {
		if marker.Token, err = key.Token(marker); err != nil {
			return driver.Seed{}, Identity{}, fmt.Errorf("marker of %s: %w", n.Name, err)
		}
	}
	user, err := userData(s, n, host, marker)
	if err != nil {
		return driver.Seed{}, Identity{}, fmt.Errorf("first boot of %s: %w", n.Name, err)
	}
	net, err := firstboot.NetworkConfig(s, n)
	if err != nil {
		return driver.Seed{}, Identity{}, fmt.Errorf("networks of %s: %w", n.Name, err)
	}
	meta := map[string]string{
		"instance-id":    fmt.Sprintf("%s-g%d", n.Identity.UUID, step.Generation),
		"local-hostname": n.Name,
	}
	seed := driver.Seed{MetaData: document("", meta), UserData: document("#cloud-config\n", user), NetworkConfig: document("", net)}
	return seed, Identity{HostKey: host.public, Token: site.TokenDigest(marker.Token)}, nil
}

// document is a value as a file of YAML, of which JSON is a part (YAML 1.2,
// section 1.3).
func document(head string, value any) secret.Value {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		panic(err) // maps, lists and texts alone are given
	}
	return secret.New("", head+string(text)+"\n")
}

// hostKey is a host key as the files of OpenSSH have it.
type hostKey struct{ private, public string }

func newHostKey(comment string) (hostKey, error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return hostKey{}, err
	}
	block, err := ssh.MarshalPrivateKey(priv, comment)
	if err != nil {
		return hostKey{}, err
	}
	public, err := ssh.NewPublicKey(pub)
	if err != nil {
		return hostKey{}, err
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
	return hostKey{private: string(pem.EncodeToMemory(block)), public: line}, nil
}

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
	user := firstboot.UserData(s, n)
	files, _ := user["write_files"].([]any)
	maps.Copy(user, map[string]any{
		"ssh_deletekeys":  true,
		"ssh_genkeytypes": []string{},
		"ssh_keys":        map[string]string{"ed25519_private": key.private, "ed25519_public": key.public},
		"write_files":     append([]any{file(unprovenFile, string(text)+"\n"), file(cacheFile, "manual_cache_clean: true\n")}, files...),
		"runcmd":          []any{[]string{"/bin/sh", "-c", prove}},
	})
	return user, nil
}
