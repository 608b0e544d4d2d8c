package design

import (
	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
)

// basis is the starting point of an evaluation: contexts that hold only the
// schema and nothing of a repository. It serves one evaluation, because
// contexts keep what they evaluated. A worker makes the next basis while it
// waits.
type basis struct {
	loading    *build.Context
	evaluating *cue.Context
	schema     *build.Instance
}

// newBasis makes a basis. With bare it leaves out the parts that no layer is
// checked against, and the schema's attributes, which only describe what fits.
// CUE parses a value's attributes again each time it is asked for one.
func newBasis(bare bool) *basis {
	b := &basis{loading: build.NewContext(), evaluating: cuecontext.New()}
	l := newLoader(pack{})
	l.context = b.loading
	b.schema = l.loadSchema(bare)
	b.evaluating.BuildInstance(b.schema)
	return b
}
