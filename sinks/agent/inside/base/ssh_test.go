package base

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

const (
	signerA = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
	signerB = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g"
)

func certificates(node string, accounts ...string) item.Item {
	return signedBy(node, signerA, accounts...)
}

func signedBy(node, signer string, accounts ...string) item.Item {
	s := item.SSH{Authorities: []string{signer}, Node: node, Accounts: accounts}
	return item.New(item.KindSSH, s.Fields(), s)
}

// sshd answers as `sshd -T` does: by the first value of a setting, in files that include others.
func (s *fake) sshd(c inside.Command) (inside.Output, error) {
	all, broken, hosts := map[string]string{}, false, ""
	var read func(text string)
	read = func(text string) {
		for line := range strings.Lines(text) {
			word, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch strings.ToLower(word) {
			case "include":
				files, _ := filepath.Glob(s.at(value))
				for _, f := range files {
					read(s.get(strings.TrimPrefix(f, s.root)))
				}
			case "hostcertificate":
				hosts += "hostcertificate " + value + "\n"
			case "broken":
				broken = true
			case "trustedusercakeys", "authorizedprincipalsfile", "revokedkeys":
				if _, set := all[strings.ToLower(word)]; !set {
					all[strings.ToLower(word)] = value
				}
			}
		}
	}
	if slices.Contains(c.Args, "/dev/stdin") {
		read(string(c.Stdin))
	} else {
		read(s.get(sshMain))
	}
	if broken {
		return inside.Output{Code: 255, Err: []byte("/etc/ssh/sshd_config: line 7: Bad configuration option: Broken\n")}, nil
	}
	out := "port 22\n" + hosts
	for _, name := range []string{"trustedusercakeys", "authorizedprincipalsfile", "revokedkeys"} {
		out += name + " " + cmp.Or(all[name], "none") + "\n"
	}
	return inside.Output{Out: []byte(out)}, nil
}

func TestCertificatesAreLetIn(t *testing.T) {
	s := newFake(t)
	s.applies([]item.Item{certificates("n1", "root", "ops")})
	for path, want := range map[string]string{
		sshSettings:       "# Slipway's, from the design.\nTrustedUserCAKeys /etc/ssh/slipway/authorities\nAuthorizedPrincipalsFile /etc/ssh/slipway/principals/%u\n",
		sshSigners:        signerA + "\n",
		sshNames + "/ops": "slipway:n1:ops\n", sshNames + "/root": "slipway:n1:root\n",
	} {
		if got := s.get(path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
		if info, err := os.Stat(s.at(path)); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if !slices.Equal(s.restart, []string{"ssh.service"}) || !slices.Contains(s.ran, "systemctl reload ssh.service") {
		t.Errorf("restarted %q of %q", s.restart, s.ran)
	}
	s.restart = nil
	other := signedBy("n1", signerB, "root")
	s.applies([]item.Item{other})
	s.so(other)
	if len(s.restart) > 0 || !s.gone(sshNames+"/ops") {
		t.Errorf("restarted %q for what each login reads", s.restart)
	}
}

// Somebody's hand is seen.
func TestCertificatesChangedByHand(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *fake)
		field  string
		want   string
	}{
		"a further name":       {func(s *fake) { s.put(sshNames+"/root", "slipway:n1:root\nslipway:n1:mallory\n") }, "accounts", "slipway:n1:mallory for the account root, slipway:n1:root"},
		"a further account":    {func(s *fake) { s.put(sshNames+"/mallory", "slipway:n1:root\n") }, "accounts", "slipway:n1:root, slipway:n1:root for the account mallory"},
		"another node's":       {func(s *fake) { s.put(sshNames+"/root", "slipway:n2:root\n") }, "accounts", "slipway:n2:root"},
		"a further authority":  {func(s *fake) { s.put(sshSigners, signerA+"\n"+signerB+"\n") }, "authorities", item.List([]string{item.Fingerprint(signerA), item.Fingerprint(signerB)})},
		"other settings":       {func(s *fake) { s.put(sshSettings, sshText+"PermitRootLogin yes\n") }, "accounts", "changed by hand"},
		"the settings removed": {func(s *fake) { s.must(os.Remove(s.at(sshSettings))) }, "accounts", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			want := certificates("n1", "root")
			s.applies([]item.Item{want})
			c.change(s)
			if seen := s.observe(item.KindSSH); seen.Have[item.KindSSH+"."+c.field] != c.want {
				t.Errorf("seen %q, want %q", seen.Have, c.want)
			}
			s.applies([]item.Item{want})
			s.so(want)
			s.quiet([]item.Item{want})
		})
	}
}

// An SSH server that could not start, or that would not let certificates in, is left as it was.
func TestSSHServerStaysAsItWas(t *testing.T) {
	for name, c := range map[string]struct {
		start func(s *fake)
		lacks string // it is lacking, and no error
		fails string
	}{
		"no server":         {func(s *fake) { s.must(os.Remove(s.at(sshServer))) }, "openssh-server", ""},
		"no main file":      {func(s *fake) { s.must(os.Remove(s.at(sshMain))) }, "has no /etc/ssh/sshd_config", ""},
		"reads no folder":   {func(s *fake) { s.put(sshMain, "UsePAM yes\n") }, "reads no files of /etc/ssh/sshd_config.d", ""},
		"reads it for some": {func(s *fake) { s.put(sshMain, "Match User git\nInclude sshd_config.d/*.conf\n") }, "reads no files of /etc/ssh/sshd_config.d", ""},
		"another authority": {func(s *fake) { s.put(sshMain, s.get(sshMain)+"TrustedUserCAKeys /etc/ssh/ca.pub\n") }, "sets trustedusercakeys to /etc/ssh/ca.pub", ""},
		"names of others":   {func(s *fake) { s.put("/etc/ssh/sshd_config.d/99-x.conf", "AuthorizedPrincipalsFile /etc/names/%u\n") }, "sets authorizedprincipalsfile to /etc/names/%u", ""},
		"for some logins": {func(s *fake) {
			s.put("/etc/ssh/sshd_config.d/99-x.conf", "Match User bob\n\tAuthorizedPrincipalsFile none\n")
		}, "sets authorizedprincipalsfile to none", ""},
		"broken before":        {func(s *fake) { s.put("/etc/ssh/sshd_config.d/99-x.conf", "Broken yes\n") }, "", "Correct that first"},
		"sshd does not say":    {func(s *fake) { s.exit[sshServer] = inside.Output{Out: []byte("port 22\n")} }, "", "ignores the settings for logins by certificate"},
		"the folder is a file": {func(s *fake) { s.put(sshFiles, "") }, "", "not a directory"},
		"the settings' a link": {func(s *fake) { s.must(os.Symlink("/etc/passwd", s.at(sshSettings))) }, "", "must be a file or folder of root"},
		"sshd cannot be asked": {func(s *fake) { s.exit[sshServer] = inside.Output{Code: -1} }, "", "does not accept its settings"},
		"settings of an OpenBSD": {func(s *fake) {
			s.put(sshMain, "include=\"/etc/ssh/sshd_config.d/[0-9]*.conf\"\nTrustedUserCAKeys /x\n")
		}, "sets trustedusercakeys to /x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			c.start(s)
			before, _ := os.Readlink(s.at(sshSettings))
			want := certificates("n1", "root")
			err, _ := s.apply([]item.Item{want, hostname("good")})
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Fatalf("got %v, want %q", err, c.fails)
			}
			if seen := s.observe(item.KindSSH); !strings.Contains(seen.Cannot[item.KindSSH+".accounts"], c.lacks) || (c.lacks == "") != (seen.Cannot[item.KindSSH+".accounts"] == "") {
				t.Errorf("cannot %q, want %q", seen.Cannot, c.lacks)
			}
			if after, _ := os.Readlink(s.at(sshSettings)); after != before || before == "" && !s.gone(sshSettings) {
				t.Error("the settings are there")
			}
			if len(s.restart) > 0 {
				t.Errorf("restarted %q", s.restart)
			}
			s.so(hostname("good"))
		})
	}
}

// Settings with which sshd does not start once they are in place are taken back.
func TestSSHSettingsAreTakenBack(t *testing.T) {
	for name, before := range map[string]string{"none before": "", "others before": "# ours, of an earlier release\nTrustedUserCAKeys /etc/ssh/slipway/authorities\n"} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			if before != "" {
				s.put(sshSettings, before)
			}
			s.put("/etc/ssh/sshd_config.d/70-x.conf", "")
			real := s.facet()
			real.step = func(what string) {
				if what == "write "+sshSettings && s.get("/etc/ssh/sshd_config.d/70-x.conf") == "" { // somebody else writes at the same moment
					s.put("/etc/ssh/sshd_config.d/70-x.conf", "Broken yes\n")
				}
			}
			want := certificates("n1", "root")
			err := real.Apply(t.Context(), s.host(), []item.Item{want}, nil)
			if err == nil || !strings.Contains(err.Error(), "The settings are as they were") || len(s.restart) > 0 {
				t.Fatalf("got %v, restarted %q", err, s.restart)
			}
			if before == "" && !s.gone(sshSettings) || before != "" && s.get(sshSettings) != before {
				t.Errorf("the settings are %q", s.get(sshSettings))
			}
			s.must(os.Remove(s.at("/etc/ssh/sshd_config.d/70-x.conf")))
			s.applies([]item.Item{want})
			s.so(want)
		})
	}
}

// What this session came by is not taken away, and what it did not need is.
func TestCertificateOfThisSession(t *testing.T) {
	withKey := []item.Item{certificates("n1", "ops"), account("ops", item.User{Keys: []string{keyA}, Sudo: true})}
	for name, c := range map[string]struct {
		key, authority string
		items          []item.Item
		remove         []string
		says           string // that it is refused
	}{
		"removed, by certificate":        {"", signerA, withKey[1:], []string{item.KindSSH}, "could not log in again"},
		"removed, by key":                {keyA, "", withKey[1:], []string{item.KindSSH}, ""},
		"another authority":              {"", signerA, []item.Item{signedBy("n1", signerB, "ops")}, nil, "by a certificate that SHA256:"},
		"another authority, by key":      {keyA, "", []item.Item{signedBy("n1", signerB, "ops")}, nil, ""},
		"the account leaves":             {"", signerA, []item.Item{certificates("n1", "root")}, nil, "keep the account and the key in the design"},
		"another account joins":          {"", signerA, []item.Item{certificates("n1", "ops", "root")}, nil, ""},
		"the key, by key":                {keyA, "", []item.Item{withKey[0], account("ops", item.User{Sudo: true})}, nil, "without its last key"},
		"the last key, by certificate":   {keyA, signerA, []item.Item{withKey[0], account("ops", item.User{Sudo: true})}, nil, "without its last key"},
		"another key, by certificate":    {keyA, signerA, []item.Item{withKey[0], account("ops", item.User{Keys: []string{keyB}, Sudo: true})}, nil, "would remove that key"},
		"a key besides, by certificate":  {keyA, signerA, []item.Item{withKey[0], account("ops", item.User{Keys: []string{keyA, keyB}, Sudo: true})}, nil, ""},
		"key and certificates at once":   {"", signerA, []item.Item{account("ops", item.User{Sudo: true})}, []string{item.KindSSH}, "could not log in again"},
		"the whole account":              {"", signerA, nil, []string{"users.ops"}, "logs in as ops"},
		"sudo, which it needs all along": {"", signerA, []item.Item{withKey[0], account("ops", item.User{Keys: []string{keyA}})}, nil, "needs its sudo"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			s.applies(withKey)
			s.login, s.key, s.authority = "ops", c.key, c.authority
			err, _ := s.apply(c.items, c.remove...)
			var told *wire.Error
			switch {
			case c.says == "" && err != nil:
				t.Fatal(err)
			case c.says != "" && (!errors.As(err, &told) || told.Class != wire.Refused || !strings.Contains(told.Text, c.says)):
				t.Fatalf("got %v, want refused: %s", err, c.says)
			}
			if c.authority != "" && (s.get(sshSigners) != signerA+"\n" || s.get(sshNames+"/ops") != "slipway:n1:ops\n" || s.get(sshSettings) != sshText) {
				t.Error("the way in was taken away")
			}
		})
	}
}

// What somebody else may write is not what lets people in.
func TestAuthoritiesBelongToRoot(t *testing.T) {
	for name, plant := range map[string]func(s *fake){
		"the authorities": func(s *fake) { s.put(sshSigners, signerA+"\n"); s.must(os.Lchown(s.at(sshSigners), 900, 900)) },
		"the names of an account": func(s *fake) {
			s.put(sshNames+"/root", "slipway:n1:root\n")
			s.must(os.Lchown(s.at(sshNames+"/root"), 900, 900))
		},
		"the folder":             func(s *fake) { s.put(sshFiles+"/x", ""); s.must(os.Lchown(s.at(sshFiles), 900, 900)) },
		"a folder for everybody": func(s *fake) { s.put(sshNames+"/x", ""); s.must(os.Chmod(s.at(sshNames), 0o777)) },
		"the folder is a link":   func(s *fake) { s.put("/home/old/x/y", ""); s.must(os.Symlink("/home/old/x", s.at(sshFiles))) },
		"the settings":           func(s *fake) { s.put(sshSettings, sshText); s.must(os.Lchown(s.at(sshSettings), 900, 900)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			plant(s)
			err, _ := s.apply([]item.Item{certificates("n1", "root")})
			if err == nil || len(s.restart) > 0 {
				t.Errorf("got %v, restarted %q", err, s.restart)
			}
			if seen := s.observe(item.KindSSH); seen.Have[item.KindSSH+".accounts"] == "slipway:n1:root" {
				t.Errorf("it is taken for as designed: %v", seen.Have)
			}
		})
	}
}

// Where this session came by certificate, settings that cannot be proven right now stay.
func TestSettingsInUseAreNotTakenBack(t *testing.T) {
	s := newFake(t)
	want := certificates("n1", "root")
	s.applies([]item.Item{want})
	s.must(s.host().Owned.Note(name, item.KindSSH, []byte(`{"reload":true}`))) // a run was cut off
	s.login, s.authority = "root", signerA
	f := s.facet()
	f.step = func(string) {}
	j := &job{facet: f, ctx: t.Context(), h: s.host()}
	s.put("/etc/ssh/sshd_config.d/70-x.conf", "Broken yes\n")
	if err := j.useSSH([]string{"root"}, sshText); err == nil || s.get(sshSettings) != sshText {
		t.Errorf("got %v, and the settings are %q", err, s.get(sshSettings))
	}
}

// What is written is only what was checked.
func TestCertificatesAreChecked(t *testing.T) {
	for name, i := range map[string]item.Item{
		"two lines":         signedBy("n1", signerA+"\n"+signerB, "root"),
		"options":           signedBy("n1", `restrict `+signerA, "root"),
		"no key":            signedBy("n1", "ssh-ed25519", "root"),
		"a path":            certificates("n1", "../authorities"),
		"two names":         certificates("n1\nslipway:n2", "root"),
		"a name with parts": certificates("n1:x", "root"),
	} {
		s := newFake(t)
		err, _ := s.apply([]item.Item{i})
		var told *wire.Error
		if !errors.As(err, &told) || told.Class != wire.Refused || !s.gone(sshFiles) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// In a system that is being installed nothing runs that could be asked.
func TestCertificatesBeforeTheFirstStart(t *testing.T) {
	s := newFake(t)
	s.live = false
	want := certificates("n1", "root")
	s.applies([]item.Item{want})
	s.so(want)
	if slices.ContainsFunc(s.ran, func(c string) bool { return strings.Contains(c, "sshd") || strings.Contains(c, "systemctl") }) {
		t.Errorf("ran %q", s.ran)
	}
}
