package design

import (
	"regexp"
	"sync"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
)

// accepts reports whether the schema accepts a scalar or a list of scalars.
// Asking CUE takes some microseconds for each value, so patterns, bounds and
// alternatives of these are tested here without CUE.
func (s *shape) accepts(value any) bool {
	if !s.says.Exists() || s.isStruct() || s.kind == cue.TopKind || s.constraint {
		return false
	}
	test, known := tests.Load(s)
	if !known {
		test, _ = tests.LoadOrStore(s, testOf(s.says))
	}
	return test.(predicate)(value)
}

// predicate reports whether a value fits.
type predicate func(any) bool

// tests caches the predicate of each shape.
var tests sync.Map

// testOf returns the predicate for a schema value of a scalar or list.
func testOf(v cue.Value) predicate {
	if test := understood(v); test != nil {
		return test
	}
	var one sync.Mutex // a CUE context is not safe for concurrent use
	context := cuecontext.New()
	return func(value any) bool {
		one.Lock()
		defer one.Unlock()
		return v.Unify(context.Encode(value)).Validate(cue.Concrete(true)) == nil
	}
}

// understood returns the predicate for a value, or nil where only CUE can
// decide.
func understood(v cue.Value) predicate {
	v = cue.Dereference(v)
	op, args := v.Expr()
	switch op {
	case cue.AndOp, cue.OrOp:
		return combined(op == cue.AndOp, args)
	case cue.RegexMatchOp:
		return matching(args)
	case cue.NoOp:
		return ofKind(v)
	}
	return nil
}

// combined joins the predicates of several values: all must fit, or one of
// them.
func combined(all bool, args []cue.Value) predicate {
	var tests []predicate
	for _, a := range args {
		test := understood(a)
		if test == nil {
			return nil
		}
		tests = append(tests, test)
	}
	return func(value any) bool {
		for _, test := range tests {
			if test(value) != all {
				return !all
			}
		}
		return all
	}
}

func matching(args []cue.Value) predicate {
	text, err := args[0].String()
	if err != nil {
		return nil
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return nil
	}
	return func(value any) bool {
		s, ok := value.(string)
		return ok && pattern.MatchString(s)
	}
}

// ofKind returns the predicate for a type or a single value. For a list, the
// predicate tests each item.
func ofKind(v cue.Value) predicate {
	if v.IncompleteKind() == cue.ListKind {
		return eachItem(v)
	}
	if v.IsConcrete() {
		one, err := scalar(v)
		if err != nil {
			return nil
		}
		return func(value any) bool { return value == one }
	}
	if _, args := v.Expr(); len(args) != 1 || v.Validate() != nil {
		return nil
	}
	switch v.IncompleteKind() {
	case cue.StringKind:
		return func(value any) bool { _, ok := value.(string); return ok }
	case cue.BoolKind:
		return func(value any) bool { _, ok := value.(bool); return ok }
	case cue.IntKind:
		return func(value any) bool { _, ok := value.(int64); return ok }
	}
	return nil
}

func eachItem(v cue.Value) predicate {
	item := v.LookupPath(cue.MakePath(cue.AnyIndex))
	if !item.Exists() || v.LookupPath(cue.MakePath(cue.Index(0))).Exists() {
		return nil
	}
	test := understood(item)
	if test == nil {
		return nil
	}
	return func(value any) bool {
		list, ok := value.([]any)
		for _, x := range list {
			ok = ok && test(x)
		}
		return ok
	}
}
