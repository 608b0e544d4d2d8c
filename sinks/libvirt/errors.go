package libvirt

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// classes are libvirt's error codes that do not mean a refusal. Every other code does.
var classes = map[golibvirt.ErrorNumber]error{
	golibvirt.ErrAuthFailed:           driver.ErrDenied,
	golibvirt.ErrAuthCancelled:        driver.ErrDenied,
	golibvirt.ErrAuthUnavailable:      driver.ErrDenied,
	golibvirt.ErrAccessDenied:         driver.ErrDenied,
	golibvirt.ErrOperationDenied:      driver.ErrDenied,
	golibvirt.ErrOperationTimeout:     driver.ErrBusy,
	golibvirt.ErrResourceBusy:         driver.ErrBusy,
	golibvirt.ErrAgentUnresponsive:    driver.ErrBusy,
	golibvirt.ErrNoMemory:             driver.ErrBusy,
	golibvirt.ErrNoConnect:            driver.ErrUnreachable,
	golibvirt.ErrRPC:                  driver.ErrUnreachable,
	golibvirt.ErrInternalError:        driver.ErrUnreachable, // also reported if QEMU ended in the middle
	golibvirt.ErrSystemError:          driver.ErrUnreachable,
	golibvirt.ErrOperationAborted:     driver.ErrUnreachable,
	golibvirt.ErrNoSupport:            errors.ErrUnsupported,
	golibvirt.ErrOperationUnsupported: errors.ErrUnsupported,
	golibvirt.ErrConfigUnsupported:    errors.ErrUnsupported,
	golibvirt.ErrArgumentUnsupported:  errors.ErrUnsupported,
}

// classify adds the class to an error of a call.
func classify(err error) error {
	var said golibvirt.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrInterrupted):
		return err // not sent
	case errors.As(err, &said):
		return fmt.Errorf("%w: libvirt says: %w", class(said), err)
	case errors.Is(err, golibvirt.ErrUnsupported):
		return fmt.Errorf("%w: this libvirt is too old for the call", errors.ErrUnsupported)
	case errors.Is(err, golibvirt.ErrInterrupted):
		return fmt.Errorf("%w: the connection to libvirt was lost", driver.ErrUnreachable)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnreachable, err)
}

func class(said golibvirt.Error) error {
	if strings.Contains(said.Message, "cannot acquire state change lock") {
		return driver.ErrBusy
	}
	if c := classes[golibvirt.ErrorNumber(said.Code)]; c != nil {
		return c
	}
	return driver.ErrRefused
}

// says reports whether an error is libvirt's with one of the codes.
func says(err error, codes ...golibvirt.ErrorNumber) bool {
	var said golibvirt.Error
	return errors.As(err, &said) && slices.Contains(codes, golibvirt.ErrorNumber(said.Code))
}
