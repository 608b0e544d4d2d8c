package config

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/item"
)

// newSettled is a system in which people have set things.
func newSettled(t testing.TB) *fake {
	f := newFake(t)
	f.put("/etc/sysctl.d/50-mine.conf", "# mine\nvm.swappiness = 60\nnet.ipv4.conf.eth0/1.forwarding=0\nnet.ipv4.ip_forward = 1\nnet.ipv4.conf.*.forwarding = 1\nnet.gone = 1\n")
	f.put("/etc/modules-load.d/mine.conf", "dummy\nbonding\n")
	f.put("/etc/systemd/system/secret.service", "[Service]\nEnvironment=DB_PASSWORD=hunter2\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n")
	f.put("/etc/systemd/system/a.service.d/override.conf", "[Service]\nNice=5\n")
	f.put("/etc/systemd/system/c.service.d/slipway.conf", "[Service]\nRestart=always\n") // ours
	f.put("/etc/systemd/system/own.service", "[Service]\nPrivateTmp=yes\nExecStart=/usr/local/bin/own --level 3\n[Install]\nWantedBy=multi-user.target\n")
	f.units = "a.service enabled enabled\nb.service disabled enabled\nstatic.service disabled -\ngetty@.service enabled enabled\n"
	return f
}

func (f *fake) survey() item.Found {
	f.t.Helper()
	before := f.listing(false)
	found, err := f.facet().Survey(f.t.Context(), f.host)
	if err != nil {
		f.t.Fatal(err)
	}
	if got := f.listing(false); got != before || f.writes > 0 {
		f.t.Errorf("the survey has written: %s", difference(got, before))
	}
	return found
}

func TestSurvey(t *testing.T) {
	f := newSettled(t)
	found := f.survey()
	want := []string{"modules.dummy", "sysctl.net/ipv4/conf/eth0.1/forwarding", "sysctl.vm.swappiness", "units.b.service", "units.masked.service", "units.own.service", "units.secret.service"}
	if got := item.Keys(found.Items); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	seen := f.observe(item.Keys(found.Items)...)
	for name, want := range item.Values(found.Items) {
		if seen.Have[name] != want {
			t.Errorf("%s is %q, and the survey says %q", name, seen.Have[name], want)
		}
	}
	var left []string
	for _, l := range found.Left {
		left = append(left, l.What)
	}
	slices.Sort(left)
	wantLeft := []string{"modules.bonding", "sysctl.net.gone", "sysctl.net.ipv4.conf.*.forwarding", "sysctl.net.ipv4.ip_forward", "units.a.service", "units.secret.service.content"}
	if diff := cmp.Diff(wantLeft, left); diff != "" {
		t.Error(diff)
	}
	told, _ := json.Marshal(found)
	if strings.Contains(string(told), "hunter2") || !strings.Contains(string(told), "--level 3") {
		t.Errorf("it tells %s", told)
	}
}

// On Debian what a package enabled is noted, and that counts instead of presets.
func TestSurveyOfDebiansUnits(t *testing.T) {
	f := newSettled(t)
	f.put(dshFolder+"/a.service.dsh-also", "")
	f.put(dshFolder+"/multi-user.target.wants/a.service", "")
	f.put(dshFolder+"/b.service.dsh-also", "")
	if keys := item.Keys(f.survey().Items); slices.Contains(keys, "units.a.service") || slices.Contains(keys, "units.b.service") {
		t.Errorf("got %q", keys)
	}
	f.units = "a.service disabled enabled\nb.service enabled enabled\n"
	if keys := item.Keys(f.survey().Items); !slices.Contains(keys, "units.a.service") || !slices.Contains(keys, "units.b.service") {
		t.Errorf("got %q", keys)
	}
}

// What was taken over is left as it was when it leaves the design, also after Slipway
// has changed something beside it.
func TestTakenOverIsNotRemoved(t *testing.T) {
	f := newSettled(t)
	before, items := f.listing(false), f.survey().Items
	more := append(slices.Clone(items), sysctl("net.ipv4.ip_forward", "1"), file("/etc/new", "x", "0644", "root"))
	if err := f.apply(more); err != nil {
		t.Fatal(err)
	}
	if wrong := f.met(more); len(wrong) > 0 {
		t.Errorf("not met: %q", wrong)
	}
	if err := f.apply(nil, item.Keys(more)...); err != nil {
		t.Fatal(err)
	}
	if after := f.listing(false); after != before {
		t.Errorf("what was there is not as before:\n%s", difference(after, before))
	}
}

// What may be a secret in a unit file is found rather too often.
func TestSecretsInUnits(t *testing.T) {
	for text, secret := range map[string]bool{
		"[Service]\nPrivateTmp=yes\nProtectSystem=full\nExecStart=/usr/lib/a-very-long-path/of/a/program/that/has/more/than/forty/letters run\n": false,
		"Environment=API_TOKEN=x":                                true,
		"ExecStart=/bin/x --password y":                          true,
		"ExecStart=/bin/x https://me:word@example.org/":          true,
		"Environment=K=c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0": true,
		"-----BEGIN OPENSSH PRIVATE KEY-----":                    true,
		"LoadCredential=a:/b":                                    true,
		"Environment=AWS_ACCESS_KEY_ID=A":                        true,
	} {
		if got := secretWord().MatchString(withoutPaths(text)); got != secret {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// Settings that a package brought are nobody's; those that somebody changed are told.
func TestSurveyOfPackagesSettings(t *testing.T) {
	f := newFake(t)
	f.put(dpkgStatus, "Package: procps\nStatus: install ok installed\nConffiles:\n /etc/sysctl.d/10-a.conf a52b02fdad6272645fa77fd506bf1f1e\n /etc/sysctl.d/10-b.conf 00000000000000000000000000000000 obsolete\n")
	f.put("/etc/sysctl.d/10-a.conf", "net.ipv4.ip_forward=0\n")
	f.put("/etc/sysctl.d/10-b.conf", "vm.swappiness=60\n")
	if keys := item.Keys(f.survey().Items); slices.Contains(keys, "sysctl.net.ipv4.ip_forward") || !slices.Contains(keys, "sysctl.vm.swappiness") {
		t.Errorf("got %q", keys)
	}
}
