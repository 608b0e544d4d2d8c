package design

import (
	"cuelang.org/go/cue"
	"cuelang.org/go/cue/build"
	"cuelang.org/go/cue/cuecontext"
)

// basis is what an evaluation begins with: contexts that hold nothing of a
// repository, and the schema in them. It serves one evaluation, since contexts
// keep what they evaluated; a worker makes the next while it waits.
type basis struct {
	loading    *build.Context
	evaluating *cue.Context
	schema     *build.Instance
}

// newBasis makes a basis; bare leaves out what no layer is held against, and the
// attributes of the schema, which say in words what fits: CUE parses those of a
// value anew whenever it is asked for one.
func newBasis(bare bool) *basis {
	b := &basis{loading: build.NewContext(), evaluating: cuecontext.New()}
	l := newLoader(pack{})
	l.context = b.loading
	b.schema = l.loadSchema(bare)
	b.evaluating.BuildInstance(b.schema)
	return b
}
