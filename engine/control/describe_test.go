package control

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/slipway-gitops/slipway/engine/access"
)

var update = flag.Bool("update", false, "write openapi.json and docs/api.md")

// The description that the daemon gives is that of its routes.
func TestOpenAPI(t *testing.T) {
	got := describe(t)
	if *update {
		if err := os.WriteFile("openapi.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(got, openAPI) {
		t.Error("openapi.json is not of these routes: run go test ./engine/control -run 'OpenAPI|Reference' -update, and read what has changed")
	}
	doc, err := openapi3.NewLoader().LoadFromData(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Errorf("the description is no OpenAPI: %v", err)
	}
}

type object = map[string]any

// describe makes the description of the routes.
func describe(t *testing.T) []byte {
	t.Helper()
	s := &schemas{t: t, all: object{}, comments: commentsOf(t)}
	paths := object{}
	for _, rt := range routes() {
		path, _ := paths[prefix+rt.path].(object)
		if path == nil {
			path = object{}
			paths[prefix+rt.path] = path
		}
		path[strings.ToLower(rt.method)] = s.operation(&rt)
	}
	doc := object{
		"openapi": "3.0.3",
		"info": object{"title": "Slipway", "version": "v1", "description": "The API of a daemon of Slipway. Persons show a certificate (mutual TLS) or an ID token of OpenID Connect, programs a token. " +
			"Each route names the verb that a caller needs. Fields may be added within this version, so ignore those that you do not know."},
		"paths": paths,
		"components": object{
			"schemas":         s.all,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "The token of a program, or the ID token of a person."}},
			"responses":       object{"error": object{"description": "An error in words.", "content": object{"application/json": object{"schema": s.of(reflect.TypeFor[failure](), false)}}}},
		},
	}
	text, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// operation is a route in the description.
func (s *schemas) operation(rt *route) object {
	op := object{"summary": rt.about, "operationId": operationID(rt), "description": needs(rt)}
	var params []object
	for _, part := range strings.Split(rt.path, "/") {
		if name, isParam := strings.CutPrefix(part, "{"); isParam {
			params = append(params, object{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": object{"type": "string"}})
		}
	}
	for _, q := range rt.query {
		kind, example := object{"type": "string"}, any(q.example)
		if q.number {
			example = json.Number(q.example)
			kind = object{"type": "integer", "format": "int64", "minimum": 0}
		}
		params = append(params, object{"name": q.name, "in": "query", "description": q.about, "schema": kind, "example": example})
	}
	if rt.events {
		params = append(params, object{"name": "Last-Event-ID", "in": "header", "description": "the id of the last event that a stream gave, to go on after it", "schema": object{"type": "string"}})
	}
	if params != nil {
		op["parameters"] = params
	}
	if rt.body != nil {
		op["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": s.of(reflect.TypeOf(rt.body), false)}}}
	} else if rt.method == http.MethodPut {
		op["requestBody"] = object{"required": true, "content": object{rt.media: object{"schema": object{"type": "string", "format": "binary"}}}}
	}
	content := object{}
	switch {
	case rt.gives == nil:
		content[rt.media] = object{"schema": object{"type": "string", "format": "binary"}}
	case rt.media == "application/jsonlines":
		content[rt.media] = object{"schema": s.of(reflect.TypeOf(rt.gives), false)}
	default:
		content["application/json"] = object{"schema": s.of(reflect.TypeOf(rt.gives), false)}
	}
	if rt.events {
		content["text/event-stream"] = object{"schema": object{"type": "string"}}
	}
	op["responses"] = object{"200": object{"description": "What was asked for.", "content": content}, "default": object{"$ref": "#/components/responses/error"}}
	if m, ok := meaningOf(rt.verb); !ok || !m.ForPersons {
		op["security"] = []object{{"token": []string{}}, {}} // or a certificate, which this version of OpenAPI cannot say
	}
	op["x-slipway-verb"] = string(rt.verb)
	return op
}

func meaningOf(v access.Verb) (access.Meaning, bool) {
	i := slices.IndexFunc(access.Verbs, func(m access.Meaning) bool { return m.Verb == v })
	if i < 0 {
		return access.Meaning{}, false
	}
	return access.Verbs[i], true
}

func operationID(rt *route) string {
	id := strings.ToLower(rt.method)
	for _, part := range strings.FieldsFunc(rt.path, func(r rune) bool { return strings.ContainsRune("/{}-.", r) }) {
		id += strings.ToUpper(part[:1]) + part[1:]
	}
	return id
}

// needs says what a caller needs for a route.
func needs(rt *route) string {
	if rt.scope == ofCaller {
		return "Every caller that is known may ask this."
	}
	where := map[scope]string{ofSite: "the whole site", ofNode: "the node", ofSome: "anything of the site", ofOrder: "what the body names"}[rt.scope]
	text := fmt.Sprintf("Needs the verb %s for %s.", rt.verb, where)
	if m, _ := meaningOf(rt.verb); m.ForPersons {
		text += " Persons only."
	}
	return text
}

// schemas are the schemas of Go types, by name.
type schemas struct {
	t        *testing.T
	all      object
	names    map[string]reflect.Type
	comments map[string]string // by "Type" and "Type.Field"
}

var (
	timeType = reflect.TypeFor[time.Time]()
	textType = reflect.TypeFor[encoding.TextMarshaler]()
	jsonType = reflect.TypeFor[json.Marshaler]()
)

// of is the schema of a type; one that may be null says so.
func (s *schemas) of(t reflect.Type, null bool) object {
	is := s.plain(t)
	if !null {
		return is
	}
	if is["$ref"] != nil {
		return object{"allOf": []object{is}, "nullable": true}
	}
	is["nullable"] = true
	return is
}

func (s *schemas) plain(t reflect.Type) object {
	switch {
	case t == timeType:
		return object{"type": "string", "format": "date-time"}
	case t.Kind() == reflect.Pointer:
		return s.plain(t.Elem())
	case t.Implements(jsonType) || reflect.PointerTo(t).Implements(jsonType):
		return object{"type": "object"} // Known, and origins by path
	case t.Implements(textType):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Interface:
		return object{}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem(), canBeNull(t.Elem()))}
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 && t.Kind() == reflect.Slice {
			return object{"type": "string", "format": "byte"}
		}
		return object{"type": "array", "items": s.of(t.Elem(), canBeNull(t.Elem()))}
	case reflect.Struct:
		return s.named(t)
	}
	s.t.Fatalf("there is no schema of a %s", t)
	return nil
}

func canBeNull(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map
}

// named is a reference to the schema of a struct.
func (s *schemas) named(t reflect.Type) object {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if s.names == nil {
		s.names = map[string]reflect.Type{}
	}
	if before, taken := s.names[name]; taken && before != t {
		name = strings.ToUpper(filepath.Base(t.PkgPath())[:1]) + filepath.Base(t.PkgPath())[1:] + name
	}
	if s.names[name] == nil {
		s.names[name] = t
		s.all[name] = object{}
		s.all[name] = s.structure(t)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

func (s *schemas) structure(t reflect.Type) object {
	is := object{"type": "object"}
	properties, required := object{}, []string{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for i := range t.NumField() {
			f := t.Field(i)
			tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case tag == "-", !f.IsExported() && !f.Anonymous:
				continue
			case f.Anonymous && tag == "":
				add(f.Type)
				continue
			case tag == "":
				tag = f.Name
			}
			left := strings.Contains(options, "omit")
			property := s.of(f.Type, !left && canBeNull(f.Type))
			if about := s.comments[t.Name()+"."+f.Name]; about != "" {
				if property["$ref"] != nil {
					property = object{"allOf": []object{property}}
				}
				property["description"] = about
			}
			properties[tag] = property
			if !left {
				required = append(required, tag)
			}
		}
	}
	add(t)
	is["properties"] = properties
	if len(required) > 0 {
		is["required"] = required
	}
	if about := s.comments[t.Name()]; about != "" {
		is["description"] = about
	}
	return is
}

// commentsOf are the comments of types and fields, by their names.
func commentsOf(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, folder := range []string{".", "../access", "../artifact", "../item", "../layout", "../bios", "../site"} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.TYPE {
					for _, spec := range d.Specs {
						noteComments(all, d, spec.(*ast.TypeSpec))
					}
				}
				return true
			})
		}
	}
	return all
}

func noteComments(all map[string]string, d *ast.GenDecl, spec *ast.TypeSpec) {
	doc := spec.Doc
	if doc == nil && len(d.Specs) == 1 {
		doc = d.Doc
	}
	all[spec.Name.Name] = oneLine(doc)
	x, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range x.Fields.List {
		for _, name := range f.Names {
			all[spec.Name.Name+"."+name.Name] = oneLine(f.Doc)
		}
	}
}

func oneLine(g *ast.CommentGroup) string { return strings.Join(strings.Fields(g.Text()), " ") }
