package redfish

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stmcginnis/gofish"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/driver/drivertest"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
)

const uuid = "4c4c4544-0042-4b10-8051-c4c04f565831"

// bmc is a BMC that answers from a table, for what goes wrong on the wire;
// what a whole machine does is tried on the laboratory.
type bmc struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]http.HandlerFunc // by "METHOD /path"
	fold    map[string]http.HandlerFunc // the same, in lower case and in any case
	asked   []string
}

// newBMC serves one healthy machine that is on.
func newBMC(t *testing.T) *bmc {
	b := &bmc{answers: map[string]http.HandlerFunc{
		"GET /redfish/v1/":          text(`{"Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}`),
		"GET /redfish/v1/Systems/1": text(healthySystem),
		"POST /redfish/v1/SessionService/Sessions": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Auth-Token", "token")
			w.Header().Set("Location", "/redfish/v1/SessionService/Sessions/7")
			w.WriteHeader(http.StatusCreated)
		},
		"DELETE /redfish/v1/SessionService/Sessions/7": status(http.StatusNoContent, ""),
		"GET /redfish/v1/Systems/1/BootOptions":        text(`{"Members":[{"@odata.id":"/o/1"},{"@odata.id":"/o/2"},{"@odata.id":"/o/3"},{"@odata.id":"/o/4"}]}`),
		"GET /o/1":                                     text(`{"BootOptionReference":"Boot0001","Alias":"Pxe"}`),
		"GET /o/2":                                     text(`{"BootOptionReference":"Boot0002","Alias":"Pxe"}`),
		"GET /o/3":                                     text(`{"BootOptionReference":"Boot0003","Alias":"Hdd"}`),
		"GET /o/4":                                     text(`{"BootOptionReference":"Boot0004","Alias":17}`),
	}}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(b.serve))
	b.Config.ErrorLog = quiet
	b.StartTLS()
	t.Cleanup(b.Close)
	return b
}

var quiet = log.New(io.Discard, "", 0)

const healthySystem = `{"UUID":"4C4C4544-0042-4B10-8051-C4C04F565831","SerialNumber":"S1","PowerState":"On","Status":{"HealthRollup":"Warning","Health":"OK"},
	"Manufacturer":"Maker","Model":"M1","SKU":"K1","BiosVersion":"1.2","ProcessorSummary":{"Count":2},"MemorySummary":{"TotalSystemMemoryGiB":63.5},
	"Boot":{"BootOrder":["Boot0001","Boot0002","Boot0003","Boot0004"],"BootOptions":{"@odata.id":"/redfish/v1/Systems/1/BootOptions"}},
	"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"}}}`

func (b *bmc) serve(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	key := r.Method + " " + r.URL.Path
	b.asked = append(b.asked, key)
	answer := b.answers[key]
	if answer == nil {
		answer = b.fold[strings.ToLower(strings.TrimRight(key, "/"))]
	}
	b.mu.Unlock()
	if answer == nil {
		http.NotFound(w, r)
		return
	}
	answer(w, r)
}

// answer changes what the BMC answers to one request.
func (b *bmc) answer(request string, h http.HandlerFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[request] = h
}

// took returns the requests since the last call.
func (b *bmc) took() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	asked := b.asked
	b.asked = nil
	return asked
}

func (b *bmc) count(request string) int {
	n := 0
	for _, a := range b.took() {
		if a == request {
			n++
		}
	}
	return n
}

func text(body string) http.HandlerFunc { return status(http.StatusOK, body) }

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

func (b *bmc) endpoint() site.Endpoint {
	return site.Endpoint{
		URL:   "redfish+" + b.URL + "/redfish/v1/Systems/1",
		Trust: site.Trust{Fingerprint: sum(b.Certificate())},
	}
}

// fast is the patience of tests.
var fast = Options{Grace: 50 * time.Millisecond, Settle: 200 * time.Millisecond, Poll: time.Millisecond}

func open(t *testing.T, e site.Endpoint) *machine {
	t.Helper()
	m, err := New(fast).Open(t.Context(), e, secret.New("admin", "hunter2"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m.(*machine)
}

// mayWrite has writes be sent outside of a step, as one that has found its machine
// sends them.
func mayWrite(t *testing.T, m *machine) {
	t.Helper()
	release, err := m.bind(t.Context(), site.Identity{UUID: uuid}, site.ImpactOnline)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	m.client.bound.known = object{}
}

func look(m *machine, n *site.Node) (site.Observed, error) {
	if n == nil {
		n = &site.Node{}
	}
	return m.Observe(context.Background(), n, []site.Facet{site.FacetPower, site.FacetBoot, site.FacetHealth, site.FacetInventory})
}

func TestObserve(t *testing.T) {
	b := newBMC(t)
	n := &site.Node{Power: "off", Boot: site.Boot{Order: []string{"Hdd", "Pxe"}}}
	seen, err := look(open(t, b.endpoint()), n)
	if err != nil {
		t.Fatal(err)
	}
	if want := (site.Identity{UUID: uuid, Serial: "S1"}); seen.Identity != want {
		t.Errorf("got %v, want %v", seen.Identity, want)
	}
	if want := (site.Inventory{Manufacturer: "Maker", Model: "M1", SKU: "K1", BIOS: "1.2", Processors: 2, MemoryGiB: 63.5}); !reflect.DeepEqual(*seen.Inventory, want) {
		t.Errorf("got %+v, want %+v", *seen.Inventory, want)
	}
	for f, want := range map[site.Facet][2]string{
		site.FacetPower:  {"map[state:on]", "map[state:off]"},
		site.FacetBoot:   {"map[order:Pxe,Hdd,Boot0004]", "map[order:Hdd,Pxe,Boot0004]"},
		site.FacetHealth: {"map[status:Warning]", "map[]"},
	} {
		if got := [2]string{fmt.Sprint(seen.Facets[f].Have), fmt.Sprint(seen.Facets[f].Resolve(n, f).Want)}; got != want {
			t.Errorf("%s: got %v, want %v", f, got, want)
		}
	}
}

// A look tells which sources the machine can be told to boot from, where the BMC
// lists them.
func TestBootSources(t *testing.T) {
	const refs, targets = `"BootOrder":["Boot0003","Boot0001"],"BootOptions":{"@odata.id":"/redfish/v1/Systems/1/BootOptions"}`, `"BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe","Hdd"]`
	for name, c := range map[string]struct {
		boot    string
		sources []string
		one     bool
	}{
		"a boot order":               {refs, []string{"Hdd", "Pxe"}, false},
		"a boot order and overrides": {refs + "," + targets, []string{"Hdd", "Pxe"}, false},
		"overrides alone":            {targets, []string{"Hdd", "Pxe"}, true},
		"overrides without a list":   {`"BootSourceOverrideTarget":"None"`, nil, true},
		"nothing":                    {``, nil, false},
	} {
		b := newBMC(t)
		b.answer("GET /redfish/v1/Systems/1", text(`{"PowerState":"On","Boot":{`+c.boot+`}}`))
		seen, err := look(open(t, b.endpoint()), nil)
		got := seen.Facets[site.FacetBoot]
		if slices.Sort(got.Sources); err != nil || !slices.Equal(got.Sources, c.sources) || got.OneSource != c.one {
			t.Errorf("%s: got %q, one %v (%v)", name, got.Sources, got.OneSource, err)
		}
	}
}

// A boot option that cannot be read costs its own name, and is not asked for in
// each look again; one that cannot be read now is.
func TestUnreadableBootOption(t *testing.T) {
	n := &site.Node{Boot: site.Boot{Order: []string{"Hdd"}}}
	for _, code := range []int{403, 404, 501} {
		b := newBMC(t)
		b.answer("GET /o/2", status(code, ""))
		m := open(t, b.endpoint())
		if seen, err := look(m, n); err != nil || seen.Facets[site.FacetBoot].Have["order"] != "Pxe,Boot0002,Hdd,Boot0004" {
			t.Errorf("%d: got %v, %v", code, seen.Facets[site.FacetBoot], err)
		}
		b.took()
		if _, err := look(m, n); err != nil || len(b.took()) != 1 {
			t.Errorf("%d: asked for again: %v", code, err)
		}
	}
	b := newBMC(t)
	b.answer("GET /o/2", status(503, ""))
	m := open(t, b.endpoint())
	if seen, err := look(m, n); err != nil || seen.Facets[site.FacetBoot].Have != nil {
		t.Errorf("got %v, %v", seen.Facets[site.FacetBoot], err)
	}
	b.answer("GET /o/2", text(`{"BootOptionReference":"Boot0002","Alias":"Pxe"}`))
	if seen, err := look(m, n); err != nil || seen.Facets[site.FacetBoot].Have["order"] != "Pxe,Hdd,Boot0004" {
		t.Errorf("got %v, %v", seen.Facets[site.FacetBoot], err)
	}
}

// A collection is read on all of its pages, and what is garbled in it costs
// itself only.
func TestCollections(t *testing.T) {
	b := newBMC(t)
	m := open(t, b.endpoint())
	for name, c := range map[string]struct{ first, second, want string }{
		"two pages": {`{"Members":[{"@odata.id":"/1"}],"Members@odata.nextLink":"/second"}`, `{"Members":[{"@odata.id":"/2"}]}`, "[/1 /2]"},
		"a loop":    {`{"Members":[{"@odata.id":"/1"}],"Members@odata.nextLink":"/second"}`, `{"Members":[{"@odata.id":"/2"}],"Members@odata.nextLink":"/first"}`, "[/1 /2]"},
		"garbled":   {`{"Members":[null,17,"/0",{"@odata.id":3},{"@odata.id":"/1"}]}`, "", "[/1]"},
		"no list":   {`{"Members":{"@odata.id":"/1"}}`, "", "[/1]"},
	} {
		b.answer("GET /first", text(c.first))
		b.answer("GET /second", text(c.second))
		if got, err := m.client.listed(t.Context(), "/first"); err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%s: got %v, want %s (%v)", name, got, c.want, err)
		}
	}
}

func TestTransitionalPower(t *testing.T) {
	for power, want := range map[string][2]string{
		"PoweringOn": {"off", "on"}, "PoweringOff": {"on", "off"}, "Paused": {"on", ""}, "On": {"on", ""}, "Off": {"off", ""},
	} {
		b := newBMC(t)
		b.answer("GET /redfish/v1/Systems/1", text(`{"PowerState":"`+power+`"}`))
		seen, err := look(open(t, b.endpoint()), nil)
		p := seen.Facets[site.FacetPower]
		if err != nil || p.Have["state"] != want[0] || p.Pending["state"] != want[1] {
			t.Errorf("%s: got have %v pending %v (%v), want %v", power, p.Have, p.Pending, err, want)
		}
	}
}

func TestSteadyStateIsOneRequest(t *testing.T) {
	b := newBMC(t)
	m := open(t, b.endpoint())
	if _, err := look(m, nil); err != nil {
		t.Fatal(err)
	}
	b.took()
	for range 3 {
		if _, err := look(m, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.took(); len(got) != 3 {
		t.Errorf("three looks took %v", got)
	}
}

// A field that a BMC garbles costs that field only.
func TestGarbledFields(t *testing.T) {
	for _, field := range []string{"UUID", "SerialNumber", "PowerState", "Status", "Model", "ProcessorSummary", "MemorySummary", "Boot", "Actions"} {
		for _, garbage := range []any{nil, "N/A", 17, true, []any{1}, map[string]any{"Count": "two", "BootOrder": []any{1, "x"}}} {
			b := newBMC(t)
			var o map[string]any
			if err := json.Unmarshal([]byte(healthySystem), &o); err != nil {
				t.Fatal(err)
			}
			o[field] = garbage
			body, _ := json.Marshal(o)
			b.answer("GET /redfish/v1/Systems/1", text(string(body)))
			seen, err := look(open(t, b.endpoint()), nil)
			if err != nil {
				t.Fatalf("%s = %v: %v", field, garbage, err)
			}
			if _, ok := seen.Facets[site.FacetPower]; ok == (field == "PowerState") {
				t.Errorf("%s = %v: power seen: %v", field, garbage, ok)
			}
			if seen.Inventory.SKU != "K1" || seen.Inventory.BIOS != "1.2" {
				t.Errorf("%s = %v: got %+v", field, garbage, seen.Inventory)
			}
		}
	}
}

func TestErrorClasses(t *testing.T) {
	const extended = `{"error":{"code":"Base.1.8.GeneralError","message":"See ExtendedInfo","@Message.ExtendedInfo":[{"MessageId":"SYS518","Message":"iDRAC is\u001b[31m not ready"}]}}`
	const single = `{"error":{"@Message.ExtendedInfo":{"MessageId":"SYS518","Message":"not ready"}}}`
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		class  error
		says   string
	}{
		"html":               {page, driver.ErrRefused, "text/html where Redfish is expected"},
		"not json":           {text("{broken"), driver.ErrRefused, "not JSON"},
		"empty":              {text(""), driver.ErrRefused, "where Redfish is expected"},
		"endless":            {endless, driver.ErrRefused, "larger than 8 MiB"},
		"not found":          {status(404, ""), driver.ErrRefused, "404 Not Found"},
		"unavailable":        {status(503, extended), driver.ErrBusy, "SYS518: iDRAC is [31m not ready"},
		"single message":     {status(500, single), driver.ErrBusy, "SYS518: not ready"},
		"with advice":        {status(400, `{"error":{"@Message.ExtendedInfo":[{"MessageId":"Base.1.8.PropertyValueNotInList","Message":"no","Resolution":"Choose another."},{"Message":"more","Resolution":"None."}]}}`), driver.ErrRefused, "Base.1.8.PropertyValueNotInList: no: the BMC advises: Choose another.; more"},
		"said once for all":  {status(400, `{"error":{"code":"X.1.0.Y","message":"the lid is open","@Message.ExtendedInfo":[{"MessageId":"Base.1.8.GeneralError"}]}}`), driver.ErrRefused, "Base.1.8.GeneralError: the lid is open"},
		"by its message":     {status(400, `{"error":{"@Message.ExtendedInfo":[{"MessageId":"Base.1.8.ActionNotSupported"}]}}`), errors.ErrUnsupported, "400"},
		"no privilege, 400":  {status(400, `{"error":{"@Message.ExtendedInfo":[{"MessageId":"Base.1.8.InsufficientPrivilege"}]}}`), driver.ErrDenied, "InsufficientPrivilege"},
		"conflict":           {status(409, `{"error":{"code":"X","message":"Y"}}`), driver.ErrBusy, "X: Y"},
		"too many":           {status(429, "<html>"), driver.ErrBusy, "429"},
		"forbidden":          {status(403, ""), driver.ErrDenied, "403"},
		"token not accepted": {status(401, ""), driver.ErrDenied, "401"},
		"bad request":        {status(400, ""), driver.ErrRefused, "400"},
		"method not allowed": {status(405, ""), errors.ErrUnsupported, "405"},
		"hangs up":           {hangUp, driver.ErrUnreachable, "EOF"},
		"led elsewhere":      {http.RedirectHandler("https://192.0.2.1/steal", http.StatusTemporaryRedirect).ServeHTTP, driver.ErrRefused, "leads to https://192.0.2.1"},
		"led to plain http":  {toPlain, driver.ErrRefused, "leads to http://"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.answer("GET /redfish/v1/Systems/1", c.answer)
			_, err := look(open(t, b.endpoint()), nil)
			if !errors.Is(err, c.class) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("got %v; want %v that says %q", err, c.class, c.says)
			}
		})
	}
}

// A link that is no path stays so until somebody mends the BMC.
func TestMalformedLinkIsRefused(t *testing.T) {
	b := newBMC(t)
	b.answer("GET /redfish/v1/Systems", text(`{"Members":[{"@odata.id":"/redfish/v1/Systems/%zz"}]}`))
	e := b.endpoint()
	e.URL = strings.TrimSuffix(e.URL, "/redfish/v1/Systems/1")
	if _, err := look(open(t, e), nil); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "which is not a path on it") {
		t.Errorf("got %v", err)
	}
}

func page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	io.WriteString(w, "<html><body>Log in to the intranet</body></html>")
}

func endless(w http.ResponseWriter, _ *http.Request) {
	io.WriteString(w, `{"x":"`)
	for range 9 {
		w.Write(slices.Repeat([]byte("a"), 1<<20))
	}
}

func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func toPlain(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "http://"+r.Host+"/x", http.StatusFound)
}

func TestNothingListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	_, err = look(open(t, site.Endpoint{URL: "redfish+https://" + l.Addr().String() + "/redfish/v1/Systems/1"}), nil)
	if !errors.Is(err, driver.ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

// In a bubble the time of a BMC that never answers costs nothing.
func TestSilenceEndsAtTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := open(t, site.Endpoint{URL: "redfish+https://bmc/redfish/v1/Systems/1"})
		ours, theirs := net.Pipe()
		defer theirs.Close()
		go io.Copy(io.Discard, theirs)
		m.client.http.Transport.(*wire).next.DialContext = func(context.Context, string, string) (net.Conn, error) { return ours, nil }
		began := time.Now()
		_, err := look(m, nil)
		if took := time.Since(began); !errors.Is(err, driver.ErrUnreachable) || took > callTimeout {
			t.Errorf("got %v after %s", err, took)
		}
	})
}

func TestRetryAfterInBothForms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for header, want := range map[string]time.Duration{
			"": 0, "30": 30 * time.Second, "-5": 0, "soon": 0, "99999999": 24 * time.Hour,
			time.Now().Add(90 * time.Second).UTC().Format(http.TimeFormat): 90 * time.Second,
			time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat):       0,
		} {
			if got := retryAfter(header); got != want {
				t.Errorf("%q: got %s, want %s", header, got, want)
			}
		}
	})
}

func TestRetryAfterReachesTheEngine(t *testing.T) {
	b := newBMC(t)
	b.answer("GET /redfish/v1/Systems/1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "17")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	_, err := look(open(t, b.endpoint()), nil)
	var after driver.RetryAfter
	if !errors.As(err, &after) || after.RetryAfterSeconds() != 17 {
		t.Errorf("got %v", err)
	}
}

func TestForgottenSessionLogsInOnceMore(t *testing.T) {
	b := newBMC(t)
	m := open(t, b.endpoint())
	if _, err := look(m, nil); err != nil {
		t.Fatal(err)
	}
	b.took()
	var once sync.Once
	b.answer("GET /redfish/v1/Systems/1", func(w http.ResponseWriter, r *http.Request) {
		answer := text(healthySystem)
		once.Do(func() { answer = status(401, "") })
		answer(w, r)
	})
	if _, err := look(m, nil); err != nil {
		t.Fatal(err)
	}
	if n := b.count("POST /redfish/v1/SessionService/Sessions"); n != 1 {
		t.Errorf("logged in %d times", n)
	}
}

func TestDeniedLoginIsTriedOnce(t *testing.T) {
	for _, code := range []int{400, 401, 403} {
		b := newBMC(t)
		b.answer("POST /redfish/v1/SessionService/Sessions", func(w http.ResponseWriter, r *http.Request) {
			sent, _ := io.ReadAll(r.Body)
			body, _ := json.Marshal(map[string]any{"error": map[string]any{"code": "X", "message": "you sent " + string(sent)}})
			status(code, string(body))(w, r)
		})
		_, err := look(open(t, b.endpoint()), nil)
		if !errors.Is(err, driver.ErrDenied) || !strings.Contains(err.Error(), "you sent") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%d: got %v", code, err)
		}
		if told := strings.Contains(err.Error(), "or the account is locked"); told != (code == 401) {
			t.Errorf("%d: got %v", code, err)
		}
		if n := b.count("POST /redfish/v1/SessionService/Sessions"); n != 1 {
			t.Errorf("%d: logged in %d times", code, n)
		}
	}
}

// A BMC that has no room for a session has not denied the password.
func TestQuirkSessionLimit(t *testing.T) {
	for _, id := range []string{"Base.1.8.SessionLimitExceeded", "IDRAC.2.4.RAC0218", "iLO.2.14.MaxSessionsReached", "Base.1.8.CreateLimitReachedForResource"} {
		b := newBMC(t)
		b.answer("POST /redfish/v1/SessionService/Sessions", status(400, `{"error":{"@Message.ExtendedInfo":[{"MessageId":"`+id+`"}]}}`))
		if _, err := look(open(t, b.endpoint()), nil); !errors.Is(err, driver.ErrBusy) {
			t.Errorf("%s: got %v", id, err)
		}
	}
}

func TestBasicAuthenticationOnlyWithoutSessions(t *testing.T) {
	b := newBMC(t)
	b.answer("GET /redfish/v1/", text(`{}`))
	b.answer("GET /redfish/v1/Systems/1", func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "admin" || password != "hunter2" {
			status(401, "")(w, r)
			return
		}
		text(healthySystem)(w, r)
	})
	if _, err := look(open(t, b.endpoint()), nil); err != nil {
		t.Error(err)
	}
}

func TestCloseDeletesTheSession(t *testing.T) {
	b := newBMC(t)
	goroutines := runtime.NumGoroutine()
	m := open(t, b.endpoint())
	if _, err := look(m, nil); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if n := b.count("DELETE /redfish/v1/SessionService/Sessions/7"); n != 1 {
		t.Errorf("the session was deleted %d times", n)
	}
	eventually(t, func() bool { return runtime.NumGoroutine() <= goroutines })
}

func TestHeaders(t *testing.T) {
	b := newBMC(t)
	var got http.Header
	b.answer("GET /redfish/v1/Systems/1", func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		text(healthySystem)(w, r)
	})
	if _, err := look(open(t, b.endpoint()), nil); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"X-Auth-Token": "token", "OData-Version": "4.0", "Accept-Encoding": "identity"} {
		if got.Get(name) != want {
			t.Errorf("%s: got %q, want %q", name, got.Get(name), want)
		}
	}
}

func TestEndpoints(t *testing.T) {
	for endpoint, says := range map[string]string{
		"redfish+http://192.0.2.1/redfish/v1/Systems/1": "has no TLS",
		"redfish://192.0.2.1/redfish/v1/Systems/1":      "is not of the form",
		"redfish+https:///redfish/v1/Systems/1":         "is not of the form",
		"redfish+https://a:b@192.0.2.1/":                "do not belong in Git",
		"redfish+https://[::1/":                         "is not a URL",
	} {
		_, err := New(Options{}).Open(t.Context(), site.Endpoint{URL: endpoint}, secret.Value{})
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "a:b@") {
			t.Errorf("%s: got %v", endpoint, err)
		}
	}
}

// A private key is never sent to a BMC, whoever names it as a credential.
func TestPrivateKeyIsRefused(t *testing.T) {
	b := newBMC(t)
	_, err := New(fast).Open(t.Context(), b.endpoint(), secret.New("admin", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----"))
	if !errors.Is(err, driver.ErrDenied) || !errors.Is(err, secret.ErrKind) || strings.Contains(err.Error(), "AAAA") {
		t.Errorf("got %v", err)
	}
	if n := len(b.took()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestSystemOfAnEndpointWithoutPath(t *testing.T) {
	b := newBMC(t)
	e := b.endpoint()
	e.URL = strings.TrimSuffix(e.URL, "/Systems/1")
	b.answer("GET /redfish/v1/Systems", text(`{"Members":[{"@odata.id":"/redfish/v1/Systems/1"}]}`))
	if seen, err := look(open(t, e), nil); err != nil || seen.Identity.UUID != uuid {
		t.Errorf("got %v, %v", seen.Identity, err)
	}
	b.answer("GET /redfish/v1/Systems", text(`{"Members":[{"@odata.id":"/s/1"},{"@odata.id":"/s/2"}]}`))
	if _, err := look(open(t, e), nil); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "/s/1, /s/2") {
		t.Errorf("got %v", err)
	}
}

// A link of the BMC must not take the session token elsewhere.
func TestLinksStayOnTheBMC(t *testing.T) {
	for _, evil := range []string{"@192.0.2.1/x", ".example/x", "https://192.0.2.1/x"} {
		b := newBMC(t)
		e := b.endpoint()
		e.URL = strings.TrimSuffix(e.URL, "/Systems/1")
		b.answer("GET /redfish/v1/Systems", text(`{"Members":[{"@odata.id":"`+evil+`"}]}`))
		if _, err := look(open(t, e), nil); !errors.Is(err, driver.ErrRefused) && !errors.Is(err, driver.ErrUnreachable) {
			t.Errorf("%s: got %v", evil, err)
		}
	}
}

// gofish, given Insecure and no client, turns verification off for the whole
// process. Nothing here may.
func TestDefaultTransportStaysVerifying(t *testing.T) {
	b := newBMC(t)
	if _, err := look(open(t, b.endpoint()), nil); err != nil {
		t.Fatal(err)
	}
	var bad *tls.CertificateVerificationError
	if resp, err := http.Get(b.URL); !errors.As(err, &bad) {
		if err == nil {
			resp.Body.Close()
		}
		t.Errorf("the default transport took an unknown certificate: %v", err)
	}
	if c := http.DefaultTransport.(*http.Transport).TLSClientConfig; c != nil && c.InsecureSkipVerify {
		t.Error("the default transport no longer verifies")
	}
	api, err := New(fast).Open(t.Context(), b.endpoint(), secret.New("a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := api.(*machine).client.offline(gofish.ClientConfig{})
	if err != nil || c.HTTPClient == http.DefaultClient || c.HTTPClient.Transport == nil {
		t.Errorf("gofish uses %v (%v)", c.HTTPClient, err)
	}
}

func TestTrust(t *testing.T) {
	now := time.Now()
	good := certificate(t, now.Add(time.Hour))
	expired := certificate(t, now.Add(-time.Hour))
	ca := func(c tls.Certificate) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}))
	}
	for name, c := range map[string]struct {
		shows tls.Certificate
		trust site.Trust
		says  []string // nothing: trusted
	}{
		"pinned":          {good, site.Trust{Fingerprint: sum(good.Leaf)}, nil},
		"pinned upper":    {good, site.Trust{Fingerprint: strings.ToUpper(sum(good.Leaf))}, nil},
		"pinned, expired": {expired, site.Trust{Fingerprint: sum(expired.Leaf)}, nil},
		"pinned, another": {good, site.Trust{Fingerprint: sum(expired.Leaf)}, []string{sum(good.Leaf), sum(expired.Leaf) + " is expected", "trust.fingerprint"}},
		"ca":              {good, site.Trust{CA: ca(good)}, nil},
		"ca, expired":     {expired, site.Trust{CA: ca(expired)}, []string{sum(expired.Leaf), "expired", "give the BMC a new certificate"}},
		"ca, another":     {good, site.Trust{CA: ca(expired)}, []string{sum(good.Leaf), "is not trusted", "trust.ca"}},
		"system's roots":  {good, site.Trust{}, []string{sum(good.Leaf), "is not trusted", "trust.fingerprint"}},
		"no fingerprint":  {good, site.Trust{Fingerprint: "sha256:abc"}, []string{"64 hex digits"}},
		"no certificates": {good, site.Trust{CA: "nonsense"}, []string{"no certificate in PEM form"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.TLS.Certificates = []tls.Certificate{c.shows}
			e := site.Endpoint{URL: b.endpoint().URL, Trust: c.trust}
			m, err := New(fast).Open(t.Context(), e, secret.New("admin", "hunter2"))
			if err == nil {
				defer m.Close()
				_, err = m.Observe(t.Context(), &site.Node{}, nil)
			}
			if (err == nil) != (c.says == nil) || err != nil && !errors.Is(err, driver.ErrRefused) {
				t.Fatalf("got %v", err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error()+driver.PlainOf(err), s) {
					t.Errorf("%v\ndoes not say %q", err, s)
				}
			}
			if err != nil && len(b.took()) > 0 {
				t.Error("a request was sent all the same")
			}
		})
	}
}

func certificate(t *testing.T, until time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(until.UnixNano()), Subject: pkix.Name{CommonName: "bmc"},
		NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Connections are closed between bursts, and the next one resumes the TLS
// session without a new signature.
func TestTLSSessionsAreResumed(t *testing.T) {
	b := newBMC(t)
	var resumed []bool
	b.answer("GET /redfish/v1/Systems/1", func(w http.ResponseWriter, r *http.Request) {
		resumed = append(resumed, r.TLS.DidResume)
		text(healthySystem)(w, r)
	})
	m := open(t, b.endpoint())
	for range 3 {
		if _, err := look(m, nil); err != nil {
			t.Fatal(err)
		}
		m.client.http.CloseIdleConnections()
	}
	if want := []bool{false, true, true}; !slices.Equal(resumed, want) {
		t.Errorf("got %v, want %v", resumed, want)
	}
}

const resetRequest = "POST /redfish/v1/Systems/1/Actions/ComputerSystem.Reset"

func powerOn(t *testing.T, b *bmc) error {
	step := site.Step{Machine: site.Identity{UUID: uuid}, Action: site.ActionPowerOn}
	return open(t, b.endpoint()).Apply(t.Context(), step, &site.Node{}, drivertest.Permitted)
}

func systemIs(power string) http.HandlerFunc {
	return text(strings.Replace(healthySystem, `"PowerState":"On"`, `"PowerState":"`+power+`"`, 1))
}

// A BMC that refuses a reset because somebody else was quicker has what is
// wanted; one that is in the middle of something is tried again.
func TestRefusedResets(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		then   string
		class  error
	}{
		"already on":        {409, "On", nil},
		"already so, 400":   {400, "On", nil},
		"in a transition":   {409, "Off", driver.ErrBusy},
		"wrong parameter":   {400, "Off", driver.ErrRefused},
		"no such action":    {404, "Off", errors.ErrUnsupported},
		"action not served": {405, "Off", errors.ErrUnsupported},
		"no privilege":      {403, "Off", driver.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.answer("GET /redfish/v1/Systems/1", systemIs("Off"))
			b.answer(resetRequest, func(w http.ResponseWriter, r *http.Request) {
				b.answer("GET /redfish/v1/Systems/1", systemIs(c.then))
				status(c.status, "")(w, r)
			})
			if err := powerOn(t, b); !errors.Is(err, c.class) {
				t.Errorf("got %v, want %v", err, c.class)
			}
			if n := b.count(resetRequest); n != 1 {
				t.Errorf("the reset was asked for %d times", n)
			}
		})
	}
}

func TestSystemWithoutReset(t *testing.T) {
	for name, actions := range map[string]string{
		"no actions":     `{}`,
		"another reset":  `{"#ComputerSystem.Reset":{"target":"/x","ResetType@Redfish.AllowableValues":["ForceOff"]}}`,
		"garbled action": `{"#ComputerSystem.Reset":"N/A"}`,
	} {
		b := newBMC(t)
		b.answer("GET /redfish/v1/Systems/1", text(`{"UUID":"`+uuid+`","PowerState":"Off","Actions":`+actions+`}`))
		if err := powerOn(t, b); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Nothing is switched by guessing what an unreadable power state means.
func TestUnreadablePowerIsLeftAlone(t *testing.T) {
	b := newBMC(t)
	b.answer("GET /redfish/v1/Systems/1", systemIs("Unknown"))
	if err := powerOn(t, b); !errors.Is(err, driver.ErrRefused) || b.count(resetRequest) != 0 {
		t.Errorf("got %v", err)
	}
}

// A power change that somebody else began is waited for, not repeated.
func TestPowerChangeUnderWayIsJoined(t *testing.T) {
	b := newBMC(t)
	looks := 0
	b.answer("GET /redfish/v1/Systems/1", func(w http.ResponseWriter, r *http.Request) {
		looks++
		systemIs(map[bool]string{true: "PoweringOn", false: "On"}[looks < 4])(w, r)
	})
	if err := powerOn(t, b); err != nil || b.count(resetRequest) != 0 {
		t.Errorf("got %v", err)
	}
}

// A BMC can send anything, and only its own node suffers: what is shown of it
// is in canonical terms.
func FuzzSystem(f *testing.F) {
	f.Add([]byte(healthySystem))
	f.Add([]byte(`{"Boot":[{"BootOrder":null}],"PowerState":{"On":1},"Actions":{"#ComputerSystem.Reset":{"target":[]}},"Links":{"ManagedBy":[1,{"@odata.id":2}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var o object
		if json.Unmarshal(body, &o) != nil {
			return
		}
		s, m := system{o}, &machine{boot: bootOptions{source: map[string]string{"Boot0001": "Hdd"}}}
		if h := s.heading(); h != "" && h != "on" && h != "off" || s.on() && s.off() {
			t.Errorf("heading %q, on %v, off %v", h, s.on(), s.off())
		}
		order, _ := m.boot.order(s.bootOrder(), []string{"Hdd", "Pxe"})
		if len(order) != len(s.bootOrder()) {
			t.Errorf("%v was ordered to %v", s.bootOrder(), order)
		}
		s.identity()
		s.inventory()
		s.override("Cd", usbCd)
		(&machine{}).resetKinds(t.Context(), s)
		allowed[string](o, "ResetType")
		links(o, "Links", "ManagedBy")
		if text := said(messages(body)); text != printable(text) {
			t.Errorf("%q is not fit to be shown", text)
		}
	})
}

// An update of the BMC may show everything in other places: a handle finds them
// anew.
func TestPlacesThatMove(t *testing.T) {
	b := newBMC(t)
	e := b.endpoint()
	e.URL = strings.TrimSuffix(e.URL, "/Systems/1")
	shows := func(at string) string {
		return strings.Replace(healthySystem, `{`, `{"VirtualMedia":{"@odata.id":"`+at+`/vm"},"LogServices":{"@odata.id":"`+at+`/logs"},"Links":{"Chassis":[{"@odata.id":"`+at+`/c"}]},`, 1)
	}
	move := func(from, to string) {
		for _, path := range []string{"", "/vm", "/vm/1", "/logs", "/logs/SEL", "/logs/SEL/e", "/c", "/c/t"} {
			b.answer("GET "+from+path, http.NotFound)
		}
		for path, body := range map[string]string{
			"": shows(to), "/vm": `{"Members":[{"@odata.id":"` + to + `/vm/1"}]}`, "/vm/1": `{"Actions":{"#VirtualMedia.InsertMedia":{"target":"/i"}}}`,
			"/logs": `{"Members":[{"@odata.id":"` + to + `/logs/SEL"}]}`, "/logs/SEL": `{"Entries":{"@odata.id":"` + to + `/logs/SEL/e"}}`, "/logs/SEL/e": `{"Members":[]}`,
			"/c": `{"Thermal":{"@odata.id":"` + to + `/c/t"}}`, "/c/t": `{}`,
		} {
			b.answer("GET "+to+path, text(body))
		}
		b.answer("GET /redfish/v1/Systems", text(`{"Members":[{"@odata.id":"`+to+`"}]}`))
	}
	m := open(t, e)
	all := []site.Facet{site.FacetPower, site.FacetImage, site.FacetLog, site.FacetSensors}
	move("/nowhere", "/redfish/v1/Systems/A")
	for range 3 { // the one in which it is noticed shows little
		if seen, err := m.Observe(t.Context(), &site.Node{}, all); err != nil || len(seen.Facets) != len(all) {
			t.Fatalf("got %v, %v", seen.Facets, err)
		}
		move("/redfish/v1/Systems/A", "/redfish/v1/Systems/B")
		if _, err := m.Observe(t.Context(), &site.Node{}, all); !errors.Is(err, driver.ErrRefused) {
			t.Fatalf("got %v", err)
		}
		m.Observe(t.Context(), &site.Node{}, all)
		if seen, err := m.Observe(t.Context(), &site.Node{}, all); err != nil || len(seen.Facets) != len(all) {
			t.Fatalf("after it has moved: got %v, %v", seen.Facets, err)
		}
		move("/redfish/v1/Systems/B", "/redfish/v1/Systems/A")
		m.Observe(t.Context(), &site.Node{}, all)
		m.Observe(t.Context(), &site.Node{}, all)
	}
	sessions := b.answers["POST /redfish/v1/SessionService/Sessions"]
	b.answer("POST /redfish/v1/SessionService/Sessions", http.NotFound)
	b.answer("POST /redfish/v1/Sessions", sessions)
	b.answer("GET /redfish/v1/", text(`{"Links":{"Sessions":{"@odata.id":"/redfish/v1/Sessions"}}}`))
	move("/redfish/v1/Systems/A", "/redfish/v1/Systems/B")
	if _, err := look(m, nil); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("got %v", err)
	}
	if _, err := look(m, nil); err != nil {
		t.Errorf("after it has moved: %v", err)
	}
	m.client.client.in.Store(nil) // its session is over
	if _, err := look(m, nil); err == nil {
		t.Error("a login to where none is made")
	}
	if _, err := look(m, nil); err != nil {
		t.Error(err)
	}
}
