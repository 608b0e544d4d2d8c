package base

import (
	"os"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/inside"
)

// The service runs with settings that verify the receiver, and each of its parts is seen.
func TestUpload(t *testing.T) {
	s := newFake(t)
	before := s.list()
	items := []item.Item{logs("https://logs.example.org")}
	s.applies(items)
	s.so(items...)
	s.quiet(items)
	want := "# Slipway's, from the design.\n# receiver https://logs.example.org\n[Upload]\nURL=https://logs.example.org:19532\n" +
		"ServerKeyFile=-\nServerCertificateFile=-\nTrustedCertificateFile=/etc/ssl/certs/ca-certificates.crt\n"
	if got := s.get(uploadFile); got != want {
		t.Errorf("the settings are:\n%s", got)
	}
	for _, c := range []struct {
		change func()
		seen   string
	}{
		{func() { s.uploads = false }, "does not run"},
		{func() {
			s.put(uploadFile, strings.Replace(want, "TrustedCertificateFile=/etc/ssl/certs/ca-certificates.crt", "TrustedCertificateFile=all", 1))
		}, uploadFile + " differs"},
		{func() { s.put(uploadFile, "") }, "changed by hand"},
		{func() { s.put(uploadMore, "") }, uploadMore + " differs"},
		{func() { s.must(os.Remove(s.at(uploadLink))) }, "is not enabled"},
		{func() { s.put("/etc/ssl/ca/trusted.pem", "") }, uploadFile + " differs"},
		{func() {
			s.put("/etc/ssl/private/journal-upload.pem", "")
			s.put("/etc/ssl/certs/journal-upload.pem", "")
		}, uploadFile + " differs"},
	} {
		c.change()
		if have := s.observe("logs").Have["logs.forward"]; !strings.Contains(have, c.seen) {
			t.Errorf("seen is %q, want %q", have, c.seen)
		}
		s.restart = nil
		s.applies(items)
		if !s.uploads || len(s.restart) != 1 {
			t.Errorf("%s: runs %v, restarted %q", c.seen, s.uploads, s.restart)
		}
		s.so(items...)
		s.quiet(items)
	}
	if got := s.get(uploadFile); !strings.Contains(got, "\nServerKeyFile=/etc/ssl/private/journal-upload.pem\nServerCertificateFile=/etc/ssl/certs/journal-upload.pem\nTrustedCertificateFile=/etc/ssl/ca/trusted.pem\n") {
		t.Errorf("the settings are:\n%s", got)
	}
	s.must(os.RemoveAll(s.at("/etc/ssl/ca")))
	s.must(os.RemoveAll(s.at("/etc/ssl/private")))
	s.must(os.Remove(s.at("/etc/ssl/certs/journal-upload.pem")))
	s.applies(nil, "logs")
	if after := s.list(); after != before {
		t.Errorf("what is left differs:\n%s", difference(before, after))
	}
}

// A service that ran before goes on with its own settings.
func TestUploadOfBefore(t *testing.T) {
	s := newFake(t)
	s.put("/etc/systemd/journal-upload.conf", "[Upload]\nURL=https://own\n")
	s.must(os.MkdirAll(s.at("/etc/systemd/system/multi-user.target.wants"), 0o755))
	s.must(os.Symlink("/lib/systemd/system/"+uploadUnit, s.at(uploadLink)))
	s.uploads = true
	before := s.list()
	items := []item.Item{logs("http://10.0.0.5:80")}
	s.applies(items)
	s.so(items...)
	s.restart = nil
	s.applies(nil, "logs")
	if after := s.list(); after != before || len(s.restart) != 1 {
		t.Errorf("restarted %q, what is left differs:\n%s", s.restart, difference(before, after))
	}
}

// A receiver of rsyslog that takes the place of the journal's is not as designed before
// the service is stopped.
func TestUploadIsExchanged(t *testing.T) {
	s := newFake(t)
	s.applies([]item.Item{logs("https://logs.example.org")})
	items := []item.Item{logs("udp://10.0.0.5")}
	s.exit["systemctl stop -- "+uploadUnit] = inside.Output{Code: 1, Err: []byte("Job failed.")}
	if err, _ := s.apply(items); err == nil || !strings.Contains(err.Error(), "Job failed.") {
		t.Errorf("got %v", err)
	}
	if have := s.observe("logs").Have["logs.forward"]; have != "udp://10.0.0.5 ("+uploadUnit+" must be set back)" {
		t.Errorf("seen is %q", have)
	}
	delete(s.exit, "systemctl stop -- "+uploadUnit)
	s.applies(items)
	s.so(items...)
	s.quiet(items)
	if s.uploads {
		t.Error("it still runs")
	}
}

// An installation sets all files and starts nothing.
func TestUploadOfAnotherRoot(t *testing.T) {
	s := newFake(t)
	s.live = false
	items := []item.Item{logs("https://logs.example.org")}
	s.applies(items)
	s.so(items...)
	s.quiet(items)
	if len(s.ran) > 0 || s.gone(uploadLink) {
		t.Errorf("ran %q", s.ran)
	}
}

// What the list does not know of any more is taken away all the same: it carries our mark. A cut
// in between is gone on with.
func TestUploadThatIsLeft(t *testing.T) {
	for cut := range 3 {
		s := newFake(t)
		s.applies([]item.Item{logs("https://logs.example.org")})
		s.must(os.Remove(s.at(inside.Folder + "/owned.json")))
		for _, file := range []string{uploadMore, uploadLink}[:cut] { // as a run that was cut leaves it
			s.must(os.Remove(s.at(file)))
		}
		items := []item.Item{logs("udp://10.0.0.5")}
		s.applies(items)
		s.so(items...)
		s.quiet(items)
		if s.uploads || !s.gone(uploadFile) || !s.gone(uploadMore) || !s.gone(uploadLink) {
			t.Errorf("cut at %d: it runs %v, and files are left", cut, s.uploads)
		}
	}
}

// A unit that was masked since is not started when the receiver leaves the design.
func TestUploadThatWasMasked(t *testing.T) {
	s := newFake(t)
	s.put("/etc/systemd/journal-upload.conf", "[Upload]\nURL=https://own\n")
	s.uploads = true
	s.applies([]item.Item{logs("https://logs.example.org")})
	s.must(os.Symlink("/dev/null", s.at(uploadUser)))
	s.exit["systemctl restart -- "+uploadUnit] = inside.Output{Code: 1, Err: []byte("Unit is masked.")}
	s.applies(nil, "logs")
	if have, told := s.observe("logs").Have["logs.forward"]; told {
		t.Errorf("seen is %q", have)
	}
}
