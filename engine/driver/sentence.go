package driver

import "errors"

// Plain is an error that also states the facts in one sentence for whoever is on
// duty, without the requests, addresses and codes in the error's own text.
type Plain interface {
	error
	Plain() string
}

// Say returns an error with such a sentence.
func Say(sentence string, err error) error { return said{err, sentence} }

type said struct {
	error
	sentence string
}

// Plain implements the interface Plain.
func (s said) Plain() string { return s.sentence }

func (s said) Unwrap() error { return s.error }

// PlainOf returns the outermost sentence in an error, empty for none.
func PlainOf(err error) string {
	if p, ok := errors.AsType[Plain](err); ok {
		return p.Plain()
	}
	return ""
}
