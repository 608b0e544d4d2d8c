package lab

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/item"
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
		systems := gate{l, f.systems, (*Machine).osLines}
		for {
			c, err := systems.Accept()
			if err != nil {
				return
			}
			f.work.Go(func() {
				if m := at(f.systems, c.LocalAddr()); m.computer != nil {
					m.forward(c)
					return
				}
				f.connection(c)
			})
		}
	})
	return nil
}

// osLines takes connections while the system is up.
func (m *Machine) osLines() *lines {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.computer == nil && !m.systemUpLocked() || m.computer != nil && (m.computer.process == nil || m.computer.ssh == "") {
		return nil
	}
	return &m.osSide
}

// connection serves one SSH connection, for a minute at most.
func (f *Fleet) connection(c net.Conn) {
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	m := at(f.systems, c.LocalAddr())
	conn, channels, requests, err := ssh.NewServerConn(c, m.sshConfig())
	if err != nil {
		return
	}
	defer conn.Close()
	conn.SendRequest(tellsHostKeys, false, ssh.Marshal(struct{ Key []byte }{hostSigner(f.config.Seed, m.config.Name).PublicKey().Marshal()}))
	f.work.Go(func() { m.proveHostKeys(conn, requests) })
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
			if cert, is := key.(*ssh.Certificate); is {
				return m.certified(c.User(), cert)
			}
			return nil, errors.New("denied")
		},
	}
	for _, key := range m.hostKeys() {
		config.AddHostKey(key)
	}
	return config
}

// certified lets a certificate in as the settings say that were applied inside.
func (m *Machine) certified(account string, cert *ssh.Certificate) (*ssh.Permissions, error) {
	asked := m.certificates()
	const fromAddress = "source-address" // which the server holds it to, by the permissions
	checker := ssh.CertChecker{SupportedCriticalOptions: []string{fromAddress}, IsUserAuthority: func(by ssh.PublicKey) bool {
		return slices.ContainsFunc(asked.Authorities, func(key string) bool { return item.Fingerprint(key) == ssh.FingerprintSHA256(by) })
	}}
	if !checker.IsUserAuthority(cert.SignatureKey) || cert.CertType != ssh.UserCert || !slices.Contains(asked.Accounts, account) {
		return nil, errors.New("denied")
	}
	return &cert.Permissions, checker.CheckCert(item.LoginName(asked.Node, account), cert)
}

// certificates are those that the system lets in.
func (m *Machine) certificates() (asked item.SSH) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.in.have["base"][item.KindSSH] != nil {
		_ = json.Unmarshal(m.in.bodies[item.KindSSH], &asked) // none where it is of no item
	}
	return asked
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
		status, isInside := m.runInside(cmd.Line, ch, ch)
		if !isInside {
			var out, errs bytes.Buffer
			status = m.shell(cmd.Line, &out, &errs)
			ch.Write(out.Bytes())
			ch.Stderr().Write(errs.Bytes())
		}
		ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
		return
	}
}

// shell runs the little of sh that reading facts needs: commands parted by
// newlines or semicolons, or joined by "||" or "&&", words in quotes, and
// 2>/dev/null. What a pipe leads to is left out: it only cuts what is long.
func (m *Machine) shell(script string, out, errs *bytes.Buffer) (status int) {
	for _, words := range commands(script) {
		if len(words) > 0 && (words[0] == "{" || words[0] == "}") {
			words = words[1:]
		}
		status = m.joined(words, out, errs)
	}
	return status
}

// joined runs commands up to the one after which the next is not wanted.
func (m *Machine) joined(words []string, out, errs *bytes.Buffer) (status int) {
	for {
		end := slices.IndexFunc(words, func(w string) bool { return w == "|" || w == "||" || w == "&&" })
		if end < 0 {
			return m.one(words, out, errs)
		}
		status = m.one(words[:end], out, errs)
		if words[end] == "|" || (words[end] == "||") == (status == 0) {
			return status
		}
		words = words[end+1:]
	}
}

// one runs one command.
func (m *Machine) one(words []string, out, errs *bytes.Buffer) (status int) {
	words = slices.Clone(words)
	if i := slices.Index(words, "2>/dev/null"); i >= 0 {
		words, errs = slices.Delete(words, i, i+1), new(bytes.Buffer)
	}
	if len(words) > 3 && words[0] == "timeout" { // -s SIGNAL SECONDS
		words = words[min(4, len(words)-1):]
	}
	if len(words) == 0 {
		return 0
	}
	return m.command(words[0], words[1:], out, errs)
}

// commands parts a script into commands and their words.
func commands(script string) [][]string {
	var all [][]string
	var words []string
	var word []rune
	var quote rune
	begun := false // an empty word in quotes is one too
	endWord := func() {
		if begun {
			words = append(words, string(word))
		}
		word, begun = nil, false
	}
	for _, r := range script {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && (r == '\n' || r == ';'):
			endWord()
			all, words = append(all, words), nil
		case quote == 0 && (r == ' ' || r == '\t'):
			endWord()
		default:
			word, begun = append(word, r), true
		}
	}
	endWord()
	return append(all, words)
}

func (m *Machine) command(name string, args []string, out, errs *bytes.Buffer) int {
	switch name {
	case "echo":
		fmt.Fprintln(out, strings.Join(args, " "))
	case "printf":
		out.WriteString(printf(args))
	case "true":
	case "[": // ! -e PATH ]
		if len(args) != 4 || args[0] != "!" || args[1] != "-e" {
			return 2
		}
		if _, there := m.files()[args[2]]; there {
			return 1
		}
	case "uname":
		if slices.Contains(args, "-r") {
			fmt.Fprintln(out, "6.1.0-lab")
		} else {
			fmt.Fprintln(out, "Linux")
		}
	case "cat":
		return m.cat(args, out, errs)
	case "head": // -c BYTES, which is never less than there is
		return m.cat(args[min(2, len(args)):], out, errs)
	case "grep": // a line's beginning
		return m.grep(args, out)
	case "sh": // -c
		return m.shell(strings.Join(args[min(1, len(args)):], " "), out, errs)
	case "ip", "lsblk", "df", "systemctl":
		out.WriteString(m.tell(name, args))
	default:
		fmt.Fprintf(errs, "sh: 1: %s: not found\n", name)
		return 127
	}
	return 0
}

func (m *Machine) grep(args []string, out *bytes.Buffer) (status int) {
	if len(args) < 2 {
		return 2
	}
	var text bytes.Buffer
	m.cat(args[1:], &text, new(bytes.Buffer))
	status = 1
	for l := range strings.Lines(text.String()) {
		if strings.HasPrefix(l, strings.TrimPrefix(args[0], "^")) {
			out.WriteString(l)
			status = 0
		}
	}
	return status
}

// tell is what the tools of a system say of it: one link with its address, one
// disk with one file system, and the units that have failed.
func (m *Machine) tell(tool string, args []string) string {
	switch {
	case tool == "ip" && slices.Contains(args, "link"):
		return "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN mode DEFAULT\\    link/loopback 00:00:00:00:00:00\n" +
			"2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP mode DEFAULT\\    link/ether 52:54:00:00:00:01\n"
	case tool == "ip":
		return "1: lo    inet 127.0.0.1/8 scope host lo\n2: eth0    inet " + m.config.OSAddr + "/16 scope global eth0\n"
	case tool == "lsblk":
		return `NAME="sda" TYPE="disk" SIZE="480103981056" MODEL="Lab\x20disk" SERIAL="LAB1"` + "\n" + `NAME="sda1" TYPE="part" SIZE="480102932480" MODEL="" SERIAL=""` + "\n"
	case tool == "df":
		return "Filesystem Type 1024-blocks Used Available Capacity Mounted on\n/dev/sda1 ext4 468850520 56262062 412588458 12% /\n"
	}
	var units strings.Builder
	for _, u := range m.config.FailedUnits {
		fmt.Fprintf(&units, "%s loaded failed failed\n", u)
	}
	return units.String()
}

// printf knows %s and the escapes of lines.
func printf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	text := strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\\`, `\`).Replace(args[0])
	for _, a := range args[1:] {
		text = strings.Replace(text, "%s", a, 1)
	}
	return text
}

func (m *Machine) cat(paths []string, out, errs *bytes.Buffer) (status int) {
	files := m.files()
	for _, path := range paths {
		text, ok := files[path]
		if !ok {
			fmt.Fprintf(errs, "cat: %s: No such file or directory\n", path)
			status = 1
		}
		out.WriteString(text)
	}
	return status
}

// files are the files of the installed system.
func (m *Machine) files() map[string]string {
	return locked(m, func() map[string]string {
		booted := m.reset
		if booted.IsZero() {
			booted = notBefore // it was on when the lab began
		}
		files := map[string]string{
			"/proc/sys/kernel/random/boot_id": m.bootID + "\n",
			"/etc/hostname":                   m.config.Name + "\n",
			"/proc/meminfo":                   fmt.Sprintf("MemTotal: %d kB\n", m.config.MemoryGiB<<20),
			"/proc/stat":                      fmt.Sprintf("btime %d\n", booted.Unix()),
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
