package design

import (
	"reflect"
	"sync/atomic"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Most of what a node has it has from profiles, as its neighbours do: the same
// trees. common is what such a tree comes to, found out once and then the same
// for all of them, which takes a fraction of the time and of the memory. A nil
// one is of a tree that one node has alone. It is used by several goroutines:
// whoever is first decides.
type common struct {
	// finished is by style: what is missing in a physical machine is not in a
	// virtual one.
	finished [styles]atomic.Pointer[tree]
	decoded  atomic.Pointer[reflect.Value]
	origins  atomic.Pointer[site.Origins]
}

// share marks what many nodes will have: the structs, maps and lists of a tree.
func (t *tree) share() {
	if t == nil || t.common != nil {
		return
	}
	if _, isList := t.value.([]any); t.fields == nil && !isList {
		return
	}
	t.common = &common{}
	for _, f := range t.fields {
		f.share()
	}
}

// finishedOf is the finished tree. What was found wrong with it is found for
// each node.
func (c *common) finishedOf(r *reader, finish func() *tree) *tree {
	if c == nil {
		return finish()
	}
	if done := c.finished[r.style].Load(); done != nil {
		return done
	}
	before := len(r.findings.list)
	done := finish()
	if len(r.findings.list) > before {
		return done
	}
	if done.common == nil {
		done.common = &common{}
		done.common.finished[r.style].Store(done)
	}
	if !c.finished[r.style].CompareAndSwap(nil, done) {
		return c.finished[r.style].Load()
	}
	return done
}

// decodedInto decodes the tree into v. What was decoded is never changed, so
// that nodes can have it together.
func (c *common) decodedInto(v reflect.Value, decode func() error) error {
	if c == nil {
		return decode()
	}
	if done := c.decoded.Load(); done != nil && done.Type() == v.Type() {
		v.Set(*done)
		return nil
	}
	if err := decode(); err != nil {
		return err
	}
	done := reflect.New(v.Type()).Elem()
	done.Set(v)
	c.decoded.CompareAndSwap(nil, &done)
	return nil
}

func (c *common) originsOf(make func() *site.Origins) *site.Origins {
	if c == nil {
		return make()
	}
	if done := c.origins.Load(); done != nil {
		return done
	}
	c.origins.CompareAndSwap(nil, make())
	return c.origins.Load()
}
