package driver

import "errors"

// Class is the class of a driver's error in one word, "ok" for none. An error
// without a class is of ErrUnreachable.
func Class(err error) string {
	if err == nil {
		return "ok"
	}
	for _, class := range []error{ErrDenied, ErrRefused, ErrBusy, ErrInterrupted, ErrOutranked, ErrNotPermitted} {
		if errors.Is(err, class) {
			return class.Error()
		}
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return "unsupported"
	}
	return ErrUnreachable.Error()
}
