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

// revokes lets certificates in, and has a list of revoked keys.
func revokes(node string, accounts ...string) item.Item {
	return revoking(item.Revoked{Site: "fra", People: []string{"ana"}, Keys: []string{signerB}}, node, accounts...)
}

func revoking(r item.Revoked, node string, accounts ...string) item.Item {
	s := item.SSH{Authorities: []string{signerA}, Node: node, Accounts: accounts, Revoked: &r}
	return item.New(item.KindSSH, s.Fields(), s)
}

// At no moment do the settings in the file, or those that the server has read, name a list that is
// not there as a whole: sshd would refuse every key.
func TestListIsThereWheneverSettingsNameIt(t *testing.T) {
	s := newFake(t)
	f := s.facet()
	loaded, checked := "", 0
	read := func(path string) string { // empty where it is not there
		text, _ := os.ReadFile(s.at(path))
		return string(text)
	}
	f.step = func(what string) {
		checked++
		for who, text := range map[string]string{"the file": read(sshSettings), "the server": loaded} {
			if list := read(sshRevoked); strings.Contains(text, "RevokedKeys") && !strings.HasPrefix(list, "SSHKRL") {
				t.Errorf("before %q, the settings of %s name the list %q", what, who, list)
			}
		}
		if strings.HasPrefix(what, "run systemctl reload") {
			loaded = read(sshSettings)
		}
	}
	for _, i := range []item.Item{certificates("n1", "root"), revokes("n1", "root"), revokes("n1", "root", "ops"), certificates("n1", "root"), revokes("n1", "root")} {
		if err := f.Apply(t.Context(), s.host(), []item.Item{i}, nil); err != nil {
			t.Fatal(err)
		}
		s.so(i)
		isNamed := strings.Contains(s.get(sshSettings), "RevokedKeys /etc/ssh/slipway/revoked\n")
		if has := i.Fields["revoked"] != item.NoneRevoked; isNamed != has || s.gone(sshRevoked) == has {
			t.Errorf("the list of %v: named %t, gone %t", i.Fields, isNamed, s.gone(sshRevoked))
		}
	}
	if err := f.Apply(t.Context(), s.host(), nil, []string{item.KindSSH}); err != nil || !s.gone(sshFiles) || checked < 20 || !slices.Contains(s.ran, "systemctl reload ssh.service") {
		t.Errorf("got %v after %d steps", err, checked)
	}
}

// Another list is one write that each login reads: the server is not reloaded.
func TestAnotherListNeedsNoReload(t *testing.T) {
	s := newFake(t)
	s.applies([]item.Item{revokes("n1", "root")})
	s.restart = nil
	next := revoking(item.Revoked{Site: "fra", People: []string{"ana", "bob"}}, "n1", "root")
	s.applies([]item.Item{next})
	s.so(next)
	if info, err := os.Stat(s.at(sshRevoked)); err != nil || info.Mode().Perm() != 0o644 || len(s.restart) > 0 {
		t.Errorf("%v, restarted %q", err, s.restart)
	}
}

// Slipway does not revoke what it logs in with, nor puts a list in place that sshd could not use.
func TestListThatWouldLockOut(t *testing.T) {
	own := revoking(item.Revoked{Site: "fra", Keys: []string{keyA}}, "n1", "root")
	for name, c := range map[string]struct {
		item  item.Item
		start func(s *fake)
		says  string
		lacks string
	}{
		"the key of the credential":        {own, func(s *fake) { s.login, s.key = "root", keyA }, "Slipway logs in with the key ", ""},
		"that, by certificate":             {own, func(s *fake) { s.login, s.key, s.authority = "root", keyA, signerA }, "Slipway logs in with the key ", ""},
		"the authority":                    {revoking(item.Revoked{Keys: []string{signerA}}, "n1", "root"), func(*fake) {}, "or it is an authority", ""},
		"a key that cannot be read":        {revoking(item.Revoked{Keys: []string{"ssh-ed25519 AAAA"}}, "n1", "root"), func(*fake) {}, "cannot be read", ""},
		"OpenSSH does not read it":         {revokes("n1", "root"), func(s *fake) { s.exit[sshKeygen] = inside.Output{Code: 255, Err: []byte("Invalid KRL file\n")} }, "would refuse every login with it: Invalid KRL file", ""},
		"somebody else's list":             {revokes("n1", "root"), func(s *fake) { s.put("/etc/ssh/sshd_config.d/99-x.conf", "RevokedKeys /etc/ssh/theirs\n") }, "", "sets revokedkeys to /etc/ssh/theirs"},
		"somebody else's, for some logins": {revokes("n1", "root"), func(s *fake) { s.put(sshMain, s.get(sshMain)+"Match User bob\nRevokedKeys none\n") }, "", "sets revokedkeys to none"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			s.applies([]item.Item{certificates("n1", "root")})
			c.start(s)
			err, _ := s.apply([]item.Item{c.item})
			var told *wire.Error
			if (err != nil) != (c.says != "") || err != nil && (!errors.As(err, &told) || !strings.Contains(told.Text, c.says)) {
				t.Errorf("got %v, want %q", err, c.says)
			}
			if seen := s.observe(item.KindSSH); !strings.Contains(seen.Cannot[item.KindSSH+".revoked"], c.lacks) || seen.Have[item.KindSSH+".revoked"] != item.NoneRevoked {
				t.Errorf("seen %+v", seen)
			}
			if s.get(sshSettings) != sshText || !s.gone(sshRevoked) {
				t.Errorf("the settings are %q", s.get(sshSettings))
			}
		})
	}
}

// A list that somebody changed or removed is seen, and made good.
func TestListChangedByHand(t *testing.T) {
	for name, change := range map[string]func(s *fake){
		"removed":   func(s *fake) { s.must(os.Remove(s.at(sshRevoked))) },
		"cut off":   func(s *fake) { s.put(sshRevoked, s.get(sshRevoked)[:60]) },
		"emptied":   func(s *fake) { s.put(sshRevoked, "") },
		"not named": func(s *fake) { s.put(sshSettings, sshText) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			want := revokes("n1", "root")
			s.applies([]item.Item{want})
			change(s)
			if is := s.observe(item.KindSSH).Have[item.KindSSH+".revoked"]; is == want.Fields["revoked"] {
				t.Errorf("seen as %q", is)
			}
			s.applies([]item.Item{want})
			s.so(want)
			s.quiet([]item.Item{want})
		})
	}
}

// A server that cannot be made to read its settings again gets no list: it would ask for it for ever.
func TestNoListForAServerThatIsNotReloaded(t *testing.T) {
	s := newFake(t)
	s.noUnit = true
	s.put("/proc/net/tcp", "  sl  local_address rem_address   st\n   0: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0\n")
	err, _ := s.apply([]item.Item{revokes("n1", "root")})
	var refused *wire.Error
	if !errors.As(err, &refused) || refused.Class != wire.Refused || !strings.Contains(refused.Text, "systemd does not run the SSH server") || !s.gone(sshRevoked) || !s.gone(sshSettings) {
		t.Errorf("got %v", err)
	}
	s.applies([]item.Item{certificates("n1", "root")}) // certificates alone are no danger
	s.put("/proc/net/tcp", "  sl\n")                   // nothing listens: each connection reads the settings
	s.applies([]item.Item{revokes("n1", "root")})
}
