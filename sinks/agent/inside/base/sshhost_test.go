package base

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

const (
	hostA  = "ssh-ed25519-cert-v01@openssh.com AAAAIHNzaC1lZDI1NTE5LWNlcnQtdjAxQG9wZW5zc2guY29tAAAA"
	hostB  = "ssh-ed25519-cert-v01@openssh.com AAAAIHNzaC1lZDI1NTE5LWNlcnQtdjAxQG9wZW5zc2guY29tBBBB"
	hostEC = "ecdsa-sha2-nistp256-cert-v01@openssh.com AAAAKGVjZHNhLXNoYTItbmlzdHAyNTYtY2VydC12MDFAb3BlbnNzaC5jb20AAAA"
)

// proves is the request for the certificates that a system is to show, as the driver makes it.
func proves(certificates ...string) item.Item {
	return item.New(item.KindSSHHost, map[string]string{"certificates": item.HostDigest(certificates)},
		item.SSHHost{Names: []string{"n1"}, Certificates: certificates})
}

func (s *fake) hostFiles() (files []string) {
	s.t.Helper()
	entries, err := os.ReadDir(s.at(sshHostFiles))
	s.must(err)
	for _, e := range entries {
		files = append(files, e.Name())
	}
	return files
}

// The certificates have a file each, which the settings name, and the server is reloaded for each change.
func TestHostCertificatesAreShown(t *testing.T) {
	s := newFake(t)
	before := s.list()
	s.applies([]item.Item{proves(hostA, hostEC)})
	s.so(proves(hostEC, hostA))
	s.quiet([]item.Item{proves(hostA, hostEC)})
	files := s.hostFiles()
	if len(files) != 2 || !strings.HasPrefix(files[0], "ecdsa-256-") || !strings.HasPrefix(files[1], "ed25519-") || s.get(sshHostFiles+"/"+files[1]) != hostA+"\n" {
		t.Errorf("the files are %q", files)
	}
	if want := "# Slipway's, from the design.\nHostCertificate " + sshHostFiles + "/" + files[0] + "\nHostCertificate " + sshHostFiles + "/" + files[1] + "\n"; s.get(sshHostSettings) != want {
		t.Errorf("the settings are %q", s.get(sshHostSettings))
	}
	s.applies([]item.Item{proves(hostB)})
	if s.so(proves(hostB)); len(s.hostFiles()) != 1 || !slices.Contains(s.ran, "systemctl reload ssh.service") {
		t.Errorf("the files are %q, and it ran %q", s.hostFiles(), s.ran)
	}
	s.applies(nil, item.KindSSHHost)
	if after := s.list(); after != before || !slices.Contains(s.ran, "systemctl reload ssh.service") {
		t.Errorf("what is left differs:\n%s", difference(before, after))
	}
}

// What was changed by hand is seen, and set again.
func TestHostCertificatesChangedByHand(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *fake, file string)
		want   string
	}{
		"another certificate":   {func(s *fake, file string) { s.put(file, hostB+"\n") }, item.HostDigest([]string{hostB})},
		"a certificate removed": {func(s *fake, file string) { s.must(os.Remove(s.at(file))) }, item.HostDigest([]string{""})},
		"a megabyte":            {func(s *fake, file string) { s.put(file, strings.Repeat("x", 1<<20)) }, item.HostDigest([]string{strings.Repeat("x", maxCertificate)})},
		"other settings":        {func(s *fake, _ string) { s.put(sshHostSettings, s.get(sshHostSettings)+"PermitRootLogin yes\n") }, "changed by hand"},
		"a file elsewhere":      {func(s *fake, _ string) { s.put(sshHostSettings, sshHostHead+"HostCertificate /home/old/x.pub\n") }, "changed by hand"},
		"settings removed":      {func(s *fake, _ string) { s.must(os.Remove(s.at(sshHostSettings))) }, ""},
		"somebody else's file":  {func(s *fake, file string) { s.must(os.Lchown(s.at(file), 900, 900)) }, "must be a file or folder of root"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			s.applies([]item.Item{proves(hostA)})
			file := sshHostFiles + "/" + s.hostFiles()[0]
			c.change(s, file)
			seen := s.observe(item.KindSSHHost)
			if have := seen.Have[item.KindSSHHost+".certificates"]; have != c.want && (c.want == "" || !strings.Contains(have, c.want)) {
				t.Errorf("seen %q, want %q", seen.Have, c.want)
			}
			if strings.Contains(c.want, "of root") {
				s.must(os.Remove(s.at(file)))
			}
			s.applies([]item.Item{proves(hostA)})
			s.so(proves(hostA))
		})
	}
}

// A server that could not start, that shows no certificate of ours, or whose certificates are somebody else's, is
// left as it is.
func TestSSHServerKeepsItsOwnCertificates(t *testing.T) {
	complains := func(s *fake) {
		s.exit[sshServer] = inside.Output{Out: []byte("port 22\n"), Err: []byte("Could not load host certificate\n")}
	}
	for name, c := range map[string]struct {
		start  func(s *fake)
		lacks  string
		fails  string
		class  string
		remove string
	}{
		"no server":       {start: func(s *fake) { s.must(os.Remove(s.at(sshServer))) }, lacks: "openssh-server"},
		"reads no folder": {start: func(s *fake) { s.put(sshMain, "UsePAM yes\n") }, lacks: "reads no files of /etc/ssh/sshd_config.d"},
		"a certificate of somebody else": {start: func(s *fake) {
			s.put("/etc/ssh/sshd_config.d/99-x.conf", "HostCertificate /etc/ssh/ssh_host_rsa_key-cert.pub\n")
		}, lacks: "99-x.conf, sets hostcertificate to /etc/ssh/ssh_host_rsa_key-cert.pub, and Slipway does not override it: remove that setting, or take site.ssh.hosts out of the design"},
		"broken before":      {start: func(s *fake) { s.put("/etc/ssh/sshd_config.d/99-x.conf", "Broken yes\n") }, fails: "Correct that first", class: wire.Failed},
		"not taken over":     {start: complains, fails: "not in effect", class: wire.Failed},
		"the folder is file": {start: func(s *fake) { s.put(sshHostFiles, "") }, fails: "not a directory", class: wire.Failed},
		"somebody's folder": {start: func(s *fake) {
			s.put(sshHostFiles+"/x", "")
			s.must(os.Lchown(s.at(sshHostFiles), 900, 900))
		}, fails: "must be a file or folder of root", class: wire.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			c.start(s)
			err, _ := s.apply([]item.Item{proves(hostA), hostname("good")})
			var told *wire.Error
			if (err != nil) != (c.fails != "") || err != nil && (!errors.As(err, &told) || told.Class != c.class || !strings.Contains(told.Text, c.fails)) {
				t.Fatalf("got %v, want %q", err, c.fails)
			}
			if seen := s.observe(item.KindSSHHost); !strings.Contains(seen.Cannot[item.KindSSHHost+".certificates"], c.lacks) || (c.lacks == "") != (len(seen.Cannot) == 0) {
				t.Errorf("cannot %q, want %q", seen.Cannot, c.lacks)
			}
			if !s.gone(sshHostSettings) || len(s.restart) > 0 {
				t.Errorf("there are settings, or it restarted %q", s.restart)
			}
			s.so(hostname("good"))
		})
	}
}

// A server that does not come up after the change is set back and started: nobody is locked out.
func TestServerThatDoesNotComeUpIsSetBack(t *testing.T) {
	for name, start := range map[string][]item.Item{"without certificates before": nil, "with others before": {proves(hostB)}} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			s.applies(start)
			before, _ := os.ReadFile(s.at(sshHostSettings))
			s.restart = nil
			s.mainPID = "500"
			s.reloads = func() { s.noUnit = true }
			err, _ := s.apply([]item.Item{proves(hostA)})
			if err == nil || !strings.Contains(err.Error(), "does not run after it was reloaded") {
				t.Fatalf("got %v", err)
			}
			after, _ := os.ReadFile(s.at(sshHostSettings))
			if string(before) != string(after) || !slices.Contains(s.ran, "systemctl restart -- ssh.service") {
				t.Errorf("the settings are %q, and it ran %q", after, s.ran)
			}
			s.noUnit, s.reloads = false, nil
			s.applies([]item.Item{proves(hostA)})
			s.so(proves(hostA))
		})
	}
}

// What is no certificate of a host key is refused, and not repeated to people as it is.
func TestHostileHostCertificates(t *testing.T) {
	for name, lines := range map[string][]string{
		"none":                 nil,
		"a plain key":          {signerA},
		"DSA":                  {"ssh-dss-cert-v01@openssh.com AAAA"},
		"two of a kind":        {hostA, hostB},
		"control characters":   {hostA + " \x1b[2J"},
		"two lines":            {hostA + "\nPermitRootLogin yes"},
		"a megabyte":           {hostA + strings.Repeat("A", 1<<20)},
		"a path":               {"../../root/.ssh/authorized_keys"},
		"empty":                {""},
		"a kind without a key": {"ssh-ed25519-cert-v01@openssh.com"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			before := s.list()
			err, _ := s.apply([]item.Item{proves(lines...)})
			var told *wire.Error
			if !errors.As(err, &told) || told.Class != wire.Refused || len(told.Text) > 400 || strings.Contains(told.Text, "\x1b") {
				t.Errorf("got %.500v", err)
			}
			if s.list() != before {
				t.Errorf("it has written:\n%s", difference(before, s.list()))
			}
		})
	}
}
