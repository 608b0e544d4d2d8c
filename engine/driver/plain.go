package driver

import "errors"

// Plain is an error that also says in one sentence what is so, for whoever is on
// duty: without the requests, addresses and codes by which it was found, which the
// error's own text has.
type Plain interface {
	error
	Plain() string
}

// Say is an error with such a sentence.
func Say(sentence string, err error) error { return said{err, sentence} }

type said struct {
	error
	sentence string
}

// Plain implements the interface Plain.
func (s said) Plain() string { return s.sentence }

func (s said) Unwrap() error { return s.error }

// PlainOf is the outermost sentence in an error, empty for none.
func PlainOf(err error) string {
	if p, ok := errors.AsType[Plain](err); ok {
		return p.Plain()
	}
	return ""
}
