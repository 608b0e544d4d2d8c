package redfish

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// otherOrders are BMCs that are installed in another order than usual, or that keep
// an override for one boot for all of them.
var otherOrders = []lab.FaultKind{lab.FaultMediumFirst, lab.FaultOnceLasts, lab.FaultEmulator}

// shownBoot is the override that the machine shows.
func (b *box) shownBoot() string {
	b.t.Helper()
	s, err := b.open().system(b.t.Context(), site.Identity{})
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSpace(words(s.object, "Boot", "BootSourceOverrideEnabled") + " " + words(s.object, "Boot", overrideTarget))
}

// A BMC that wants the medium before the override, or keeps the override, installs
// once; nothing of it is left when the installed system runs.
func TestQuirkMediumFirstAndOnceLasts(t *testing.T) {
	for _, kind := range otherOrders {
		for _, power := range []string{"on", "off"} {
			t.Run(string(kind)+" "+power, func(t *testing.T) {
				inBox(t, func(t *testing.T, b *box) {
					b.SetFault(lab.Fault{Kind: kind})
					b.must(site.ActionInstall)
					if s := b.State(); s.Power != "On" || s.Media == "" || s.Counts.Installers != 1 {
						t.Fatalf("the machine is %+v", s)
					}
					b.SetPower("off")
					b.must(site.ActionFinishInstall)
					time.Sleep(time.Hour)
					if s := b.State(); s.Power != "On" || s.Runs != "system" || s.Media != "" || s.Counts.Installers != 1 {
						t.Errorf("the machine is %+v", s)
					}
					if left := b.shownBoot(); strings.HasPrefix(left, "Continuous") != (kind == lab.FaultEmulator) || strings.Contains(left, "Cd") {
						t.Errorf("left is %q", left)
					}
					b.must(site.ActionRestart)
					time.Sleep(time.Hour)
					if s := b.State(); s.Runs != "system" || s.Counts.Installers != 1 {
						t.Errorf("after a restart: %+v", s)
					}
				}, func(m *lab.MachineConfig) { m.Power = power })
			})
		}
	}
}

// An installation on them that is broken off at any of its requests is under way, or
// does not come about by a power-on. Taken up again it comes about once. Somebody who
// presses the power button meanwhile starts no installer unless the override leads to
// it, also where the boot order does.
func TestOtherOrdersCutAnywhere(t *testing.T) {
	for _, kind := range otherOrders {
		for _, first := range []string{"Hdd", "Cd"} {
			t.Run(fmt.Sprintf("%s, %s first", kind, first), func(t *testing.T) {
				in := func(test func(b *box)) {
					inBox(t, func(t *testing.T, b *box) {
						b.SetFault(lab.Fault{Kind: kind})
						test(b)
					}, func(m *lab.MachineConfig) {
						if m.Power = "on"; first == "Cd" {
							m.BootOrder = []string{"Cd", "Hdd"}
						}
					})
				}
				for k, more := 1, true; more; k++ {
					in(func(b *box) { more = b.installCutAt(k, 0) })
					in(func(b *box) { b.installTakenUpAt(k) })
					in(func(b *box) { b.pressedAt(k) })
				}
			})
		}
	}
}

// cutInstall begins an installation that is broken off at its kth request.
func (b *box) cutInstall(k int) {
	b.t.Helper()
	err := b.cutAt(k, 0, func(ctx context.Context) error { return b.apply(ctx, site.ActionInstall, false) })
	if err != nil && !errors.Is(err, context.Canceled) {
		b.t.Fatalf("cut at request %d: %v", k, err)
	}
}

func (b *box) installTakenUpAt(k int) {
	b.t.Helper()
	b.cutInstall(k)
	if err := b.apply(b.t.Context(), site.ActionInstall, true); err != nil {
		b.t.Fatalf("taken up at request %d: %v", k, err)
	}
	if s := b.State(); s.Power != "On" || s.Media == "" || s.Counts.Installers != 1 {
		b.t.Errorf("taken up at request %d: the machine is %+v", k, s)
	}
	b.SetPower("off")
	b.must(site.ActionFinishInstall)
	time.Sleep(time.Hour)
	if s := b.State(); s.Runs != "system" || s.Counts.Installers != 1 {
		b.t.Errorf("taken up at request %d: in the end it is %+v", k, s)
	}
}

func (b *box) pressedAt(k int) {
	b.t.Helper()
	b.cutInstall(k)
	if shown := b.shownBoot(); b.Power() != "Off" || strings.HasSuffix(shown, " Cd") {
		return
	}
	b.SetPower("on")
	if s := b.State(); s.Counts.Installers != 0 {
		b.t.Errorf("switched on at request %d: the machine is %+v", k, s)
	}
}
