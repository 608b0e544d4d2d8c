// Package firstboot says what the system of a virtual machine is told at its
// first boot: who it is, what its own keys are, who may log in, how it reaches
// its networks, and the marker by which it proves itself from inside. It is in
// the form that cloud-init reads from a NoCloud data source
// (https://docs.cloud-init.io, "NoCloud").
package firstboot

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
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

// Make makes the seed of one try of an installation, with a host key and a
// token that nobody else has.
func Make(s *site.Site, n *site.Node, step site.Step) (driver.Seed, Identity, error) {
	key, err := newHostKey(n.Name)
	if err != nil {
		return driver.Seed{}, Identity{}, fmt.Errorf("host key of %s: %w", n.Name, err)
	}
	token := rand.Text()
	marker := site.Marker{Node: n.Name, Generation: step.Generation, Image: step.Image.SHA256, Token: token}
	user, err := userData(s, n, key, marker)
	if err != nil {
		return driver.Seed{}, Identity{}, fmt.Errorf("first boot of %s: %w", n.Name, err)
	}
	net, err := networkConfig(s, n)
	if err != nil {
		return driver.Seed{}, Identity{}, fmt.Errorf("networks of %s: %w", n.Name, err)
	}
	meta := map[string]string{
		"instance-id":    fmt.Sprintf("%s-g%d", n.Identity.UUID, step.Generation),
		"local-hostname": n.Name,
	}
	seed := driver.Seed{MetaData: document("", meta), UserData: document("#cloud-config\n", user), NetworkConfig: document("", net)}
	return seed, Identity{HostKey: key.public, Token: site.TokenDigest(token)}, nil
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
