package lab

import (
	"crypto/rand"
	"encoding/json"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/item"
)

// Systems tell of their host keys after a login and prove them, as OpenSSH does (PROTOCOL in its source,
// section 2.5), and show the certificate that was set inside.
const (
	tellsHostKeys  = "hostkeys-00@openssh.com"
	provesHostKeys = "hostkeys-prove-00@openssh.com"
)

// hostKeys are the signers of a system: its host key, and that with its certificate.
func (m *Machine) hostKeys() []ssh.Signer {
	own := hostSigner(m.fleet.config.Seed, m.config.Name)
	all := []ssh.Signer{own}
	for _, line := range m.hostCertificates() {
		key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
		cert, is := key.(*ssh.Certificate)
		if err != nil || !is {
			continue
		}
		if with, err := ssh.NewCertSigner(cert, own); err == nil { // it belongs to the key
			all = append(all, with)
		}
	}
	return all
}

// hostCertificates are those that were set inside.
func (m *Machine) hostCertificates() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var asked item.SSHHost
	if m.in.have["base"][item.KindSSHHost] != nil {
		_ = json.Unmarshal(m.in.bodies[item.KindSSHHost], &asked) // none where it is of no item
	}
	return asked.Certificates
}

// proveHostKeys answers the requests of a connection.
func (m *Machine) proveHostKeys(conn ssh.Conn, requests <-chan *ssh.Request) {
	own := hostSigner(m.fleet.config.Seed, m.config.Name)
	blob := own.PublicKey().Marshal()
	for r := range requests {
		if r.Type != provesHostKeys || string(r.Payload) != string(ssh.Marshal(struct{ Key []byte }{blob})) {
			r.Reply(false, nil)
			continue
		}
		signature, err := own.Sign(rand.Reader, ssh.Marshal(struct{ What, Session, Key string }{provesHostKeys, string(conn.SessionID()), string(blob)}))
		if err != nil {
			r.Reply(false, nil)
			continue
		}
		r.Reply(true, ssh.Marshal(struct{ Signature []byte }{ssh.Marshal(signature)}))
	}
}
