package driver

import "errors"

// Class returns the class of a driver's error in one word, "ok" for nil. An
// error without a class counts as ErrUnreachable.
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
