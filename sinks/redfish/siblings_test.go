package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/driver"
	"github.com/slipway-gitops/slipway/engine/site"
)

// A list of systems that was cut short names no machine: the one that is meant may be one of those
// that were not read.
func TestSystemIsNotFoundInAListThatIsCutShort(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	b := sledsOf(t, map[string]string{"N1": sled("N1", "S1", ""), "N2": sled("N2", "S2", "")})
	b.answer("GET /redfish/v1/Systems/N2", func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	e := b.endpoint()
	e.URL = strings.TrimSuffix(e.URL, "/Systems/1")
	if path, err := open(t, e).findSystem(over, site.Identity{}); err == nil {
		t.Errorf("found %s", path)
	}
}

// A machine of several is found by its service tag, which only its maker's machines have.
func TestSystemIsFoundByItsServiceTag(t *testing.T) {
	dell := func(id, tag string) string {
		return strings.Replace(sled(id, "BOARD"+id, ""), `"Id"`, `"Manufacturer":"Dell Inc.","SKU":"`+tag+`","Id"`, 1)
	}
	b := sledsOf(t, map[string]string{"N1": dell("N1", "TAG0001"), "N2": dell("N2", "TAG0002")})
	e := b.endpoint()
	e.URL = strings.TrimSuffix(e.URL, "/Systems/1")
	if path, err := open(t, e).findSystem(t.Context(), site.Identity{Serial: "TAG0002"}); err != nil || path != "/redfish/v1/Systems/N2" {
		t.Errorf("found %q, %v", path, err)
	}
}

// A BMC that answers 404 as it is busy has not said that there is no other machine.
func TestBusyBMCTellsOfNoSiblings(t *testing.T) {
	want := site.Identity{Serial: "ENC"}
	b := sledsOf(t, map[string]string{"N1": sled("N1", "ENC", "")})
	m := nodeAt(t, b, "N1")
	if _, err := look(m, &site.Node{Identity: want}); err != nil {
		t.Fatal(err)
	}
	b.answer("GET /redfish/v1/Systems", status(http.StatusNotFound, `{"error":{"@Message.ExtendedInfo":[{"MessageId":"Base.1.18.ServiceInUnknownState"}]}}`))
	if err := m.toldApart(t.Context(), want); !errors.Is(err, driver.ErrBusy) {
		t.Errorf("told apart: %v", err)
	}
	if _, err := m.Identify(t.Context(), want); !errors.Is(err, driver.ErrBusy) {
		t.Errorf("identified: %v", err)
	}
}

// The ports of a machine that are read are as many as one list of a BMC may have.
func TestPortsAreBounded(t *testing.T) {
	b := sledsOf(t, map[string]string{"N1": sled("N1", "ENC", ""), "N2": sled("N2", "ENC", "")})
	var members []string
	for i := range maxLinks + 8 {
		path := fmt.Sprintf("/nics/N1/%03d", i)
		members = append(members, fmt.Sprintf(`{"@odata.id":%q}`, path))
		b.answer("GET "+path, text(fmt.Sprintf(`{"MACAddress":"00:16:3e:00:00:%02x"}`, i)))
	}
	b.answer("GET /nics/N1", text(`{"Members":[`+strings.Join(members, ",")+`]}`))
	m := nodeAt(t, b, "N1")
	s, err := m.system(t.Context(), site.Identity{})
	if err != nil {
		t.Fatal(err)
	}
	if own, err := m.ownMACs(t.Context(), s, m.client.get); err != nil || len(own) != maxLinks {
		t.Errorf("%d ports, %v", len(own), err)
	}
}

// That a machine was alone behind its BMC counts for the login over which that was seen, and for
// nothing where there is none.
func TestWhoWasAloneIsNotSoForEver(t *testing.T) {
	want := site.Identity{Serial: "ENC"}
	both := map[string]string{"N1": sled("N1", "ENC", ""), "N2": sled("N2", "ENC", "")}
	b := sledsOf(t, map[string]string{"N1": sled("N1", "ENC", "")})
	m := nodeAt(t, b, "N1")
	if _, err := look(m, &site.Node{Identity: want}); err != nil {
		t.Fatal(err)
	}
	if err := m.toldApart(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	other := nodeAt(t, sledsOf(t, both), "N1") // as a card that was exchanged
	if _, err := look(other, &site.Node{Identity: want}); err != nil {
		t.Fatal(err)
	}
	other.alone = m.alone
	if err := other.toldApart(t.Context(), want); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("alone at an earlier login: %v", err)
	}
	other.alone, other.client.in = nil, nil
	if err := other.toldApart(t.Context(), want); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("before any login: %v", err)
	}
}
