package packages

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// Lists that apt does not take, since their time is over or has not come by the clock of the
// machine, leave the level unknown. Upgrades of the others are made.
func TestAptListsThatAreNotValid(t *testing.T) {
	t.Parallel()
	s := debian(t)
	putFile(t, s.root, "/etc/apt/apt.conf.d/zz-times", "Acquire::Check-Valid-Until \"true\";\nAcquire::Check-Date \"true\";\n")
	s.publish("stable", "Site", deb{name: "one", version: "1.0"}, deb{name: "two", version: "1.0"})
	s.publish("other", "Site")
	s.does([]item.Item{s.repository("stable", 0), s.repository("other", 0), pkg("one", "", "present"), pkg("two", "", "present")})
	s.publish("other", "Site", deb{name: "two", version: "2.0"})
	s.release = "Valid-Until: " + time.Now().Add(-48*time.Hour).UTC().Format(time.RFC1123) + "\n"
	s.publish("stable", "Site", deb{name: "one", version: "2.0"})
	all := []item.Item{patchItem(t, item.Patch{Level: "all"})}
	s.fails(all, wire.Failed, "the upgrades of the other lists were made", "/dists/stable", "is expired", "by the clock of the machine it is "+time.Now().UTC().Format("2006-"), "name another one")
	if got := s.have("patch").Have["patch.level"]; !strings.HasPrefix(got, "unknown: lists of packages could not be fetched, so upgrades may be missing: ") {
		t.Errorf("the level is %q", got)
	}
	s.are([]item.Item{pkg("one", "1.0", "present"), pkg("two", "2.0", "present")})
	s.release = ""
	s.publish("stable", "Site")
	s.makes(all)
	s.are([]item.Item{pkg("one", "2.0", "present")})
}

// A kernel is installed beside the one that is there, and counts as an upgrade all the same.
func TestDNFKernel(t *testing.T) {
	t.Parallel()
	s := fedora(t)
	repo := t.TempDir()
	kernel := [][3]string{{"kernel-core", "Provides: installonlypkg(kernel)", ""}}
	s.publishRPM(repo, "", spec("1.0", kernel))
	s.does([]item.Item{s.repositoryRPM(repo), pkg("kernel-core", "1.0-1", "present")})
	s.publishRPM(repo, "<updates>"+advisory("SITE-1", "security", "2.0", "kernel-core")+"</updates>", spec("2.0", kernel))
	if err := (dnf{}).refresh(t.Context(), s.h, nil, true); err != nil {
		t.Fatal(err)
	}
	seen := s.have("patch")
	if want := (item.Upgrade{Name: "kernel-core", From: "1.0-1", To: "2.0-1", Security: true}); seen.Upgrades == nil || len(seen.Upgrades.Packages) != 1 || seen.Upgrades.Packages[0] != want {
		t.Fatalf("%+v of %q (unread %v), want %+v", seen.Upgrades, seen.Have["patch.level"], seen.Unread, want)
	}
	s.does([]item.Item{patchItem(t, item.Patch{Level: "security"})})
	if got := strings.Fields(string(s.must("rpm", "--root", s.root, "-q", "kernel-core"))); len(got) != 2 {
		t.Errorf("there is %q", got)
	}
	s.are([]item.Item{pkg("kernel-core", "2.0-1", "present")})
}
