package design

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unique"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Extracts travel from workers in a format of their own. The tree of a large
// site has a million leaves, for which JSON would take as long as CUE does.
// Numbers are varints. A text is sent once and later referred to by its number.

// encoder writes trees.
type encoder struct {
	out   []byte
	texts map[string]uint64
	// unplaced leaves out the lines and columns of origins.
	unplaced bool
}

func newEncoder() *encoder { return &encoder{texts: map[string]uint64{}} }

func (e *encoder) uint(n uint64) { e.out = binary.AppendUvarint(e.out, n) }

func (e *encoder) bool(b bool) {
	if b {
		e.uint(1)
		return
	}
	e.uint(0)
}

func (e *encoder) text(s string) {
	n, known := e.texts[s]
	if known {
		e.uint(n)
		return
	}
	e.texts[s] = uint64(len(e.texts)) + 1
	e.uint(0)
	e.uint(uint64(len(s)))
	e.out = append(e.out, s...)
}

// What a tree has, as bits.
const (
	hasFields = 1 << iota
	hasItems
	hasOrigin
	isUnset
	isOpen
	isBroken
	isPreset
)

func (t *tree) bits() (bits uint64) {
	set := func(bit uint64, has bool) {
		if has {
			bits |= bit
		}
	}
	set(hasFields, t.fields != nil)
	set(hasItems, len(t.items) > 0)
	set(hasOrigin, !t.origin.IsZero())
	set(isUnset, t.unset)
	set(isOpen, t.open)
	set(isBroken, t.broken)
	set(isPreset, t.preset)
	return bits
}

func (e *encoder) tree(t *tree) {
	bits := t.bits()
	e.uint(bits)
	if bits&hasOrigin != 0 {
		e.origin(t.origin)
	}
	if bits&hasFields != 0 {
		e.uint(uint64(len(t.fields)))
		for _, key := range t.keys() {
			e.text(key)
			e.tree(t.fields[key])
		}
		return
	}
	e.value(t.value)
	if bits&hasItems != 0 {
		e.uint(uint64(len(t.items)))
		for _, item := range t.items {
			e.uint(uint64(item.at))
			e.tree(item.tree)
		}
	}
}

func (e *encoder) origin(o site.Origin) {
	e.text(o.File.Value())
	if e.unplaced {
		o.Line, o.Col = 0, 0
	}
	e.uint(uint64(o.Line))
	e.uint(uint64(o.Col))
	e.text(o.Layer.Value())
}

// The kinds of a value.
const (
	noValue = iota
	textValue
	trueValue
	falseValue
	intValue
	floatValue
	listValue
	mapValue
)

func (e *encoder) value(v any) {
	switch x := v.(type) {
	case nil:
		e.uint(noValue)
	case string:
		e.uint(textValue)
		e.text(x)
	case bool:
		if x {
			e.uint(trueValue)
		} else {
			e.uint(falseValue)
		}
	case int64:
		e.uint(intValue)
		e.out = binary.AppendVarint(e.out, x)
	case float64:
		e.uint(floatValue)
		e.uint(math.Float64bits(x))
	case []any:
		e.uint(listValue)
		e.uint(uint64(len(x)))
		for _, item := range x {
			e.value(item)
		}
	case map[string]any:
		e.uint(mapValue)
		e.uint(uint64(len(x)))
		for _, key := range sortedKeys(x) {
			e.text(key)
			e.value(x[key])
		}
	default:
		panic(fmt.Sprintf("a tree with a %T", v))
	}
}

// errEncoding is the error of a decoder for bytes that no encoder wrote.
var errEncoding = errors.New("a worker's answer is garbled")

// decoder reads what an encoder wrote. It stops after an error.
type decoder struct {
	in    []byte
	texts []string
	// handles holds the texts as origins need them, filled on demand.
	handles map[string]unique.Handle[string]
	depth   int
	err     error
}

// maxDepth limits the depth of a tree.
const maxDepth = 1000

func newDecoder(in []byte) *decoder {
	return &decoder{in: in, handles: map[string]unique.Handle[string]{}}
}

func (d *decoder) fail() {
	d.err, d.in = errEncoding, nil
}

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint(d.in)
	if size <= 0 {
		d.fail()
		return 0
	}
	d.in = d.in[size:]
	return n
}

// count reads the number of items that follow. Each takes at least one byte.
func (d *decoder) count() int {
	n := d.uint()
	if n > uint64(len(d.in)) {
		d.fail()
		return 0
	}
	return int(n)
}

func (d *decoder) bool() bool { return d.uint() == 1 }

func (d *decoder) text() string {
	n := d.uint()
	if n > 0 {
		if n > uint64(len(d.texts)) {
			d.fail()
			return ""
		}
		return d.texts[n-1]
	}
	size := d.count()
	s := string(d.in[:size])
	d.in = d.in[size:]
	d.texts = append(d.texts, s)
	return s
}

func (d *decoder) handle() unique.Handle[string] {
	s := d.text()
	h, ok := d.handles[s]
	if !ok {
		h = unique.Make(s)
		d.handles[s] = h
	}
	return h
}

func (d *decoder) origin() site.Origin {
	file := d.handle()
	line, col := int(d.uint()), int(d.uint())
	return site.Origin{File: file, Line: line, Col: col, Layer: d.handle()}
}

func (d *decoder) tree() *tree {
	d.depth++
	defer func() { d.depth-- }()
	if d.depth > maxDepth {
		d.fail()
	}
	bits := d.uint()
	t := &tree{unset: bits&isUnset != 0, open: bits&isOpen != 0, broken: bits&isBroken != 0, preset: bits&isPreset != 0}
	if bits&hasOrigin != 0 {
		t.origin = d.origin()
	}
	if bits&hasFields != 0 {
		n := d.count()
		t.fields = make(map[string]*tree, n)
		for range n {
			key := d.text()
			t.fields[key] = d.tree()
		}
		return t
	}
	t.value = d.value()
	if bits&hasItems != 0 {
		for range d.count() {
			at := int(d.uint())
			t.items = append(t.items, indexed{at, d.tree()})
		}
	}
	return t
}

func (d *decoder) value() any {
	switch d.uint() {
	case textValue:
		return d.text()
	case trueValue:
		return true
	case falseValue:
		return false
	case intValue:
		n, size := binary.Varint(d.in)
		if size <= 0 {
			d.fail()
			return nil
		}
		d.in = d.in[size:]
		return n
	case floatValue:
		return math.Float64frombits(d.uint())
	case listValue:
		list := make([]any, 0, d.count())
		for range cap(list) {
			list = append(list, d.nested())
		}
		return list
	case mapValue:
		n := d.count()
		m := make(map[string]any, n)
		for range n {
			key := d.text()
			m[key] = d.nested()
		}
		return m
	}
	return nil
}

// nested reads a value inside another value.
func (d *decoder) nested() any {
	d.depth++
	defer func() { d.depth-- }()
	if d.depth > maxDepth {
		d.fail()
	}
	return d.value()
}

func (e *encoder) layer(l layer) {
	e.text(l.name)
	e.origin(l.place)
	e.tree(l.tree)
	e.findings(l.findings)
}

func (d *decoder) layer() layer {
	return layer{name: d.text(), place: d.origin(), tree: d.tree(), findings: d.findings()}
}

func (e *encoder) layers(all []layer) {
	e.uint(uint64(len(all)))
	for _, l := range all {
		e.layer(l)
	}
}

func (d *decoder) layers() []layer {
	all := make([]layer, 0, d.count())
	for range cap(all) {
		all = append(all, d.layer())
	}
	return all
}

func (e *encoder) findings(all []site.Finding) {
	e.uint(uint64(len(all)))
	for _, f := range all {
		for _, s := range []string{f.Code, string(f.Severity), f.File, f.Node, f.Path, f.Message, f.Why, f.Fix} {
			e.text(s)
		}
		e.uint(uint64(f.Line))
		e.uint(uint64(f.Col))
		e.uint(uint64(len(f.Related)))
		for _, r := range f.Related {
			e.text(r)
		}
	}
}

func (d *decoder) findings() []site.Finding {
	n := d.count()
	if n == 0 {
		return nil
	}
	all := make([]site.Finding, 0, n)
	for range n {
		var f site.Finding
		var severity string
		for _, s := range []*string{&f.Code, &severity, &f.File, &f.Node, &f.Path, &f.Message, &f.Why, &f.Fix} {
			*s = d.text()
		}
		f.Severity = site.Severity(severity)
		f.Line, f.Col = int(d.uint()), int(d.uint())
		for range d.count() {
			f.Related = append(f.Related, d.text())
		}
		all = append(all, f)
	}
	return all
}

func (e *encoder) extract(x extract) {
	e.bool(x.unread)
	e.bool(x.cutShared)
	e.bool(x.lost)
	e.findings(x.findings)
	e.uint(uint64(len(x.sections)))
	for _, name := range sortedKeys(x.sections) {
		e.text(name)
		e.tree(x.sections[name])
	}
	e.layers(x.profiles)
	e.layers(x.nodes)
	e.layers(x.data)
}

func (d *decoder) extract() extract {
	x := extract{unread: d.bool(), cutShared: d.bool(), lost: d.bool(), findings: d.findings(), sections: map[string]*tree{}}
	for range d.count() {
		name := d.text()
		x.sections[name] = d.tree()
	}
	x.profiles, x.nodes, x.data = d.layers(), d.layers(), d.layers()
	return x
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
