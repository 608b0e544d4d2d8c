package e2e

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// configures changes what the design says of one guest's system after its seed was used, and takes it
// back: the guest has it without a boot, and the hypervisor is told nothing.
func (f *farm) configures() {
	f.t.Helper()
	const look = "cat /etc/motd.d/later /proc/sys/net/ipv4/ip_default_ttl"
	before, writes := f.boots(), len(f.hypervisor.Writes())
	first, err := ssh.ParsePrivateKey([]byte(f.key))
	check(f.t, err)
	_, second := newKey(f.t)
	f.change("web-1", "more inside web-1", func(g *guest) {
		g.more = fmt.Sprintf(`	system: {
		files: "/etc/motd.d/later": content: "later\n"
		sysctl: "net.ipv4.ip_default_ttl": 77
		users: ops: keys: [%q, %q]
	}
`, f.public, publicOf(second))
	})
	f.settled()
	if out, err := f.says("web-1", second, look); err != nil || out != "later\n77\n" {
		f.t.Errorf("web-1 has %q, %v", out, err)
	}

	f.change("web-1", "less inside web-1", func(g *guest) { g.more = "" })
	f.settled()
	if out, err := f.says("web-1", second, "true"); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
		f.t.Errorf("with a key that is designed no more: %q, %v", out, err)
	}
	if out, err := f.says("web-1", first, look+" 2>/dev/null; true"); err != nil || out != "64\n" {
		f.t.Errorf("without the design web-1 has %q, %v", out, err)
	}
	f.onlyBooted("", before)
	if more := f.hypervisor.Writes()[writes:]; len(more) > 0 {
		f.t.Errorf("what is inside a guest was changed, and these calls changed its machine: %v", more)
	}
}

// says is what a command prints in a guest, for whom a key lets in.
func (f *farm) says(name string, key ssh.Signer, words string) (string, error) {
	c, err := ssh.Dial("tcp", f.ssh[name], &ssh.ClientConfig{
		User: "ops", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: time.Minute,
	})
	if err != nil {
		return "", err
	}
	defer c.Close()
	s, err := c.NewSession()
	if err != nil {
		return "", err
	}
	defer s.Close()
	out, err := s.Output(words)
	return string(out), err
}
