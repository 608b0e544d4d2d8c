package control

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/slipway-gitops/slipway/engine/site"
)

// A page of the audit log that is short, because entries were dropped while it was read, is not the last one.
func TestAuditGoesOnAfterAShortPage(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string][]site.AuditEntry{"0": {{Seq: 7}, {Seq: 9}}, "9": {{Seq: 10}}}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(append([]site.AuditEntry{}, pages[r.URL.Query().Get("after")]...))
	})}
	go server.Serve(l)
	defer server.Close()
	all, err := Dial(socket).Audit(t.Context(), "berlin", 0, "")
	if err != nil || len(all) != 3 || all[2].Seq != 10 {
		t.Errorf("got %v, %v", all, err)
	}
}
