package rule

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-gitops/slipway/engine/cleartext"
	"github.com/slipway-gitops/slipway/engine/site"
)

// secrets: is there anything in the design that nobody may read?
var secrets = []Rule{{
	Code: "clear-secret", Severity: site.SeverityError,
	What:  "No text of the design is a password, a token, a private key or the hash of a password.",
	Why:   "Everybody who can read the repository can use it for as long as it is valid: whatever was pushed once stays in the history.",
	Wrong: `nodes: "n1": system: files: "/etc/backup.conf": content: "user = backup\npassword = calvin-7"`,
	Right: `nodes: "n1": system: files: "/etc/backup.conf": content: "user = backup\npasswordFile = /run/backup.password"`,
	Node: func(_ *site.Site, n *site.Node) []site.Finding {
		own := *n
		own.References = site.References{} // which the site has, and is asked for
		return refuseSecrets(reflect.ValueOf(own))
	},
	Site: func(s *site.Site) []site.Finding { return refuseSecrets(reflect.ValueOf(s).Elem()) },
}}

// refuseSecrets objects to the secrets among the texts of a value of the
// design, in the order of their paths.
func refuseSecrets(v reflect.Value) []site.Finding {
	var x search
	x.look(nil, v)
	slices.SortStableFunc(x.found, func(a, b site.Finding) int { return strings.Compare(a.Path, b.Path) })
	return slices.CompactFunc(x.found, func(a, b site.Finding) bool { return a.Path == b.Path && a.Message == b.Message })
}

// search goes over every text that a part of the design has.
type search struct{ found []site.Finding }

// step is where a search is, from the inside out. A path is only made of it
// where there is something to say.
type step struct {
	up   *step
	name string
	// own says that the name is the site's, and none of the schema's.
	own bool
}

func (at *step) path() string {
	if at == nil {
		return ""
	}
	return strings.TrimPrefix(at.up.path()+"."+at.name, ".")
}

// within is the step into a field; one without a name is a part of what is
// around it.
func (at *step) within(f textField) *step {
	if f.name == "" {
		return at
	}
	return &step{at, f.name, false}
}

// look visits a value. What is in a list is at the list's path.
func (x *search) look(at *step, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		x.text(at, v.String())
	case reflect.Int64, reflect.Float64:
		if at.own && cleartext.NamesSecret(at.name) {
			x.text(at, fmt.Sprint(v.Interface()))
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			x.look(at, v.Elem())
		}
	case reflect.Struct:
		for _, f := range textFields(v.Type()) {
			x.look(at.within(f), v.Field(f.index))
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			x.look(&step{at, it.Key().String(), true}, it.Value())
		}
	case reflect.Slice:
		for i := range v.Len() {
			x.look(at, v.Index(i))
		}
	}
}

// text objects to a secret in a text, and does not repeat it.
func (x *search) text(at *step, text string) {
	what := ""
	switch {
	case at.own && cleartext.NamesSecret(at.name) && cleartext.IsValue(at.name, text):
		what = fmt.Sprintf("a password or token (%s)", at.name)
	case !at.own && (at.name == "url" || at.name == "forward"): // their own rules refuse accounts
		what = cleartext.In(cleartext.InURL.ReplaceAllString(text, "://"))
	default:
		what = cleartext.In(text)
	}
	if what == "" {
		return
	}
	path := at.path()
	x.found = append(x.found, wrong(path, fmt.Sprintf("%s holds what looks like %s", path, what),
		"Take it out, replace it wherever it is valid, and keep the new one on the bootstrap host. If it is none, suppress the finding with the reason."))
}

// textField is a field of a struct in which a text could be.
type textField struct {
	index int
	name  string
}

// textFieldsOf are the fields of each type, found out once.
var textFieldsOf sync.Map

func textFields(t reflect.Type) []textField {
	if known, ok := textFieldsOf.Load(t); ok {
		return known.([]textField)
	}
	var all []textField
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "-" && f.IsExported() && mayHoldText(f.Type) {
			all = append(all, textField{i, name})
		}
	}
	textFieldsOf.Store(t, all)
	return all
}

var (
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
)

// mayHoldText says whether a field may hold a text of the design. What writes
// itself in a form of its own, as an amount or a place does, holds none.
func mayHoldText(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Interface:
		return true
	case reflect.Struct, reflect.Pointer:
		return !t.Implements(textMarshaler) && !t.Implements(jsonMarshaler)
	case reflect.Map, reflect.Slice:
		return mayHoldText(t.Elem())
	}
	return false
}
