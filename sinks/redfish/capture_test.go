package redfish

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

// replay is a BMC that answers reads from a capture. It expands as the service
// root says that the machine does.
type replay struct {
	*httptest.Server
	resources map[string]json.RawMessage

	mu    sync.Mutex
	reads []string // paths without queries
	// spoil changes an answer, refuse answers with a status; nil for none.
	spoil  func(path string, body []byte) (int, []byte)
	refuse func(*http.Request) int
}

func newReplay(t testing.TB, resources map[string]json.RawMessage) *replay {
	r := &replay{resources: resources}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(r.serve))
	r.Config.ErrorLog = quiet
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

// machine opens the system of a capture.
func (r *replay) machine(t testing.TB, system string) *machine {
	t.Helper()
	e := site.Endpoint{URL: "redfish+" + r.URL + system, Trust: site.Trust{Fingerprint: sum(r.Certificate())}}
	m, err := New(fast).Open(t.Context(), e, secret.New("admin", "hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m.(*machine)
}

func (r *replay) serve(w http.ResponseWriter, q *http.Request) {
	path := strings.TrimRight(q.URL.Path, "/")
	switch {
	case q.Method == http.MethodPost && strings.HasSuffix(path, "/Sessions"):
		w.Header().Set("X-Auth-Token", "token")
		w.Header().Set("Location", path+"/of-test")
		w.WriteHeader(http.StatusCreated)
		return
	case q.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
		return
	case q.Method != http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	r.mu.Lock()
	r.reads = append(r.reads, path)
	r.mu.Unlock()
	if r.refuse != nil {
		if status := r.refuse(q); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	body, known := r.resources[path]
	if paged, ok := r.resources[path+"?"+q.URL.RawQuery]; ok {
		body = paged
	}
	if !known || bytes.HasPrefix(bytes.TrimSpace(body), []byte(`{"error"`)) {
		http.NotFound(w, q)
		return
	}
	if sign, levels, ok := expansion(q.URL.RawQuery); ok && r.expands(path, sign, levels) {
		body = r.expand(path, body, sign, levels)
	}
	status := http.StatusOK
	if r.spoil != nil {
		status, body = r.spoil(path, body)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}

// expansion reads "$expand=.($levels=2)".
func expansion(query string) (sign string, levels int, ok bool) {
	rest, ok := strings.CutPrefix(query, "$expand=")
	if !ok || rest == "" {
		return "", 0, false
	}
	levels = 1
	if n, found := strings.CutPrefix(rest[1:], "($levels="); found {
		levels, _ = strconv.Atoi(strings.TrimSuffix(n, ")"))
	}
	return rest[:1], levels, true
}

// expands says whether the machine has an expansion; what has "." alone takes
// it of collections only.
func (r *replay) expands(path, sign string, levels int) bool {
	var root object
	json.Unmarshal(r.resources["/redfish/v1"], &root)
	f := at[object](root, "ProtocolFeaturesSupported", "ExpandQuery")
	all, own := at[bool](f, "ExpandAll"), at[bool](f, "NoLinks")
	if sign == "*" && !all || sign == "." && !own || levels > int(number(f, "MaxLevels")) {
		return false
	}
	var o object
	json.Unmarshal(r.resources[path], &o)
	return all || o["Members"] != nil
}

// expand puts resources in the place of references; with "." not those under
// Links.
func (r *replay) expand(self string, body []byte, sign string, levels int) []byte {
	if levels == 0 {
		return body
	}
	var v any
	json.Unmarshal(body, &v)
	out, _ := json.Marshal(r.filled(self, v, sign, levels))
	return out
}

func (r *replay) filled(self string, v any, sign string, levels int) any {
	switch v := v.(type) {
	case map[string]any:
		id, _ := v["@odata.id"].(string)
		if path := strings.TrimRight(id, "/"); len(v) == 1 && id != "" && path != self {
			if body, known := r.resources[path]; known && !strings.Contains(id, "#") {
				return json.RawMessage(r.expand(path, body, sign, levels-1))
			}
			return v
		}
		for name, inner := range v {
			if name == "Links" && sign == "." || name == "Oem" || name == "Actions" {
				continue
			}
			v[name] = r.filled(self, inner, sign, levels)
		}
	case []any:
		for n := range v {
			v[n] = r.filled(self, v[n], sign, levels)
		}
	}
	return v
}

// took are the paths that were read since the last call.
func (r *replay) took() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	reads := r.reads
	r.reads = nil
	return reads
}
