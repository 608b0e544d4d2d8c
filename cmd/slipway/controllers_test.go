package main

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/artifact"
	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/sinks/notify"
)

// What several controllers cannot do yet, or would do wrongly, is refused with a sentence.
func TestEtcdFlags(t *testing.T) {
	whole := func(change func(r *runFlags)) *runFlags {
		r := &runFlags{repo: "/srv/site.git", seen: seenFlags{form: notify.Own},
			etcd: etcdFlags{urls: "https://10.0.0.1:2379,https://10.0.0.2:2379", cert: "c", key: "k", ca: "a", prefix: etcdPrefix, copies: copyListen}}
		change(r)
		return r
	}
	for name, x := range map[string]struct {
		change func(r *runFlags)
		want   string // empty if it is accepted
	}{
		"whole":              {func(*runFlags) {}, ""},
		"without":            {func(r *runFlags) { r.etcd = etcdFlags{prefix: etcdPrefix, copies: copyListen} }, ""},
		"certificate alone":  {func(r *runFlags) { r.etcd.urls = "" }, "need --etcd"},
		"prefix alone":       {func(r *runFlags) { r.etcd = etcdFlags{prefix: "/x/", copies: copyListen} }, "need --etcd"},
		"copies alone":       {func(r *runFlags) { r.etcd = etcdFlags{prefix: etcdPrefix, copies: ":1"} }, "--copy-listen is for the other daemons of a site, and needs --etcd or --join"},
		"no copies":          {func(r *runFlags) { r.etcd.copies = noListener }, ""},
		"copies nowhere":     {func(r *runFlags) { r.etcd.copies = "9482" }, "is not HOST:PORT, :PORT or off"},
		"a folder":           {func(r *runFlags) { r.repo, r.dir = "", "site" }, "--etcd needs --repo"},
		"an observer":        {func(r *runFlags) { r.observe = true }, "--observe"},
		"network boot":       {func(r *runFlags) { r.netboot.text = "eth0=pxe" }, "--netboot does not follow the leader"},
		"the ramdisk":        {func(r *runFlags) { r.listens.medium = "ramdisk" }, "--ramdisk does not follow the leader"},
		"a command":          {func(r *runFlags) { r.seen.command = "/bin/page" }, "told again"},
		"a webhook":          {func(r *runFlags) { r.seen.webhook = "https://x" }, "told again"},
		"an open prefix":     {func(r *runFlags) { r.etcd.prefix = "/slipway" }, "does not begin and end with /"},
		"no authority":       {func(r *runFlags) { r.etcd.ca = "" }, "prove to each other"},
		"plain text":         {func(r *runFlags) { r.etcd.urls = "http://10.0.0.1:2379" }, "is not encrypted"},
		"plain text by name": {func(r *runFlags) { r.etcd.urls = "http://etcd.example:2379" }, "is not encrypted"},
		"one of them plain":  {func(r *runFlags) { r.etcd.urls += ",http://10.0.0.3:2379" }, "is not encrypted"},
		"plain on loopback": {func(r *runFlags) {
			r.etcd = etcdFlags{urls: "http://127.0.0.1:2379,http://[::1]:2379", prefix: etcdPrefix, copies: copyListen}
		}, ""},
		"loopback, with TLS": {func(r *runFlags) { r.etcd.urls = "http://127.0.0.1:2379" }, "are for https://"},
		"no port":            {func(r *runFlags) { r.etcd.urls = "https://10.0.0.1" }, "is not https://HOST:PORT"},
		"a path":             {func(r *runFlags) { r.etcd.urls = "https://10.0.0.1:2379/x" }, "is not https://HOST:PORT"},
		"a password":         {func(r *runFlags) { r.etcd.urls = "https://u:p@10.0.0.1:2379" }, "is not https://HOST:PORT"},
		"another scheme":     {func(r *runFlags) { r.etcd.urls = "unix://10.0.0.1:2379" }, "is not https://HOST:PORT"},
		"a comma at the end": {func(r *runFlags) { r.etcd.urls += "," }, "is not https://HOST:PORT"},
	} {
		r := whole(x.change)
		switch err := r.etcd.check(r); {
		case x.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case x.want != "" && (!errors.Is(err, errUsage) || !strings.Contains(err.Error(), x.want)):
			t.Errorf("%s: got %v, want %q", name, err, x.want)
		}
	}
}

// stuck is a copier with or without a problem.
type stuck struct{ why error }

func (s *stuck) Problem() error          { return s.why }
func (s *stuck) Keeper() artifact.Keeper { return nil }

// A follower says who leads, by its status and by /readyz, and does nothing else.
func TestFollower(t *testing.T) {
	c := &stuck{}
	w := &follower{site: "berlin", copies: c}
	log := slog.New(slog.DiscardHandler)
	if why := w.unready(); len(why) != 1 || why[0] != "this daemon follows; site berlin is led by: nobody yet" {
		t.Errorf("at first: %q", why)
	}
	w.note(record.Leader{Holder: "host\x1b b, process 8", Term: 4}, log)
	r, err := w.Report("")
	if err != nil || r.Status.Site != "berlin" || !strings.HasSuffix(r.Status.Leader, "b, process 8 (term 4)") || strings.Contains(r.Status.Leader, "\x1b") {
		t.Errorf("the report: %+v, %v", r.Status, err)
	}
	c.why = errors.New("no room")
	r, _ = w.Report("")
	c.why = errors.New("no room at all")
	again, _ := w.Report("")
	if p := again.Status.Problems; len(p) != 1 || p[0].About != "copies" || p[0].What != "no room at all" || p[0].Since != r.Status.Problems[0].Since {
		t.Errorf("what is not copied: %+v", p)
	}
	c.why = nil
	if r, _ = w.Report(""); len(r.Status.Problems) != 0 {
		t.Errorf("once it is over: %+v", r.Status.Problems)
	}
	w.note(record.Leader{Holder: "host b", Term: 4, Trouble: errors.New("the etcd does not answer")}, log)
	if r, _ = w.Report("berlin"); len(r.Status.Problems) != 1 || r.Status.Problems[0].Since.IsZero() || len(w.unready()) != 2 {
		t.Errorf("without etcd: %+v, %q", r.Status.Problems, w.unready())
	}
	w.note(record.Leader{Holder: "host b", Term: 4, Released: true}, log)
	if r, _ = w.Report(""); r.Status.Leader != "nobody: host b has ended term 4" || len(r.Status.Problems) != 0 {
		t.Errorf("after a release: %+v", r.Status)
	}
	if _, err := w.Report("paris"); !errors.Is(err, site.ErrNotFound) {
		t.Errorf("another site: %v", err)
	}
	if _, err := w.Do(t.Context(), "", site.Order{}); !errors.Is(err, site.ErrRefused) || !strings.Contains(err.Error(), "it is led by: nobody: host b has ended term 4. Run the command, or open the page, on the leader's host") {
		t.Errorf("an order: %v", err)
	}
	if _, err := w.AddAudit(t.Context(), "", site.AuditEntry{}); !errors.Is(err, site.ErrRefused) {
		t.Errorf("an entry of the audit log: %v", err)
	}
}

// Where a member of etcd is on this host, its address there is not one that others reach.
func TestTheAddressThatOthersSee(t *testing.T) {
	ways := map[string]string{"127.0.0.1": "127.0.0.1", "::1": "::1", "etcd1.example": "127.0.0.1", "10.0.0.2": "10.0.0.1", "fd00::2": "fd00::1"}
	towards := func(host string) (string, error) {
		if ways[host] == "" {
			return "", errors.New("no route to " + host)
		}
		return ways[host], nil
	}
	for urls, want := range map[string]string{
		"https://10.0.0.2:2379":                            "10.0.0.1",
		"https://127.0.0.1:2379,https://10.0.0.2:2379":     "10.0.0.1",
		"https://[::1]:2379,https://[fd00::2]:2379":        "fd00::1",
		"https://etcd1.example:2379,https://10.0.0.2:2379": "10.0.0.1",
		"https://10.0.0.9:2379,https://10.0.0.2:2379":      "10.0.0.1",
		"https://127.0.0.1:2379,https://10.0.0.9:2379":     "127.0.0.1", // several daemons on one host
		"https://127.0.0.1:2379":                           "127.0.0.1",
		"https://10.0.0.9:2379":                            "no route to 10.0.0.9",
	} {
		got, err := (&etcdFlags{urls: urls}).seen(towards)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", urls, got, want)
		}
	}
}
