package lab

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// serveSystems opens the one SSH listener behind which all installed systems
// are.
func (f *Fleet) serveSystems() error {
	l, port, err := f.listen(f.config.SSHPort)
	if err != nil {
		return fmt.Errorf("listen for SSH: %w", err)
	}
	f.ports.ssh = port
	f.closers = append(f.closers, l.Close)
	f.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.work.Go(func() { f.connection(c) })
		}
	})
	return nil
}

// connection serves one SSH connection, if the system behind its address is
// up; it ends with the fleet.
func (f *Fleet) connection(c net.Conn) {
	defer c.Close()
	m := at(f.systems, c.LocalAddr())
	if m == nil || !locked(m, m.systemUpLocked) {
		return
	}
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-f.ctx.Done():
			c.Close()
		case <-stop:
		}
	}()
	c.SetDeadline(time.Now().Add(time.Minute))
	conn, channels, requests, err := ssh.NewServerConn(c, m.sshConfig())
	if err != nil {
		return
	}
	defer conn.Close()
	go ssh.DiscardRequests(requests)
	for ch := range channels {
		if ch.ChannelType() != "session" {
			ch.Reject(ssh.UnknownChannelType, "only sessions")
			continue
		}
		m.session(ch)
	}
}

func (m *Machine) sshConfig() *ssh.ServerConfig {
	config := &ssh.ServerConfig{
		PasswordCallback: func(c ssh.ConnMetadata, p []byte) (*ssh.Permissions, error) {
			if c.User() == m.config.Username && m.config.Password != "" && subtle.ConstantTimeCompare(p, []byte(m.config.Password)) == 1 {
				return nil, nil
			}
			return nil, errors.New("denied")
		},
		PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			for _, text := range m.config.AuthorizedKeys {
				k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text))
				if err == nil && bytes.Equal(k.Marshal(), key.Marshal()) {
					return nil, nil
				}
			}
			return nil, errors.New("denied")
		},
	}
	config.AddHostKey(hostSigner(m.fleet.config.Seed, m.config.Name))
	return config
}

// session runs one command.
func (m *Machine) session(nc ssh.NewChannel) {
	ch, requests, err := nc.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	for r := range requests {
		var cmd struct{ Line string }
		if r.Type != "exec" || ssh.Unmarshal(r.Payload, &cmd) != nil {
			r.Reply(false, nil)
			continue
		}
		r.Reply(true, nil)
		var out, errs bytes.Buffer
		status := m.shell(cmd.Line, &out, &errs)
		ch.Write(out.Bytes())
		ch.Stderr().Write(errs.Bytes())
		ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
		return
	}
}

// shell runs the little of sh that reading facts needs: commands parted by
// newlines or semicolons, and 2>/dev/null.
func (m *Machine) shell(script string, out, errs *bytes.Buffer) (status int) {
	for _, line := range strings.FieldsFunc(script, func(r rune) bool { return r == '\n' || r == ';' }) {
		line, hush := strings.CutSuffix(strings.TrimSpace(line), "2>/dev/null")
		said := errs
		if hush {
			said = new(bytes.Buffer)
		}
		if f := strings.Fields(line); len(f) > 0 {
			status = m.command(f[0], f[1:], out, said)
		}
	}
	return status
}

func (m *Machine) command(name string, args []string, out, errs *bytes.Buffer) int {
	switch name {
	case "echo":
		fmt.Fprintln(out, strings.Join(args, " "))
	case "uname":
		fmt.Fprintln(out, "6.1.0-lab")
	case "cat":
		files, status := m.files(), 0
		for _, path := range args {
			text, ok := files[path]
			if !ok {
				fmt.Fprintf(errs, "cat: %s: No such file or directory\n", path)
				status = 1
			}
			out.WriteString(text)
		}
		return status
	default:
		fmt.Fprintf(errs, "sh: 1: %s: not found\n", name)
		return 127
	}
	return 0
}

// files are the files of the installed system.
func (m *Machine) files() map[string]string {
	return locked(m, func() map[string]string {
		files := map[string]string{
			"/proc/sys/kernel/random/boot_id": m.bootID + "\n",
			"/etc/hostname":                   m.config.Name + "\n",
			"/etc/os-release":                 "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\n",
		}
		if m.disk.marker != nil {
			text, err := json.Marshal(m.disk.marker)
			if err != nil {
				panic(err)
			}
			files["/etc/slipway/marker.json"] = string(text) + "\n"
		}
		return files
	})
}
