package base

import (
	"os"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

func commandTo(input string) inside.Command {
	return inside.Command{Path: "chpasswd", Args: []string{"--encrypted"}, Stdin: []byte(input + "\n")}
}

// without chrony, systemd-timesyncd is set.
func timesyncdOnly(s *fake) {
	s.must(os.RemoveAll(s.at("/usr/sbin/chronyd")))
	s.must(os.RemoveAll(s.at("/etc/chrony")))
	s.put("/usr/lib/systemd/systemd-timesyncd", "")
	s.put("/etc/systemd/timesyncd.conf", "[Time]\n#NTP=\nNTP=192.0.2.1\n")
}

// RHEL's chrony has its file elsewhere, and its unit another name.
func rhel(s *fake) {
	s.must(os.RemoveAll(s.at("/etc/chrony")))
	s.must(os.Remove(s.at("/etc/timezone")))
	s.put("/etc/chrony.conf", "pool 2.rhel.pool.ntp.org iburst\nsourcedir /run/chrony-dhcp\ndriftfile /var/lib/chrony/drift\n")
	s.put("/usr/lib/systemd/system/chronyd.service", "")
	s.must(os.Remove(s.at("/etc/localtime")))
}

func TestClocks(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(*fake)
		have    string // before us
		file    string
		restart string
	}{
		{"debian", func(*fake) {}, "192.0.2.7, 192.0.2.9, 2.debian.pool.ntp.org", "/etc/chrony/chrony.conf", "chrony.service"},
		{"rhel", rhel, "2.rhel.pool.ntp.org", "/etc/chrony.conf", "chronyd.service"},
		{"timesyncd", timesyncdOnly, "192.0.2.1", timesyncdFile, "systemd-timesyncd.service"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFake(t)
			c.prepare(s)
			before := s.list()
			if have := s.observe("time").Have["time.servers"]; have != c.have {
				t.Errorf("before us: %q, want %q", have, c.have)
			}
			items := []item.Item{clockItem("Europe/Zurich", "10.0.0.1", "fd00::1")}
			s.applies(items)
			s.so(items...)
			s.quiet(items)
			if !strings.Contains(s.get(c.file), "10.0.0.1") || len(s.restart) != 1 || s.restart[0] != c.restart {
				t.Errorf("restarted %q; %s is:\n%s", s.restart, c.file, s.get(c.file))
			}
			// The servers alone leave the design, and then the zone too.
			zone := []item.Item{clockItem("Europe/Zurich")}
			s.applies(zone)
			s.so(zone...)
			if have := s.observe("time").Have["time.servers"]; have != c.have {
				t.Errorf("the system's own servers are %q, want %q", have, c.have)
			}
			s.quiet(zone)
			s.applies(items)
			s.applies(nil, "time")
			if after := s.list(); after != before {
				t.Errorf("what is left differs:\n%s", difference(before, after))
			}
		})
	}
}

// A restart that failed is done again, and is seen to be missing.
func TestRestartThatFailed(t *testing.T) {
	for _, items := range [][]item.Item{{clockItem("", "10.0.0.1")}, {logs("udp://10.0.0.5")}} {
		s := newFake(t)
		s.exit["systemctl"] = inside.Output{Code: 1, Err: []byte("Job failed.")}
		if err, _ := s.apply(items); err == nil || !strings.Contains(err.Error(), "Job failed.") {
			t.Errorf("got %v", err)
		}
		for name, want := range item.Values(items) {
			if have := s.observe(items[0].Key).Have[name]; have == want {
				t.Errorf("%s is told to be %q", name, have)
			}
		}
		delete(s.exit, "systemctl")
		s.applies(items)
		if len(s.restart) != 1 {
			t.Errorf("restarted %q", s.restart)
		}
		s.so(items...)
		s.quiet(items)
	}
}

// When chrony is added later it is set, and timesyncd is set back.
func TestAnotherTimeService(t *testing.T) {
	s := newFake(t)
	conf := s.get("/etc/chrony/chrony.conf")
	timesyncdOnly(s)
	items := []item.Item{clockItem("", "10.0.0.1")}
	s.applies(items)
	s.put("/usr/sbin/chronyd", "")
	s.put("/etc/chrony/chrony.conf", conf)
	s.applies(items)
	s.so(items...)
	s.quiet(items)
	if !s.gone(timesyncdFile) {
		t.Error("timesyncd is still set")
	}
}

// Settings that are changed by hand are drift.
func TestLogsChangedByHand(t *testing.T) {
	s := newFake(t)
	items := []item.Item{logs("tls://logs.example.org")}
	s.applies(items)
	text := s.get(rsyslogFile)
	for _, want := range []string{`streamDriver="gtls"`, `streamDriverAuthMode="x509/name"`, `streamDriverPermittedPeers="logs.example.org"`, `port="6514"`, `queue.timeoutEnqueue="0"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the settings lack %s:\n%s", want, text)
		}
	}
	s.put(rsyslogFile, strings.Replace(text, "x509/name", "anon", 1))
	if have := s.observe("logs").Have["logs.forward"]; have != "changed by hand" {
		t.Errorf("seen is %q", have)
	}
	s.applies(items)
	s.so(items...)
	if s.get(rsyslogFile) != text {
		t.Error("not set back")
	}
}

// Links of a system in another root stay within it.
func TestLinksOfAnotherRoot(t *testing.T) {
	s := newFake(t)
	s.live = false
	outside := t.TempDir()
	s.must(os.RemoveAll(s.at("/etc/rsyslog.d")))
	s.must(os.Symlink(outside, s.at("/etc/rsyslog.d"))) // within the root there is no such folder
	_, _ = s.apply([]item.Item{logs("udp://10.0.0.5")})
	if all, err := os.ReadDir(outside); err != nil || len(all) > 0 {
		t.Errorf("written outside: %v, %v", all, err)
	}
	s.must(os.Remove(s.at("/etc/rsyslog.d")))
	s.must(os.MkdirAll(s.at("/srv/rsyslog"), 0o755))
	s.must(os.Symlink("/srv/rsyslog", s.at("/etc/rsyslog.d")))
	s.applies([]item.Item{logs("udp://10.0.0.5")})
	if s.gone("/srv/rsyslog/60-slipway.conf") {
		t.Error("a link within the root is not followed")
	}
}
