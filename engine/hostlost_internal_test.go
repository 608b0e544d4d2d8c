package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/tests/lab"
)

// The bootstrap host is destroyed in the middle of a rotation, after any of its requests. A new host with Git, the status
// branch and the site key alone logs in to each BMC and ends the rotation, whether the status branch is from before the rotation or has
// all that was recorded in that moment. It asks no machine for a change but of its accounts.
func TestProveHostLostInTheMiddleOfARotation(t *testing.T) {
	for i, personality := range lab.Personalities {
		t.Run(personality, func(t *testing.T) {
			t.Parallel()
			whole := owned(t, newRotationRack(t, personality, 1))
			whole.designs("bmc-own", 2, own)
			all, _ := whole.run(0)
			whole.reaches("not lost", 2, 0)
			losses, seed := lossesOf(all, i)
			for losses := range slices.Chunk(losses, 25) {
				r := newRotationRack(t, personality, len(losses))
				for _, l := range losses {
					loseInTheMiddle(owned(t, r), l)
					if t.Failed() {
						t.Fatalf("%+v of %d requests, SLIPWAY_SEED=%d", l, all, seed)
					}
				}
				t.Logf("lost %d times, in a rotation of %d requests, at %v", len(losses), all, r.struck)
			}
		})
	}
}

// loss is when a host is lost.
type loss struct {
	request int
	prompt  bool // the status branch has what was recorded then, else what was before the rotation
}

// lossesOf are the losses in a rotation of some requests: all of them with SLIPWAY_PROVE set, otherwise a sample, which the
// seed and the personality's number draw.
func lossesOf(requests, personality int) (all []loss, seed uint64) {
	for request := 1; request <= requests; request++ {
		all = append(all, loss{request, false}, loss{request, true})
	}
	seed = number64("SLIPWAY_SEED", number64("SLIPWAY_FIRST_SEED", 1))
	if os.Getenv("SLIPWAY_PROVE") == "" {
		dice := rand.New(rand.NewPCG(seed, uint64(personality)))
		dice.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:min(int(number64("SLIPWAY_RUNS", 4)), len(all))]
	}
	return all, seed
}

// loseInTheMiddle loses the host of a machine in its rotation to the epoch 2, and builds it again.
func loseInTheMiddle(b *bay, l loss) {
	b.t.Helper()
	b.designs("bmc-own", 2, own)
	power, calls := b.m.Power(), b.r.CallCount()
	b.prompt = l.prompt
	b.run(l.request) // which is over before its last requests at times
	b.prompt = false
	// Either password of Slipway's own account, of which it knows both, is that of the BMC.
	if is := b.has("slipway"); !is.Enabled || is.Password != b.passwordOf("slipway", 1) && is.Password != b.passwordOf("slipway", 2) {
		b.t.Errorf("the BMC has neither password when the host is lost: %v", b.names())
	}
	b.lose()
	b.reaches(fmt.Sprintf("lost at request %d, all published: %v", l.request, l.prompt), 2, 0)
	if c := b.m.Counts(); c.Denied > 1 {
		b.t.Errorf("%d logins were denied", c.Denied)
	}
	if b.m.Power() != power {
		b.t.Errorf("the machine is %s, and was %s", b.m.Power(), power)
	}
	writes := 0
	for _, c := range b.r.Calls()[calls:] {
		switch {
		case c.Machine != b.name || !c.Write():
		case strings.Contains(c.Path, "/AccountService/"):
			writes++
		default:
			b.t.Errorf("the machine was asked for another change: %s %s %s", c.Method, c.Path, c.Reset)
		}
	}
	if writes == 0 {
		b.t.Error("no password was replaced: the rotation asked for nothing")
	}
}
