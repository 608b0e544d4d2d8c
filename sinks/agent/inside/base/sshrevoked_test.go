package base

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
		if what == "run systemctl" {
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
	s.server("500", "1", "100")
	err, _ := s.apply([]item.Item{revokes("n1", "root")})
	var refused *wire.Error
	if !errors.As(err, &refused) || refused.Class != wire.Refused || !strings.Contains(refused.Text, "not ssh.service (process 500)") || !s.gone(sshRevoked) || !s.gone(sshSettings) {
		t.Errorf("got %v", err)
	}
	s.applies([]item.Item{certificates("n1", "root")}) // certificates alone are no danger
	s.ends("500")                                      // nothing listens: each connection reads the settings
	s.applies([]item.Item{revokes("n1", "root")})
}

// The list goes only after the server has opened its port again, whichever that is: it has read the settings by then.
func TestListStaysUntilTheServerHasReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFake(t)
		s.mainPID = "500"
		s.server("500", "1", "100")
		s.applies([]item.Item{revokes("n1", "root")})
		f := s.facet()
		var reloaded atomic.Bool
		s.reloads = func() { time.AfterFunc(time.Second, func() { s.reopens(); reloaded.Store(true) }) }
		f.step = func(what string) {
			if what == "remove "+sshRevoked && !reloaded.Load() {
				t.Error("the list goes before the server has opened its port again")
			}
		}
		began := time.Now()
		if err := f.Apply(t.Context(), s.host(), []item.Item{certificates("n1", "root")}, nil); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); !s.gone(sshRevoked) || took < time.Second || took >= reopens {
			t.Errorf("took %v", took)
		}
	})
}

// server is a process sshd that listens, at another port than 22.
func (s *fake) server(pid, parent, start string) {
	s.t.Helper()
	s.serverAs("sshd", pid, parent, start)
}

// serverAs is such a process by another name: it was started by a link to sshd.
func (s *fake) serverAs(name, pid, parent, start string) {
	s.t.Helper()
	at := "/proc/" + pid
	s.put(at+"/comm", name+"\n")
	s.put(at+"/stat", pid+" ("+name+") S "+parent+strings.Repeat(" 0", 17)+" "+start+" 0 0\n")
	s.must(os.Symlink(s.at(sshServer), s.at(at+"/exe")))
	s.must(os.MkdirAll(s.at(at+"/fd"), 0o755))
	s.listensAt(pid, "9"+pid)
	s.must(os.Symlink(s.root, s.at(at+"/root")))
}

// listensAt has a process listen at a socket, in place of its last one.
func (s *fake) listensAt(pid, inode string) {
	s.t.Helper()
	at := "/proc/" + pid
	s.put(at+"/net/tcp", "  sl  local_address rem_address   st\n   0: 00000000:08AE 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "+inode+" 1 0 100 0 0 10 0\n")
	os.Remove(s.at(at + "/fd/3"))
	s.must(os.Symlink("socket:["+inode+"]", s.at(at+"/fd/3")))
}

// reopens has the server of the unit open its port again, as sshd does when it is reloaded.
func (s *fake) reopens() {
	socket, _ := os.Readlink(s.at("/proc/" + s.mainPID + "/fd/3"))
	if inode, is := strings.CutPrefix(strings.TrimSuffix(socket, "]"), "socket:["); is {
		s.listensAt(s.mainPID, inode+"0")
	}
}

func (s *fake) ends(pid string) { s.t.Helper(); s.must(os.RemoveAll(s.at("/proc/" + pid))) }

// A second server, which the unit's reload does not reach, gets no list. The unit's own, its sessions
// and the servers of containers are no second one.
func TestNoListBesideASecondServer(t *testing.T) {
	s := newFake(t)
	s.mainPID = "500"
	s.server("500", "1", "100")
	s.server("600", "500", "200") // a session that forwards a port
	s.server("700", "1", "300")
	s.must(os.Remove(s.at("/proc/700/root")))
	s.must(os.Symlink(t.TempDir(), s.at("/proc/700/root"))) // in a container
	s.applies([]item.Item{revokes("n1", "root")})
	s.applies([]item.Item{certificates("n1", "root")})
	if !s.gone(sshRevoked) {
		t.Error("the list stays although the server was reloaded")
	}
	s.server("800", "1", "400")
	err, _ := s.apply([]item.Item{revokes("n1", "root")})
	var told *wire.Error
	if !errors.As(err, &told) || told.Class != wire.Refused || !strings.Contains(told.Text, "not ssh.service (process 800)") || !s.gone(sshRevoked) || s.get(sshSettings) != sshText {
		t.Errorf("got %v", err)
	}
}

// A server counts by its program: its name is that of the link it was started by. Where the program cannot be read,
// it may be one.
func TestAServerByAnotherName(t *testing.T) {
	exe := func(s *fake, to string) {
		s.must(os.Remove(s.at("/proc/800/exe")))
		s.must(os.Symlink(to, s.at("/proc/800/exe")))
	}
	for name, c := range map[string]struct {
		change  func(s *fake)
		refused bool // a list is refused
		stays   bool // an empty list stays
	}{
		"started by a link":             {func(*fake) {}, true, true},
		"its program was since updated": {func(s *fake) { exe(s, s.at(sshServer)+" (deleted)") }, true, true},
		"another program":               {func(s *fake) { exe(s, "/usr/sbin/nginx") }, false, false},
		"a thread of the kernel": {func(s *fake) {
			s.must(os.Remove(s.at("/proc/800/exe")))
			s.must(os.RemoveAll(s.at("/proc/800/fd")))
		}, false, false},
		"it cannot be read": {func(s *fake) {
			s.must(os.Remove(s.at("/proc/800/exe")))
			s.must(os.WriteFile(s.at("/proc/800/exe"), nil, 0o600)) // EINVAL stands for EACCES, which root does not get
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFake(t)
			s.mainPID = "500"
			s.server("500", "1", "100")
			s.applies([]item.Item{revokes("n1", "root")})
			s.serverAs("sshd-mgmt", "800", "1", "400")
			c.change(s)
			s.applies([]item.Item{certificates("n1", "root")})
			if stays := !s.gone(sshRevoked) && s.get(sshRevoked) == string(item.EmptyKRL()); stays != c.stays || s.gone(sshRevoked) == c.stays {
				t.Errorf("an empty list stays: %t", stays)
			}
			if err, _ := s.apply([]item.Item{revokes("n1", "root")}); (err != nil) != c.refused {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A second server that may have read settings with the list finds an empty one until it is restarted.
func TestEmptyListForASecondServer(t *testing.T) {
	isEmpty := func(s *fake) bool {
		return !s.gone(sshRevoked) && s.get(sshRevoked) == string(item.EmptyKRL())
	}
	start := func(t *testing.T) *fake {
		s := newFake(t)
		s.mainPID = "500"
		s.server("500", "1", "100")
		s.applies([]item.Item{revokes("n1", "root")})
		s.server("800", "1", "400")
		return s
	}
	t.Run("nobody is revoked any more", func(t *testing.T) {
		s, want := start(t), certificates("n1", "root")
		s.applies([]item.Item{want})
		s.so(want)
		s.quiet([]item.Item{want})
		if !isEmpty(s) {
			t.Error("there is no empty list")
		}
		s.ends("800")
		s.server("800", "1", "900") // restarted, and given the same number
		s.applies([]item.Item{want})
		if s.so(want); !s.gone(sshRevoked) {
			t.Error("the list stays")
		}
	})
	t.Run("the design names nobody", func(t *testing.T) {
		s := start(t)
		for range 2 {
			err, _ := s.apply(nil, item.KindSSH)
			var told *wire.Error
			if !errors.As(err, &told) || told.Class != wire.Busy || !strings.Contains(told.Text, "Restart that server: process 800") || !isEmpty(s) || !s.gone(sshSettings) || !s.gone(sshSigners) {
				t.Fatalf("got %v", err)
			}
		}
		s.ends("800")
		s.applies(nil, item.KindSSH)
		if _, ours := s.owned()["base/"+item.KindSSH]; !s.gone(sshFiles) || ours {
			t.Errorf("it is not as before: %v", s.owned())
		}
	})
	t.Run("the unit does not run", func(t *testing.T) {
		s := start(t)
		s.noUnit = true
		s.ends("800")
		s.applies([]item.Item{certificates("n1", "root")})
		if !isEmpty(s) {
			t.Error("there is no empty list")
		}
	})
	t.Run("cut off at every step", func(t *testing.T) {
		for kill := 1; ; kill++ {
			s := start(t)
			s.kill = kill
			_, dead := s.apply([]item.Item{certificates("n1", "root")})
			if s.gone(sshRevoked) || !strings.HasPrefix(s.get(sshRevoked), "SSHKRL") {
				t.Fatalf("step %d: the list has gone", kill)
			}
			s.kill = 0
			s.applies([]item.Item{certificates("n1", "root")})
			if !isEmpty(s) {
				t.Fatalf("after a cut at step %d: no empty list", kill)
			}
			if !dead {
				return
			}
		}
	})
}
