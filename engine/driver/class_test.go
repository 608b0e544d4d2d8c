package driver_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
)

func TestErrorsHaveTheirClass(t *testing.T) {
	for err, want := range map[error]string{
		driver.ErrBusy: "busy", driver.ErrDenied: "denied", driver.ErrRefused: "refused", driver.ErrUnreachable: "unreachable",
		errors.ErrUnsupported: "unsupported", errors.New("?"): "unreachable", driver.ErrInterrupted: "interrupted", driver.ErrOutranked: "outranked",
	} {
		if got := driver.Class(fmt.Errorf("observe a: %w", err)); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}
