package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// A cause is told where it says more than the verdict, and nothing is said twice.
func TestCauseIsNotTheVerdictAgain(t *testing.T) {
	file := endpointError{"the BMC", fmt.Errorf("%w: there is no file x", driver.ErrDenied)}
	for _, c := range []struct {
		err                       error
		verdict, cause, explained string
	}{
		{errors.New("it broke"), "it broke", "", "it broke"},
		{fmt.Errorf("observe n1: %w", file), "there is no file x", "", "there is no file x"},
		{fmt.Errorf("observe n1: %w", driver.Say("wrong password", fmt.Errorf("%w: POST answered 401", driver.ErrDenied))),
			"wrong password", "observe n1: denied: POST answered 401", "wrong password (observe n1: denied: POST answered 401)"},
	} {
		if v, why, all := verdict(c.err), cause(c.err), explained(c.err); v != c.verdict || why != c.cause || all != c.explained {
			t.Errorf("%v: %q, %q, %q", c.err, v, why, all)
		}
	}
}
