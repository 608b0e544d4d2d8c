// Package seed makes the seed of one try of an installation for the first boot of
// a virtual machine. It holds what the design gives, the system's own keys, and
// the marker by which it proves itself from inside.
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

// Identity identifies one try of an installation. Only its seed has the secret
// halves.
type Identity struct {
	// HostKey is the public half of the system's SSH host key, in
	// authorized_keys form.
	HostKey string
	// Token is the digest, by site.TokenDigest, of the token in the system's
	// marker.
	Token string
}

// Make makes the seed of one try of an installation by the controller of a term.
// It has a new host key, and a marker that the site's key signs. Without a site
// key the token is random.
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

// document returns a value as a YAML file. JSON is a part of YAML (YAML 1.2,
// section 1.3).
func document(head string, value any) secret.Value {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		panic(err) // the values are only maps, lists and strings
	}
	return secret.New("", head+string(text)+"\n")
}

// hostKey is a host key in the form of OpenSSH's files.
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

// markerFile is where a system keeps its marker. Until the first boot has
// succeeded, the marker is in unprovenFile.
const (
	markerFile   = "/etc/slipway/marker.json"
	unprovenFile = "/etc/slipway/marker.unproven"
)

// prove is the last command of a first boot. A system whose setup failed in
// part does not prove itself: cloud-init keeps the errors of its stages in
// status.json (docs.cloud-init.io, "Failure states").
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

// cacheFile makes cloud-init keep what it was told at the first boot, because
// the seed is removed afterwards. Otherwise it would find nothing, or start
// over as another machine with other host keys (docs.cloud-init.io,
// "manual_cache_clean").
const cacheFile = "/etc/cloud/cloud.cfg.d/99-slipway.cfg"

func file(path, content string) map[string]string {
	return map[string]string{"path": path, "permissions": "0644", "content": content}
}

// userData returns what cloud-init is asked for.
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
