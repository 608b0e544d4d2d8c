package engine

import (
	"testing"
)

// The host is lost right after a BMC got its next password, before the status branch was written again, and somebody raises
// the epoch once more. The records come from a backup that was made before. The next host tries the password that the
// branch names as the next one, and not the one of the design, which the BMC never got.
func TestRecordsFromABackupAndAnAnnouncedPassword(t *testing.T) {
	for _, blank := range []bool{true, false} { // with `slipway take-over`, or of the life that has published its term
		b := withBranch(owned(t, newRotationRack(t, "plain", 1)))
		old := b.memory
		b.designs("bmc-own", 2, own)
		b.start()
		b.e.tellBranch(t.Context())
		b.branch.refuses = true
		b.reaches("set, and not written", 2, 0)
		if p := b.sealed.Passwords["slipway"]; p.Proven.Epoch != 1 || p.Offered.Epoch != 2 {
			t.Fatalf("the branch has %+v", p)
		}
		b.lose()
		b.branch.refuses = false
		b.memory, b.blank = old, blank
		b.designs("bmc-own", 3, own)
		b.reaches("with the records of before", 3, 0)
		if c := b.m.Counts(); c.Denied > 1 {
			t.Errorf("%d were denied", c.Denied)
		}
	}
}

// A password that was named as the next one and never sent keeps nobody from another epoch, also a lower one, on the same host
// or on one that is built again.
func TestAnnouncedPasswordThatWasNeverSent(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for _, epoch := range []int{1, 2, 4} {
			b := withBranch(owned(t, newRotationRack(t, "plain", 1)))
			b.designs("bmc-own", 3, own)
			b.start()
			if !b.e.tellBranch(t.Context()) || b.sealed.Passwords["slipway"].Offered.Epoch != 3 {
				t.Fatalf("not named: %+v", b.sealed.Passwords)
			}
			if lost {
				b.lose()
			}
			b.designs("bmc-own", epoch, own)
			b.reaches("another epoch", epoch, 0)
			if c := b.m.Counts(); c.Denied > 0 {
				t.Errorf("lost %t, epoch %d: %d were denied", lost, epoch, c.Denied)
			}
		}
	}
}
