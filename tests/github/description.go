package github

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// Description is GitHub's OpenAPI description of its API, as far as the double
// serves it.
type Description struct{ doc *openapi3.T }

// version is the release of npm's @octokit/openapi; setup.sh installs it.
const version = "23.0.2"

// Describe is the description as installed by setup.sh, read once.
func Describe(t testing.TB) *Description {
	t.Helper()
	d, err := installed()
	if errors.Is(err, os.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skipf("run tests/github/setup.sh: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

var installed = sync.OnceValues(func() (*Description, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	return ReadDescription(filepath.Join(cache, "slipway", "openapi-"+version, "api.github.com.json"))
})

// ReadDescription reads the file of GitHub's description.
func ReadDescription(file string) (*Description, error) {
	all, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	part, err := prune(all)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(part)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	mayBeNull(doc)
	return &Description{doc}, nil
}

// mayBeNull allows what GitHub answers and does not describe: null for accounts
// that are gone, and for the repository of a fork that was deleted.
func mayBeNull(doc *openapi3.T) {
	doc.Components.Schemas["simple-user"].Value.Nullable = true
	for _, name := range []string{"pull-request", "pull-request-simple"} {
		head := doc.Components.Schemas[name].Value.Properties["head"].Value
		repo := *head.Properties["repo"].Value
		repo.Nullable = true
		head.Properties["repo"] = &openapi3.SchemaRef{Value: &repo}
	}
}

// described is the outer shape of an OpenAPI document.
type described struct {
	OpenAPI    string                                `json:"openapi"`
	Info       json.RawMessage                       `json:"info"`
	Paths      map[string]json.RawMessage            `json:"paths"`
	Components map[string]map[string]json.RawMessage `json:"components"`
}

var reference = regexp.MustCompile(`"#/components/(\w+)/([^"]+)"`)

// prune keeps the paths that the double serves, the webhooks that it sends, and
// what these refer to: a tenth of the whole, which takes seconds to load.
func prune(all []byte) ([]byte, error) {
	var from described
	if err := json.Unmarshal(all, &from); err != nil {
		return nil, err
	}
	kept := described{from.OpenAPI, from.Info, map[string]json.RawMessage{}, map[string]map[string]json.RawMessage{}}
	var follow func([]byte)
	keep := func(kind, name string) {
		if kept.Components[kind] == nil {
			kept.Components[kind] = map[string]json.RawMessage{}
		}
		if kept.Components[kind][name] == nil {
			kept.Components[kind][name] = from.Components[kind][name]
			follow(from.Components[kind][name])
		}
	}
	follow = func(raw []byte) {
		for _, m := range reference.FindAllSubmatch(raw, -1) {
			keep(string(m[1]), string(m[2]))
		}
	}
	for _, r := range routes {
		kept.Paths[r.path] = from.Paths[r.path]
		follow(from.Paths[r.path])
	}
	for _, event := range events {
		keep("schemas", webhookSchema(event.name, event.action))
	}
	keep("schemas", "basic-error")
	return json.Marshal(kept)
}

// exchange is a request, held against the description with its answer.
type exchange struct {
	*Description
	input *openapi3filter.RequestValidationInput
}

func (d *Description) exchange(r *http.Request, to *route, params map[string]string) *exchange {
	item := d.doc.Paths.Value(to.path)
	operation := item.GetOperation(to.method)
	return &exchange{d, &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params,
		Route: &routers.Route{Spec: d.doc, Path: to.path, PathItem: item, Method: to.method, Operation: operation},
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, SkipSettingDefaults: true,
			RejectWhenRequestBodyNotSpecified: true,
		},
	}}
}

// request says what is wrong with the request. Names that GitHub does not know
// it ignores; whoever sends them is mistaken, so they are wrong here.
func (x *exchange) request(body []byte) error {
	if err := x.unknownQuery(); err != nil {
		return err
	}
	if err := x.unknownFields(body); err != nil {
		return err
	}
	x.input.Request.Body = readCloser(body)
	return openapi3filter.ValidateRequest(context.Background(), x.input)
}

func (x *exchange) unknownQuery() error {
	params := append(slices.Clone(x.input.Route.PathItem.Parameters), x.input.Route.Operation.Parameters...)
	for name := range x.input.Request.URL.Query() {
		if params.GetByInAndName("query", name) == nil {
			return fmt.Errorf("no query parameter %q", name)
		}
	}
	return nil
}

func (x *exchange) unknownFields(body []byte) error {
	schema := x.bodySchema()
	var fields map[string]json.RawMessage
	if schema == nil || json.Unmarshal(body, &fields) != nil {
		return nil
	}
	for name := range fields {
		if schema.Properties[name] == nil {
			return fmt.Errorf("no field %q in the body", name)
		}
	}
	return nil
}

// bodySchema is the schema of an object that the request has, nil for none.
func (x *exchange) bodySchema() *openapi3.Schema {
	body := x.input.Route.Operation.RequestBody
	if body == nil || body.Value.Content.Get("application/json") == nil {
		return nil
	}
	schema := body.Value.Content.Get("application/json").Schema.Value
	if len(schema.Properties) == 0 {
		return nil
	}
	return schema
}

// answer says what is wrong with an answer. Errors and redirections that a route's description
// does not list are held against the one for all.
func (x *exchange) answer(a answer, header http.Header) error {
	if a.status == http.StatusNotModified && len(a.raw) == 0 {
		return nil // described for some routes, and given by all
	}
	if a.status >= 300 && x.input.Route.Operation.Responses.Status(a.status) == nil {
		return x.schema("basic-error", a.raw)
	}
	return openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: x.input, Status: a.status, Header: header, Body: readCloser(a.raw), Options: x.input.Options,
	})
}

// schema holds JSON against a named schema.
func (d *Description) schema(name string, raw []byte) error {
	schema := d.doc.Components.Schemas[name]
	if schema == nil {
		return fmt.Errorf("no schema %s", name)
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	return schema.Value.VisitJSON(v, openapi3.VisitAsResponse())
}

// webhook holds a webhook against the schema of its event.
func (d *Description) webhook(event, action string, payload []byte) error {
	return d.schema(webhookSchema(event, action), payload)
}

func webhookSchema(event, action string) string {
	name := "webhook-" + event
	if action != "" {
		name += "-" + action
	}
	return strings.ReplaceAll(name, "_", "-")
}

// brief is the first line of what kin-openapi says, which goes on with the
// schema and the value.
func brief(err error) string {
	var e *openapi3.SchemaError
	if errors.As(err, &e) {
		return fmt.Sprintf("/%s: %s", strings.Join(e.JSONPointer(), "/"), e.Reason)
	}
	line, _, _ := bytes.Cut([]byte(err.Error()), []byte("\n"))
	return cmp.Or(string(line), "no reason")
}
