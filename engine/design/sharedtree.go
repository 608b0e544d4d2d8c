package design

import (
	"reflect"
	"sync/atomic"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Neighbouring nodes have most of their values from the same profiles, that is,
// from the same trees. common caches the results of such a tree, which saves
// most of the time and memory. It is nil for a tree that only one node has.
// Several goroutines use it: the first to finish sets a result.
type common struct {
	// finished is by style: physical and virtual machines must set different
	// fields.
	finished [styles]atomic.Pointer[tree]
	decoded  atomic.Pointer[reflect.Value]
	origins  atomic.Pointer[site.Origins]
}

// share marks the structs, maps and lists of a tree that many nodes will have.
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

// finishedOf returns the finished tree. A tree with findings is not cached, so
// that each node reports them.
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

// decodedInto decodes the tree into v. Nodes share the decoded value, which
// never changes.
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
