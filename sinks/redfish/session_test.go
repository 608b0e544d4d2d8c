package redfish

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
)

// TestEnd holds what a BMC may answer when a session of an earlier term is to
// end.
func TestEnd(t *testing.T) {
	const path = "/redfish/v1/SessionService/Sessions/3"
	for name, c := range map[string]struct {
		get, del http.HandlerFunc
		deletes  int
		is       error
	}{
		"ours":                     {text(`{"UserName":"admin"}`), status(204, ""), 1, nil},
		"without a name":           {text(`{}`), status(200, ""), 1, nil},
		"over":                     {status(404, ""), nil, 0, nil},
		"over meanwhile":           {text(`{"UserName":"admin"}`), status(404, ""), 1, nil},
		"by now another user's":    {text(`{"UserName":"root"}`), nil, 0, nil},
		"that may not be ended":    {text(`{"UserName":"admin"}`), status(405, ""), 1, errors.ErrUnsupported},
		"on a BMC that is busy":    {text(`{"UserName":"admin"}`), status(503, ""), 1, driver.ErrBusy},
		"that may not be asked of": {status(403, ""), nil, 0, driver.ErrDenied},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBMC(t)
			b.answer("GET "+path, c.get)
			b.answer("DELETE "+path, c.del)
			m := open(t, b.endpoint())
			if _, err := look(m, nil); err != nil {
				t.Fatal(err)
			}
			b.took()
			if err := m.End(t.Context(), path); !errors.Is(err, c.is) || (err == nil) != (c.is == nil) {
				t.Errorf("got %v, want %v", err, c.is)
			}
			if n := b.count("DELETE " + path); n != c.deletes {
				t.Errorf("deleted %d times, want %d", n, c.deletes)
			}
		})
	}
}

func TestEndLeavesTheHandlesOwnSession(t *testing.T) {
	b := newBMC(t)
	m := open(t, b.endpoint())
	if _, err := look(m, nil); err != nil {
		t.Fatal(err)
	}
	own := m.Session()
	if !strings.HasSuffix(own, "/Sessions/7") {
		t.Fatalf("the session is %q", own)
	}
	b.answer("GET "+own, text(`{"UserName":"admin"}`))
	if err := m.End(t.Context(), own); err != nil {
		t.Error(err)
	}
	if n := b.count("DELETE " + own); n != 0 {
		t.Error("the handle ended its own session")
	}
}
