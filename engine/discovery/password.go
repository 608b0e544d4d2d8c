package discovery

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// longestTurn is how long one controller keeps the others waiting.
const longestTurn = 5 * time.Second

// trial tests a credential before it is sent to many controllers: until one
// controller has accepted it, it is sent to one at a time.
type trial struct {
	credential string
	turn       *semaphore.Weighted

	mu     sync.Mutex
	right  bool
	denied []string // addresses that did not accept it, before any did
}

func newTrial(credential string) *trial {
	return &trial{credential: credential, turn: semaphore.NewWeighted(1)}
}

// send logs in to the controller at an address, if the credential may still be
// sent.
func (t *trial) send(ctx context.Context, address string, login func() error) error {
	if err := t.turn.Acquire(ctx, 1); err != nil {
		return err
	}
	leave := sync.OnceFunc(func() { t.turn.Release(1) })
	defer leave()
	right, err := t.known()
	if err != nil {
		return err
	}
	if right {
		leave()
		return login()
	}
	defer time.AfterFunc(longestTurn, leave).Stop()
	err = login()
	t.note(address, err)
	return err
}

// known reports whether the credential is known to be right, or returns an
// error if it counts as wrong.
func (t *trial) known() (right bool, wrong error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.right && len(t.denied) >= driver.MostDenied {
		return false, fmt.Errorf("%w: credential %q was not accepted by %s, and Slipway sent it to no other, because the account might get locked; "+
			"put the right password into its file, or leave these addresses out, and look again",
			driver.ErrDenied, t.credential, strings.Join(t.denied, " and "))
	}
	return t.right, nil
}

func (t *trial) note(address string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.right = true
	case driver.WasDenied(err):
		t.denied = append(t.denied, address)
	}
}
